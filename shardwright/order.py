"""Order as a pure function: who a document is, where its sample stands, which shard holds it. docs/FORMAT.md section 1.

Everything here depends on its arguments alone: no runner, worker count, file order or clock.
"""

import struct
from collections.abc import Sequence
from fractions import Fraction

from xxhash import xxh3_64_digest, xxh3_128_digest

KEY_BYTES = 16
NO_TEXT = bytes(16)
"""Text digest of an empty text: it is nobody's twin."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def frame(value: str) -> bytes:
    """`value` behind its length, so that ("a", "bc") and ("ab", "c") hash differently."""
    data = value.encode()
    return _U32.pack(len(data)) + data


def id_digest(fields: Sequence[str], values: Sequence[str]) -> bytes:
    """The 16-byte digest that stands for a raw id: `values` of the id `fields`, in the configured order."""
    return xxh3_128_digest(frame(",".join(fields)) + b"".join(map(frame, values)))


def order_key(seed: int, id16: bytes) -> bytes:
    """The 16 bytes whose ascending order is the global shuffle; another seed, another order."""
    return xxh3_128_digest(_U64.pack(seed) + id16)


def salted_hash(salt: str, id16: bytes) -> bytes:
    """The 16 bytes that choose and order held-out documents; the shuffle seed does not move them."""
    return xxh3_128_digest(frame(salt) + id16)


def fraction_bound(fraction: float) -> bytes:
    """Ids whose salted hash is below these 16 bytes are held out by `fraction` (0 <= fraction < 1)."""
    return int(Fraction(fraction) * 2**128).to_bytes(KEY_BYTES, "big")


def text_digest(text: bytes) -> bytes:
    """The 16 bytes by which two equal texts (UTF-8) are found; `NO_TEXT` for an empty one."""
    return xxh3_128_digest(text) if text else NO_TEXT


def content_digest(row: bytes) -> bytes:
    """The 16 bytes that stand for everything a row emits; the smallest stays among documents of one id."""
    return xxh3_128_digest(row)


def sample_digest(sample: bytes) -> bytes:
    """xxh3_64 of a sample's bytes in its shard, as the 8 little-endian bytes of `.sig`."""
    return xxh3_64_digest(sample)[::-1]


def shard_bounds(samples: int, shards: int) -> list[tuple[int, int]]:
    """Global ranks `[k*n//N, (k+1)*n//N)` of every shard: sizes differ by at most one sample."""
    return [(k * samples // shards, (k + 1) * samples // shards) for k in range(shards)]
