"""`nexus context --json` and `nexus drops --json`."""

from typing import Any, Literal, NotRequired, TypedDict

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
    """The budget of a request."""

    window: int
    reserve_reply: int
    reserve_tools: int
    available: int
    """The window minus the two reserves."""
    used: UsedObject
    remaining: int
    pressure: PressureLevel


class SectionObject(TypedDict):
    """A section of a request."""

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
    score: float
    tokens: int
    full_tokens: int
    form: Literal["full", "shortened", "outline", "pointer", "dropped"]
    reason: str
    """Form and cause on one line."""
    why: NotRequired[list[str | int] | None]
    """The cause in parts; only in `context.plan`."""
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
    """The history layer."""

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


class LargestPart(TypedDict):
    """One of the largest parts of the request."""

    what: str
    tokens: int
    entry: int | None


class ListedDrop(DropObject):
    """A drop in a list."""

    back: bool
    """It is in the window again."""
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


class ContextReport(TypedDict):
    """`nexus context --json`."""

    version: Literal[1]
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
    """Of `budget.used` to `counted`."""
    section_budget: SectionBudgetObject
    sections: list[SectionObject]
    joins: dict[str, int]
    """Tokens between the sections."""
    told: list[SectionObject]
    """Event sections that the newest request sent."""
    history: HistoryObject
    attachments: list[dict[str, Any]]
    tools: list[ToolTokens]
    largest: list[LargestPart]
    waiting: WaitingTexts
    cached: dict[str, int]
    """`tokens` that earlier requests began with."""
    drops: list[ListedDrop]
    left_out: int
    recalled: int
    limits: list[LimitObject]
    notices: list[str]
    pending: bool
    """False for a request that was sent."""
    prefix_sha256: str
    request_sha256: str | None


class DropsReport(TypedDict):
    """`nexus drops --json`."""

    version: Literal[1]
    session: str
    drops: list[ListedDrop]
    """Oldest first."""
    left_out: int
    """Those that are not back in the window."""
    recalled: int
