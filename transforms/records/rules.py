"""Filter rules: each returns a reason to drop a document, or None to keep it."""

from dataclasses import dataclass

from shardwright.layout import METADATA_TYPES
from transforms.records.document import Document


@dataclass(frozen=True)
class RequireTypes:
    """Keeps documents that carry every metadata type of `all_of` and, unless it is empty, one of `any_of`."""

    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()

    def __call__(self, document: Document) -> str | None:
        """`missing:<type>` for the first type of `all_of` that is absent, `missing-any:<a|b>`, or None."""
        for kind in self.all_of:
            if not document.types & type_bit(kind):
                return f"missing:{kind}"
        if self.any_of and not any(document.types & type_bit(kind) for kind in self.any_of):
            return f"missing-any:{'|'.join(self.any_of)}"
        return None


def type_bit(kind: str) -> int:
    """The bit of metadata type `kind` in a type mask."""
    return 1 << METADATA_TYPES.index(kind)


def types_of(mask: int) -> list[str]:
    """The metadata types in a type mask."""
    return [kind for kind in METADATA_TYPES if mask & type_bit(kind)]
