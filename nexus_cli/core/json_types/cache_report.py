"""`nexus cache --json`, `nexus cache why --json` and `nexus replay --json`."""

from typing import Any, Literal, NotRequired, TypedDict


class CacheRow(TypedDict):
    """The cache figures of a request."""

    lane: str
    """The agent of a side lane."""
    step: int
    at: str
    model: str
    epoch: int
    input: int | None
    reported: bool
    expected: int
    read: int | None
    written: int | None
    missed: int
    hit: float | None
    """Share of the input that was read from the cache."""
    cost_usd: float | None
    """The extra cost of the miss."""
    cause: str
    ours: bool | None
    """True if nexus caused the miss; null if unknown."""
    why: str


class CacheTotal(TypedDict):
    """Sums over a session."""

    requests: int
    unanswered: int
    input: int
    read: int
    written: int
    hit: float | None
    missed: int
    cost_usd: float | None
    misses: int
    ours: int
    not_ours: int
    unknown: int


class CacheReport(TypedDict):
    """`nexus cache --json`."""

    version: Literal[1]
    session: str
    requests: list[CacheRow]
    total: CacheTotal
    rewrites: list[dict[str, Any]]
    """Rewrites of the window, with their price."""


class CacheDifference(TypedDict):
    """The first difference to the previous request."""

    kind: str
    what: str
    before: str
    after: str
    source: str
    by: str


class CacheLifeObject(TypedDict):
    """The cache lifetime at the provider."""

    kept_seconds: list[float]
    """Guaranteed and maximal lifetime."""
    minimum: int
    step: int
    automatic: bool
    documented: bool


class MissReport(CacheRow):
    """`nexus cache why --json`."""

    version: Literal[1]
    session: str
    previous: int | None
    previous_session: str | None
    previous_input: int | None
    shared: int
    difference: CacheDifference | None
    age_seconds: float | None
    cache: CacheLifeObject | None


class ReplayReport(TypedDict):
    """`nexus replay --json`."""

    version: Literal[1]
    session: str
    ok: bool
    requests: int
    first_difference: str | None
    wire: NotRequired[dict[str, Any]]
    """With --wire."""
