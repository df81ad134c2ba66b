"""One sample as tar members, and back: POSIX ustar, headers by hand. docs/FORMAT.md section 4."""

from collections.abc import Iterable

from shardwright.errors import Damaged

BLOCK = 512
END = bytes(2 * BLOCK)
"""The end-of-archive marker that closes a shard."""

SUFFIX = ".tar"

# A header is name (100 bytes), owner, size (12), time, checksum (8), rest; the sum counts the checksum as eight spaces.
_OWNER = b"0000444\0" + b"0000000\0" * 2
_TIME = b"00000000000\0"
_REST = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
_SUM = sum(_OWNER + _TIME + _REST) + 8 * ord(" ")


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
    data, digits = name.encode("ascii"), b"%011o\0" % size
    if len(data) > 100:
        raise ValueError(f"tar member name longer than 100 bytes: {name!r}")
    if not 0 <= size < 8**11:
        raise ValueError(f"tar member {name!r}: ustar holds less than 8 GiB, found {size} bytes")
    checksum = b"%06o\0 " % (_SUM + sum(data) + sum(digits))
    return data.ljust(100, b"\0") + _OWNER + digits + _TIME + checksum + _REST


def _member(blob: bytes, offset: int, where: str) -> tuple[str, bytes, int]:
    header = blob[offset : offset + BLOCK]
    try:
        name, size = header[:100].rstrip(b"\0").decode("ascii"), int(header[124:135], 8)
        ours = header == _header(name, size)
    except ValueError:
        ours = False
    if not ours:
        raise Damaged(
            f"{where}: bad tar header at byte {offset} of the sample: not one of a regular file of this format"
        )
    start = offset + BLOCK
    stop = start + size
    padded = stop + -size % BLOCK
    if padded > len(blob) or blob.count(0, stop, padded) != padded - stop:
        raise Damaged(f"{where}: tar member {name!r} is not a whole regular file of {size} bytes")
    return name, blob[start:stop], padded
