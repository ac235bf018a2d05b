"""`nexus cache --json`, `nexus cache why --json` and `nexus replay --json`."""

from typing import TypedDict

from nexus_cli.core.json_types import ReportOfSession


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


class RewriteRow(TypedDict):
    """A rewrite of the window: compaction, truncation, removal of stale results, a new system text."""

    at: str
    cause: str
    epoch: int
    cold: int
    """Tokens that the next request sent uncached because of the rewrite."""
    saved: int
    """Tokens that it removed from each later request."""
    steps: int
    """Further steps that were expected."""
    cost: float | None
    """Dollars for the cold tokens."""
    gain: float | None
    """Dollars that it was expected to save."""
    pays: bool
    why: str
    summary_usd: float | None
    """Dollars for the requests of its summary, 0 without one."""
    saved_usd_each: float | None
    """Dollars saved in each later request."""
    break_even: int | None
    """Requests after which it has paid for itself; null: never."""
    requests: int
    """Requests that followed, up to the next compaction, truncation or new system text."""
    uncached: int | None
    """Tokens of the first request after it that were not read from the cache."""
    net_usd: float | None
    """The balance so far: dollars saved in these requests minus the cost."""


class CacheReport(ReportOfSession):
    """`nexus cache --json`."""

    requests: list[CacheRow]
    total: CacheTotal
    rewrites: list[RewriteRow]
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


class MissReport(CacheRow, ReportOfSession):
    """`nexus cache why --json`."""

    previous: int | None
    previous_session: str | None
    previous_input: int | None
    shared: int
    difference: CacheDifference | None
    age_seconds: float | None
    cache: CacheLifeObject | None
    rewrites: list[RewriteRow]


class ReplayReport(ReportOfSession):
    """`nexus replay --json`."""

    ok: bool
    requests: int
    first_difference: str | None
