"""The results of the server's methods; `send` and `get_context` return objects of other modules."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from nexus_cli.core.errors import ErrorObject
from nexus_cli.core.event import LineEvent, StreamLine
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import LevelFields

EventLine = Annotated[JsonDict, LineEvent]
"""The line of an event: the fields of its class in `core/event.py`, and those of `StreamLine`."""


AgentActivity = Literal["idle", "running", "asking", "waiting"]


class Acknowledged(TypedDict):
    """`steer`, `cancel`, `approve`, `shutdown`."""

    ok: Literal[True]


class AgentLimits(TypedDict, total=False):
    """Limits of each turn of an agent. A missing limit does not apply."""

    max_steps: int
    """Model requests."""
    max_total_tokens: int
    """Input and output tokens."""
    max_cost: float
    """US dollars."""
    timeout: float
    """Seconds."""


class CreatedAgent(LevelFields):
    """`create_agent`."""

    agent_id: str
    session: str
    limits: AgentLimits
    """The active limits, also from settings and recipe."""


class ListedAgent(LevelFields):
    agent_id: str
    session: str
    state: AgentActivity
    model: str
    used: int
    """Tokens of its window."""
    next: int
    """The number of its next event."""


class AgentList(TypedDict):
    """`list_agents`."""

    agents: list[ListedAgent]


class DestroyedAgent(TypedDict):
    """`destroy_agent`."""

    destroyed: Literal[True]


class CompactResult(TypedDict):
    """`compact`."""

    before: int
    after: int
    why: str
    """The reason if the summary was rejected, else empty."""


class TokenUsage(TypedDict):
    """`get_tokens`."""

    system: int
    tools: int
    messages: int
    total: int
    budget: int
    available: int


class TerminalCall(TypedDict):
    """Something that a command did at the person's terminal, for a client to repeat."""

    method: Literal["say", "show", "fill", "attach", "start", "save", "choose", "reopened"]
    """Print a `text`; print a `value` in a `form`; put a `text` into the input box; attach a `block`, described by
    `what`, to the next message; start a turn with a `text` (without one: continue), which the person has `typed` or
    not; write a `text` to the file `name`, or `default` in that folder; let the person choose one of `choices` below a
    `title` and answer with the method `choose` and the `id`; another session is open, whose end is new to the person
    if `shows`."""
    params: JsonDict


class CommandResult(TypedDict):
    """`run_command`."""

    calls: list[TerminalCall]
    """In order."""
    value: JsonDict | None
    """The object of `--json`: what the command read, or the ids of what it changed; null if it reports nothing."""
    error: ErrorObject | None
    """Error of the command after these calls."""


class UnqueuedTexts(TypedDict):
    """`unqueue`."""

    texts: list[str]
    """The messages that were removed from the queue, oldest first."""


class ReleasedWorkers(TypedDict):
    """`release`."""

    workers: list[str]
    """Ids of the workers that now work in the background."""


class WorktreeDiff(TypedDict):
    """`worktree_diff`."""

    diff: str
    """A patch; with `stat` the changed lines of each file."""


class RemovedWorktree(TypedDict):
    """`worktree_remove`."""

    removed: Literal[True]
    note: str
    """Commits that can still be reached, or empty."""


class OwnCommand(TypedDict):
    """A command that the person or the project has written, or a prompt of an MCP server."""

    name: str
    usage: str
    """Its arguments."""
    help: str


class CommandList(TypedDict):
    """`list_commands`."""

    commands: list[OwnCommand]


MAX_ATTACHED = 20
"""Most texts that wait in a session for the clients of a server."""


class AttachedObject(TypedDict):
    """A text for the next message."""

    block: str
    what: str
    """Its name for people."""


class ConversationObject(TypedDict):
    """`get_conversation`."""

    end: JsonDict
    """The session and its newest turn: `short` id, `name`, time, `turns`, `open` calls, whether it is `finished`."""
    turns: list[list[EventLine]]
    """The newest turns, the newest first, each as events of the stream."""
    attached: list[AttachedObject]
    """Texts that clients attached, until a message has them or `unqueue` removes them."""
    next: int
    """The number of the first event that may not be in `turns`."""


class MessageFunction(TypedDict):
    """A call in a message."""

    name: str
    arguments: str
    """JSON."""


class MessageCall(TypedDict):
    """A tool call in a message."""

    id: str
    type: Literal["function"]
    function: MessageFunction


class MessageObject(TypedDict):
    """A message in the form of Chat Completions."""

    entry: int
    """Its number in the session."""
    at: str
    """ISO 8601, UTC."""
    role: str
    content: str
    tool_calls: NotRequired[list[MessageCall]]
    tool_call_id: NotRequired[str]


class MessageList(TypedDict):
    """`get_messages`."""

    messages: list[MessageObject]
    """Oldest first."""
    total: int


class GapLine(StreamLine):
    """In the place of events that are no longer kept."""

    type: Literal["gap"]
    first: int
    """The number of the first of them."""
    last: int


class CutLine(TypedDict):
    """The last event of a client that read too slowly; it has no number."""

    v: Literal[1]
    type: Literal["cut"]
    why: str


ServerEvent = JsonDict
"""An event of an agent, as the server sends it: an `EventLine`, `ResultLine`, `GapLine` or `CutLine`."""
