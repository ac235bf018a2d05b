"""The results of the server's methods; `send` and `get_context` return objects of other modules."""

from typing import Any, Literal, TypedDict

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


class MessageList(TypedDict):
    """`get_messages`."""

    messages: list[dict[str, Any]]
    """Oldest first."""
    total: int
