"""A document as the final bytes of a sample, and the row back out of them."""

from dataclasses import dataclass

from shardwright import tar
from transforms.records.document import Document


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
