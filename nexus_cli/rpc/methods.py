"""The methods of the server: one table that checks calls and generates `/openrpc.json`.

A method of an agent (`of_agent`) is the coroutine of that name in `AgentDispatcher`; the others are in `PoolMethods`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli import __version__
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_types.ask_result import AskResult
from nexus_cli.core.json_types.context_report import ContextReport
from nexus_cli.core.json_types.json_schema import json_schema
from nexus_cli.core.json_types.server_results import (
    Acknowledged,
    AgentList,
    CommandResult,
    CompactResult,
    Conversation,
    CreatedAgent,
    DestroyedAgent,
    MessageList,
    TokenUsage,
)
from nexus_cli.core.limits import LEVEL_NAMES, LEVELS
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.rpc.client_approver import ANSWERS
from nexus_cli.rpc.dispatcher import MOST_MESSAGES, STOPPING
from nexus_cli.rpc.jsonrpc import (
    BUSY,
    INVALID_PARAMS,
    MEANINGS,
    NO_SUCH_AGENT,
    NO_SUCH_METHOD,
    REFUSED,
    TURN_FAILED,
    RpcError,
)
from nexus_cli.rpc.pool import Agent, AgentConfig, AgentPool

MOST_TURNS = 100
MOST_OFFSET = 2**53 - 1
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a method."""

    name: str
    about: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False

    def problem(self, value: Any) -> str:
        """Return the reason that a value is invalid, "" if it is valid."""
        if self.schema["type"] == "integer":
            if not isinstance(value, int) or isinstance(value, bool):
                return f"{self.name} has to be a whole number"
            least, most = self.schema["minimum"], self.schema["maximum"]
            return "" if least <= value <= most else f"{self.name} has to be between {least} and {most}"
        if self.schema["type"] == "array":
            is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
            return "" if is_list else f"{self.name} has to be a list of strings"
        if not isinstance(value, str):
            return f"{self.name} has to be a string"
        names = self.schema.get("enum")
        return f"{self.name} is one of {', '.join(names)}" if names and value not in names else ""


