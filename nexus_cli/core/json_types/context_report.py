"""`nexus context --json` and `nexus drops --json`."""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types import ReportOfSession, VersionedReport
from nexus_cli.core.json_types.ask_result import DropObject

PressureLevel = Literal["normal", "high", "critical"]


class UsedObject(TypedDict):
    """Tokens by layer."""

    system: int
    tools: int
    history: int
    event: int
    total: int


class BudgetObject(TypedDict):
    window: int
    reserve_reply: int
    reserve_tools: int
    available: int
    """The window minus the two reserves."""
    used: UsedObject
    remaining: int
    pressure: PressureLevel


class SectionObject(TypedDict):
    id: str
    layer: Literal["system", "event"]
    phase: str
    order: int
    priority: int
    weight: float
    sticky: bool
    source: str
    unread_bytes: int
    """Bytes of its file that were not read."""
    multiplier: float
    """The multiplier of the recipe times the learned multiplier."""
    learned: NotRequired[float]
    """The learned multiplier if it is not 1 (`sections.learn`)."""
    score: float
    tokens: int
    full_tokens: int
    form: Literal["full", "shortened", "outline", "pointer", "dropped"]
    reason: str
    """Form and cause on one line."""
    why: NotRequired[list[str | int] | None]
    """The parts of the cause; only in `context.plan`."""
    drop: str | None
    off: bool
    """Its multiplier is 0."""
    sha256: str | None
    cached: bool
    counted: NotRequired[int]
    """Tokens by nexus's own count."""
    full_counted: NotRequired[int]


class SectionBudgetObject(TypedDict):
    """The budget of the system layer's sections."""

    tokens: int
    used: int
    raised: bool
    unit: str


class HistoryObject(TypedDict):
    entries: int
    groups: int
    tokens: int
    hidden_entries: int
    by_kind: dict[str, int]


class ToolTokens(TypedDict):
    """A tool schema."""

    name: str
    tokens: int
    counted: int


class ServerTokens(TypedDict):
    """The share of an MCP server in the request."""

    name: str
    schemas: int
    """Tokens of the schemas of tools that are sent individually."""
    results: int
    """Tokens of the results of its calls in the window."""


class LargestPart(TypedDict):
    """One of the largest parts of the request."""

    what: str
    tokens: int
    entry: int | None


class ListedDrop(DropObject):
    back: bool
    """True if it is in the window again."""
    unit: str


class LimitObject(TypedDict):
    """A limit in force."""

    name: str
    value: Any
    bound_by: str
    """The layers that set this value."""
    said: dict[str, Any]
    """The value of each layer."""


class WaitingTexts(TypedDict):
    """Texts that wait for your next message."""

    texts: int
    tokens: int
    counted: int


class ContextReport(VersionedReport):
    """`nexus context --json`."""

    session: str | None
    """null for the first request of a new session."""
    model: str
    recipe: str
    epoch: int
    cursor: int
    """The last entry that was sent."""
    basis: str
    budget: BudgetObject
    counted: UsedObject
    """Tokens by nexus's own count."""
    scale: float
    """Factor from `counted` to `budget.used`."""
    section_budget: SectionBudgetObject
    sections: list[SectionObject]
    joins: dict[str, int]
    """Tokens between the sections."""
    told: list[SectionObject]
    """Event sections that the newest request sent."""
    history: HistoryObject
    attachments: list[dict[str, Any]]
    tools: list[ToolTokens]
    servers: list[ServerTokens]
    largest: list[LargestPart]
    waiting: WaitingTexts
    cached: dict[str, int]
    """`tokens`: common beginning with earlier requests; `expected`: of those of the next one, the ones still cached."""
    drops: list[ListedDrop]
    left_out: int
    recalled: int
    limits: list[LimitObject]
    notices: list[str]
    pending: bool
    """False for a request that was sent."""
    prefix_sha256: str
    request_sha256: str | None


class DropsReport(ReportOfSession):
    """`nexus drops --json`."""

    drops: list[ListedDrop]
    """Oldest first."""
    left_out: int
    """Number of drops not back in the window."""
    recalled: int


class SeenSection(TypedDict):
    """A section in one of the requests."""

    form: str
    tokens: int
    sha256: str | None


class ToldSection(SeenSection):
    """An event section that was sent with a request."""

    id: str


class SectionDifference(ToldSection):
    """A section that only one of the requests had."""

    counted: int


class ChangedSection(TypedDict):
    """A section that differs."""

    id: str
    before: SeenSection
    after: SeenSection


class SectionDifferences(TypedDict):
    """Sections of the system layer that differ."""

    added: list[SectionDifference]
    removed: list[SectionDifference]
    changed: list[ChangedSection]


class EntryDifference(TypedDict):
    """An entry that only one of the requests had."""

    entry: int
    form: str
    what: str
    tokens: int


class EntryDifferences(TypedDict):
    """Entries that differ."""

    added: list[EntryDifference]
    removed: list[EntryDifference]


class ToolDifferences(TypedDict):
    """Tool schemas that differ."""

    added: list[str]
    removed: list[str]
    changed: list[str]


class DifferenceReport(ReportOfSession):
    """`nexus context --diff --json`."""

    step: int
    before: int | None
    """The previous request."""
    model: dict[str, str | None]
    """`before`, `after`."""
    epoch: dict[str, Any]
    """`before`, `after`, and the `cause` of a new one."""
    tokens: dict[str, int]
    sections: SectionDifferences
    told: list[ToldSection]
    """Event sections that were sent with the message."""
    tools: ToolDifferences
    entries: EntryDifferences


class PriceReport(VersionedReport):
    """`nexus ask --price`."""

    session: str | None
    """The session that the turn would resume."""
    model: str
    input: int
    """Input tokens of the turn's first request."""
    cached: int
    """Tokens that should be in the provider's cache."""
    cost_usd: float | None
    """Price of the input, without the answer; null if a price is unknown."""
    cold: bool
    """True if nothing of it should be in the cache."""
    compacts: bool
    """True if the session would be compacted first: the request is shown as it is before that."""
    used: UsedObject
    sections: list[SectionObject]
