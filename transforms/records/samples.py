"""A document as the final bytes of a sample, and the row back out of them."""

from dataclasses import dataclass
from typing import Protocol

from shardwright import tar
from transforms.records import held_out
from transforms.records.document import Document


class Encoder(Protocol):
    """Makes a sample's final bytes, once, and takes them apart again."""

    @property
    def suffix(self) -> str:
        """Of the shard's name, with its dot."""

    @property
    def end(self) -> bytes:
        """What closes a shard."""

    def __call__(self, key: bytes, document: Document) -> bytes:
        """The sample's bytes under order key `key`."""

    def decode(self, blob: bytes, where: str) -> tuple[bytes, bytes, bytes]:
        """(order key, row, text) of those bytes."""

    def versions(self) -> dict[str, str]:
        """The encoders, besides our own format, that decide those bytes."""


def encoder_versions(encode: Encoder) -> dict[str, str]:
    """The encoders in this process that decide bytes of a build."""
    return {**encode.versions(), **held_out.versions()}


@dataclass(frozen=True)
class TarTextEncoder:
    """The text profile: `KEY.json` is the row, `KEY.txt` its text; the same suffixes in every sample."""

    suffix: str = tar.SUFFIX
    end: bytes = tar.END

    def __call__(self, key: bytes, document: Document) -> bytes:
        """The sample's bytes, a function of the order key and the document alone."""
        return tar.encode(key.hex(), [("json", document.row), ("txt", document.text)])

    def decode(self, blob: bytes, where: str) -> tuple[bytes, bytes, bytes]:
        """(order key, row, text) of a sample's bytes. Raises Damaged, naming `where`."""
        key, parts = tar.decode(blob, where)
        return bytes.fromhex(key), parts["json"], parts["txt"]

    def versions(self) -> dict[str, str]:
        """What else but our own format decides these bytes: nothing, ustar headers have no version."""
        return {}
