"""What every stage of one build must know: small, frozen, plain values that travel to the workers with the stages."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Limit:
    """How much may be rejected: a `count`, or a `share` of all (0 to 1). Exactly one is given; ValueError otherwise."""

    count: int | None = None
    share: Decimal | None = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.share is None):
            raise ValueError("a limit is a count or a share: give one of them")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a count is 0 or more, found {self.count}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"a share is from 0 to 1, found {self.share}")

    def allows(self, n: int, of: int) -> bool:
        """Whether `n` rejected of `of` in all stay within the limit. A share is exact: 29% of 100 allows 29."""
        if self.share is not None:
            return n <= self.share * of
        return self.count is not None and n <= self.count

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{(self.share * 100).normalize():f}%"


@dataclass(frozen=True)
class Input:
    """One input file as the plan saw it. `number` is its place in the manifest's list, sorted by uri."""

    number: int
    uri: str
    bytes: int
    mtime_ns: int
    held_out: bool


@dataclass(frozen=True)
class HeldOut:
    """Which documents are held out besides those of held-out inputs: ids whose hash under `salt` falls into
    `fraction`.
    """

    salt: str
    fraction: float


@dataclass(frozen=True)
class BuildSpec:
    """One build. `root` is the output folder, which all workers share; `config` and `versions` go into the manifest
    as they are.
    """

    root: str
    job: str
    fingerprint: str
    seed: int
    id_fields: tuple[str, ...]
    held_out: HeldOut
    duplicates_are_errors: bool
    shards: int
    rejected_inputs: Limit
    rejected_rows: Limit
    config: str
    versions: str
    segment_bytes: int = 64 << 20
    """Spill's memory budget: encoded samples held before they are sorted and written. Part of a run's bytes, so never
    a matter of the machine.
    """
    batch_bytes: int = 32 << 20
    """Gather's memory budget: payload read at once."""
