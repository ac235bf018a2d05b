"""The results of the server's methods; `send` and `get_context` return objects of other modules."""

from typing import Any, Literal, TypedDict

from nexus_cli.core.json_types.ask_result import ErrorObject

AgentActivity = Literal["idle", "running", "asking", "waiting"]


class Acknowledged(TypedDict):
    """`steer`, `cancel`, `approve`, `shutdown`."""

    ok: Literal[True]


class CreatedAgent(TypedDict):
    """`create_agent`."""

    agent_id: str
    session: str


class ListedAgent(TypedDict):
    """An agent."""

    agent_id: str
    session: str
    state: AgentActivity
    model: str
    used: int
    """Tokens of its window."""
    allow: str
    """Its permission level."""
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

    method: Literal["say", "show", "fill", "attach", "start"]
    """Print a `text`; print a `value` in a `form`; put a `text` into the input box; attach a `block`, described by
    `what`, to the next message; start a turn with a `text` (without one: continue), which the person has `typed` or
    not."""
    params: dict[str, Any]


class CommandResult(TypedDict):
    """`run_command`."""

    calls: list[TerminalCall]
    """In order."""
    error: ErrorObject | None
    """Error of the command after these calls."""


class Conversation(TypedDict):
    """`get_conversation`."""

    end: dict[str, Any]
    """The session and its newest turn: `short` id, `name`, time, `turns`, `open` calls, whether it is `finished`."""
    turns: list[list[dict[str, Any]]]
    """The newest turns, the newest first, each as events of the stream."""


class MessageList(TypedDict):
    """`get_messages`."""

    messages: list[dict[str, Any]]
    """Oldest first."""
    total: int
