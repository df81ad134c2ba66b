"""What shardwright raises on purpose: one base class, so that whoever calls can tell our words from a crash."""


class ShardwrightError(Exception):
    """A problem a person can act on. The message says what, where, expected against found, and what to do next."""


class NotSealed(ShardwrightError):
    """The folder holds no finished build: it is missing, half built, or its COMMIT does not match its manifest."""


class Damaged(ShardwrightError):
    """Bytes of a sealed build are not what its manifest, its `.sig` or its format says."""