@dataclass(frozen=True, slots=True)
class Method:
    """One method."""

    name: str
    about: str
    params: tuple[Param, ...] = ()
    result: type = Acknowledged
    """The `TypedDict` of its result."""
    errors: tuple[int, ...] = ()
    """Our error codes that it can return."""
    of_agent: bool = True
    """True if it acts on one agent, named by `agent_id`."""

    @property
    def all_params(self) -> tuple[Param, ...]:
        """Its parameters; a method of an agent has `agent_id` first."""
        return (AGENT_ID, *self.params) if self.of_agent else self.params

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `RpcError` unless `params` match the method."""
        known = {param.name: param for param in self.all_params}
        unknown = [name for name in params if name not in known]
        missing = [name for name, param in known.items() if param.required and name not in params]
        problems = [f"{name[:80]!r} is no parameter of {self.name}" for name in unknown[:3]]
        problems += [f"{name} is missing" for name in missing]
        problems += filter(None, (known[name].problem(value) for name, value in params.items() if name in known))
        if problems:
            raise RpcError(INVALID_PARAMS, "; ".join(problems))


AGENT_ID = Param("agent_id", "The agent.", required=True)


def _number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_CONTENT = Param("content", "The words of the person.", required=True)

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "create_agent",
            "Make an agent: a session of its own.",
            (
                Param("agent_id", "Letters, digits, '.', '_', '-', at most 64; without one it is made."),
                Param("system_prompt", "The whole system text, in the place of that of nexus."),
                Param("model", "A litellm name or an alias; the server's without one."),
                Param(
                    "allow",
                    "What runs without asking: never more than the server allows.",
                    {"type": "string", "enum": [*LEVELS, *(name for name in LEVEL_NAMES if name not in LEVELS)]},
                ),
                Param("cwd", "Its working folder; the server's without one."),
                Param("recipe", "The recipe of the session."),
            ),
            CreatedAgent,
            (BUSY, REFUSED),
            of_agent=False,
        ),
        Method("list_agents", "List the agents.", (), AgentList, of_agent=False),
        Method(
            "destroy_agent",
            "Stop an agent and forget it. Its session stays.",
            (AGENT_ID,),
            DestroyedAgent,
            (NO_SUCH_AGENT,),
            of_agent=False,
        ),
        Method(
            "send",
            "Run a turn. With `Accept: text/event-stream` the answer is its events, the last of them the result. "
            "A busy agent takes it afterwards; empty content goes on with a turn that was cut short.",
            (
                _CONTENT,
                Param("images", "Images in base64, to go with it.", {"type": "array", "items": TEXT}),
            ),
            AskResult,
            (NO_SUCH_AGENT, BUSY, TURN_FAILED),
        ),
        Method(
            "steer",
            "Say something to the running turn, delivered after its tool calls.",
            (_CONTENT,),
            errors=(NO_SUCH_AGENT, REFUSED),
        ),
        Method("cancel", "Stop the running turn. Completed steps are kept.", errors=(NO_SUCH_AGENT,)),
        Method(
            "approve",
            "Answer the question of an `approval.ask` event.",
            (
                Param("id", "The id of its call; of a worker's call behind the worker's id: `w1:c3`.", required=True),
                Param(
                    "answer",
                    "Allow it, also for the session, or not.",
                    {"type": "string", "enum": list(ANSWERS)},
                    required=True,
                ),
                Param("words", "With `no`: what the model is told."),
            ),
            errors=(NO_SUCH_AGENT, REFUSED),
        ),
        Method(
            "compact",
            "Summarize older messages.",
            (Param("instructions", "What the summary has to keep."),),
            CompactResult,
            (NO_SUCH_AGENT, BUSY),
        ),
        Method(
            "run_command",
            "Run a slash command beside the session: one that reads or changes this session alone.",
            (
                Param("name", "Its name, without the slash.", required=True),
                Param("arguments", "The rest of the line."),
            ),
            CommandResult,
            (NO_SUCH_AGENT, BUSY, REFUSED),
        ),
        Method(
            "get_tokens",
            "Return the tokens of the window.",
            (),
            TokenUsage,
            (NO_SUCH_AGENT,),
        ),
        Method(
            "get_context",
            "Return what the next request holds, as `nexus context --json` does.",
            (),
            ContextReport,
            (NO_SUCH_AGENT, REFUSED),
        ),
        Method(
            "get_messages",
            "Return messages of the session, the oldest first, also those that the window no longer shows.",
            (
                Param("offset", "Messages to skip.", _number(0, MOST_OFFSET)),
                Param("limit", "Messages to return; 100 without it.", _number(1, MOST_MESSAGES)),
            ),
            MessageList,
            (NO_SUCH_AGENT,),
        ),
        Method(
            "get_conversation",
            "Return the newest turns as events, as a client shows them on return.",
            (Param("turns", "Turns to return; 10 without it.", _number(1, MOST_TURNS)),),
            Conversation,
            (NO_SUCH_AGENT, REFUSED),
        ),
        Method("shutdown", "End the server: running turns finish their step.", of_agent=False),
    )
}
"""Every method by its name."""


class PoolMethods:
    """The methods of the pool, and the calls of its agents' methods."""

    def __init__(self, pool: AgentPool, folder: Path, shutdown: Callable[[], object]) -> None:
        """A caller's relative `cwd` is below `folder`; `shutdown` is called once and must not block."""
        self.pool = pool
        self._folder = folder
        self._shutdown = shutdown
        self.is_stopping = False

    async def call(self, name: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a method; raise `RpcError` for every failure that a caller may see."""
        target: Any = self
        if self.find_method(name, params).of_agent:
            params = dict(params)
            target = self.find_agent(params.pop("agent_id")).dispatcher
        function: Callable[..., Awaitable[Any]] = getattr(target, name)
        try:
            return await function(**params)
        except NexusError as error:
            raise RpcError.of(error) from error

    def find_method(self, name: str, params: Mapping[str, Any]) -> Method:
        """Return the method; raise `RpcError` if it does not exist or does not take `params`."""
        method = METHODS.get(name)
        if method is None:
            raise RpcError(NO_SUCH_METHOD, name[:80])
        method.check(params)
        return method

    def find_agent(self, agent_id: str) -> Agent:
        """Return an agent; raise `RpcError` if it does not exist."""
        agent = self.pool.get(agent_id)
        if agent is None:
            raise RpcError(NO_SUCH_AGENT, agent_id[:80])
        return agent

    async def create_agent(
        self,
        agent_id: str = "",
        system_prompt: str | None = None,
        model: str = "",
        allow: str | None = None,
        cwd: str = "",
        recipe: str = "",
    ) -> CreatedAgent:
        """See `METHODS`."""
        if self.is_stopping:
            raise RpcError(BUSY, STOPPING)
        if "\0" in cwd:
            raise RpcError(INVALID_PARAMS, "cwd has a character that no path can have")
        folder = self._folder / os.path.expanduser(replace_surrogates(cwd))
        made = await self.pool.create(agent_id, AgentConfig("", system_prompt, model, allow, folder, recipe))
        return {"agent_id": made.agent_id, "session": made.session.id}

    async def list_agents(self) -> AgentList:
        """See `METHODS`."""
        return {
            "agents": [
                {
                    "agent_id": agent.agent_id,
                    "session": agent.session.id,
                    "state": agent.dispatcher.state,
                    "model": agent.session.model,
                    "used": agent.dispatcher.used,
                    "next": agent.dispatcher.feed.next,
                    "allow": agent.session.state.limits.allow or LEVELS[0],
                }
                for agent in self.pool.list()
            ]
        }

    async def destroy_agent(self, agent_id: str) -> DestroyedAgent:
        """See `METHODS`."""
        self.find_agent(agent_id)
        await self.pool.destroy(agent_id)
        return {"destroyed": True}

    async def shutdown(self) -> Acknowledged:
        """See `METHODS`."""
        self.is_stopping = True
        self._shutdown()
        return {"ok": True}


def openrpc_document() -> dict[str, Any]:
    """Return the OpenRPC description of the methods."""
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "nexus",
            "version": __version__,
            "description": "POST /rpc, JSON-RPC 2.0. GET /agents/AGENT_ID/events: server-sent events of an agent.",
        },
        "methods": [_describe(method) for method in METHODS.values()],
    }


def _describe(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.about,
        "paramStructure": "by-name",
        "params": [
            {
                "name": param.name,
                "description": param.about,
                "required": param.required,
                "schema": dict(param.schema),
            }
            for param in method.all_params
        ],
        "result": {"name": f"{method.name}_result", "schema": json_schema(method.result)},
        "errors": [{"code": code, "message": MEANINGS[code]} for code in method.errors],
    }
