"""One sample as tar members, and back: POSIX ustar, by the standard library's headers. docs/FORMAT.md section 4."""

import tarfile
from collections.abc import Iterable

from shardwright.errors import Damaged

BLOCK = 512
END = bytes(2 * BLOCK)
"""The end-of-archive marker that closes a shard."""

SUFFIX = ".tar"


def encode(key: str, parts: Iterable[tuple[str, bytes]]) -> bytes:
    """The bytes of sample `key`: a member `key.suffix` for each (suffix, data), in the given order.

    They depend on the arguments alone (mode 0444, owner and time 0). Raises ValueError when a name passes 100 bytes,
    because wids reads no longer ones.
    """
    out: list[bytes] = []
    for suffix, data in parts:
        out += _header(f"{key}.{suffix}", len(data)), data, bytes(-len(data) % BLOCK)
    return b"".join(out)


def decode(blob: bytes, where: str) -> tuple[str, dict[str, bytes]]:
    """The key and the parts `{suffix: data}` of one sample's bytes, in member order.

    Raises Damaged, naming `where`, at anything but what `encode` writes, byte for byte.
    """
    parts: dict[str, bytes] = {}
    key, offset = "", 0
    while offset < len(blob):
        name, data, offset = _member(blob, offset, where)
        prefix, dot, suffix = name.partition(".")
        if not dot or (key and prefix != key) or suffix in parts:
            raise Damaged(f"{where}: unexpected tar member {name!r} in sample {key or prefix!r}")
        key, parts[suffix] = prefix, data
    if not parts:
        raise Damaged(f"{where}: a sample without members")
    return key, parts


def _header(name: str, size: int) -> bytes:
    if len(name) > 100:
        raise ValueError(f"tar member name longer than 100 bytes: {name!r}")
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o444
    return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def _member(blob: bytes, offset: int, where: str) -> tuple[str, bytes, int]:
    header = blob[offset : offset + BLOCK]
    try:
        info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        whole = header == _header(info.name, info.size)
    except (tarfile.HeaderError, ValueError) as error:
        raise Damaged(f"{where}: bad tar header at byte {offset} of the sample: {error}") from None
    start = offset + BLOCK
    stop = start + info.size
    padded = stop + -info.size % BLOCK
    if not whole or padded > len(blob) or blob.count(0, stop, padded) != padded - stop:
        raise Damaged(
            f"{where}: tar member {info.name!r} is not a whole regular file of {info.size} bytes as we write it"
        )
    return info.name, blob[start:stop], padded
