"""The methods of the server: one table that checks calls and generates `/openrpc.json`.

A method of an agent (`of_agent`) is the coroutine of that name in `AgentDispatcher`; the others are in `PoolMethods`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from nexus_cli import __version__
from nexus_cli.config.paths import places
from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import LineEvent
from nexus_cli.core.json_schema import json_keys, json_schema
from nexus_cli.core.json_types.ask_result import AskResult
from nexus_cli.core.json_types.context_report import ContextReport
from nexus_cli.core.json_types.report_types import SessionsReport
from nexus_cli.core.json_types.server_results import (
    Acknowledged,
    AgentLimits,
    AgentList,
    AppliedWorktree,
    CommandList,
    CommandResult,
    CompactResult,
    ConversationObject,
    CreatedAgent,
    CutLine,
    DestroyedAgent,
    GapLine,
    MessageList,
    RemovedWorktree,
    TokenUsage,
    UnqueuedTexts,
    WorkerList,
    WorktreeDiff,
)
from nexus_cli.core.json_types.setup_reports import WorktreesReport
from nexus_cli.core.json_types.stream_lines import ResultLine
from nexus_cli.core.limits import FORMER_NAMES, LEVELS, MAX_INT, Limits, level_fields
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.reports.sessions import list_sessions
from nexus_cli.reports.worktrees import find_project, worktrees_report
from nexus_cli.rpc.client_approver import ANSWERS
from nexus_cli.rpc.dispatcher import MOST_MESSAGES, STOPPING
from nexus_cli.rpc.jsonrpc import (
    BUSY,
    IN_USE,
    INVALID_PARAMS,
    MEANINGS,
    NO_SUCH_AGENT,
    NO_SUCH_METHOD,
    REFUSED,
    TURN_FAILED,
    RpcError,
)
from nexus_cli.rpc.pool import Agent, AgentConfig, AgentPool
from nexus_cli.session.status import Status
from nexus_cli.undo.follow_changes import follow_apply
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.worktrees import diff_worktree, find_worktree_of, remove_worktree

MOST_TURNS = 100
MOST_OFFSET = 2**53 - 1
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
YES: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}
AMOUNT: Schema = {"type": "number", "exclusiveMinimum": 0}
_TYPES: Mapping[str, tuple[str, Any]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", int | float),
    "boolean": ("true or false", bool),
    "array": ("a list of strings", list),
    "object": ("an object", dict),
}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a method."""

    name: str
    about: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False

    def problem(self, value: Any) -> str:
        """Return the reason that a value is invalid, "" if it is valid."""
        schema, kind = self.schema, self.schema["type"]
        named, types = _TYPES[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
            return f"{self.name} has to be {named}"
        if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
            return f"{self.name} has to be between {schema['minimum']} and {schema['maximum']}"
        if kind == "number" and not 0 < value < float("inf"):
            return f"{self.name} has to be above 0"
        if kind == "array" and not all(isinstance(one, str) for one in value):
            return f"{self.name} has to be {named}"
        if kind == "object":
            parts = schema["properties"]
            problems = (
                Param(f"{self.name}.{name}", "", parts[name]).problem(one)
                if name in parts
                else f"{name[:80]!r} is none of {self.name}: {', '.join(parts)}"
                for name, one in value.items()
            )
            return next(filter(None, problems), "")
        names = schema.get("enum")
        return f"{self.name} is one of {', '.join(names)}" if names and value not in names else ""


@dataclass(frozen=True, slots=True)
class Method:
    """One method."""

    name: str
    about: str
    params: tuple[Param, ...] = ()
    result: type = Acknowledged
    """The `TypedDict` or dataclass of its result."""
    errors: tuple[int, ...] = ()
    """Our error codes that it can return; a method of an agent also `NO_SUCH_AGENT`."""
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


def _one_of(*texts: str) -> Schema:
    return {"type": "string", "enum": list(texts)}


def _number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_CONTENT = Param("content", "The words of the person.", required=True)
_FOLDER = Param("cwd", "A folder of the project; the server's without one.")
_WORKTREE = Param("name", "Its name.", required=True)
_LIMITS: Schema = {
    "type": "object",
    "properties": {
        "max_steps": _number(1, MAX_INT),
        "max_total_tokens": _number(1, MAX_INT),
        "max_cost": AMOUNT,
        "timeout": AMOUNT,
    },
    "additionalProperties": False,
}

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "create_agent",
            "Make an agent: a session of its own.",
            (
                Param("agent_id", "Letters, digits, '.', '_', '-', at most 64; without one it is made."),
                Param("system_prompt", "The whole system text, instead of nexus's own."),
                Param("model", "A litellm name or an alias; the server's without one."),
                Param(
                    "allow",
                    "What runs without asking; more than the server allows is an error.",
                    _one_of(*LEVELS, *FORMER_NAMES.values()),
                ),
                Param("cwd", "Working folder of the agent; default: the folder of `session`, else of the server."),
                Param("recipe", "The recipe of the session."),
                Param("session", "The session that it continues: an id or a name; without one it begins a new one."),
                Param("limits", "Limits of each turn, instead of the limits in the settings.", _LIMITS),
                Param("effort", "The reasoning effort of the model.", _one_of(DEFAULT_EFFORT, *EFFORTS)),
            ),
            CreatedAgent,
            (BUSY, REFUSED, IN_USE),
            of_agent=False,
        ),
        Method(
            "list_sessions",
            "List the sessions in the ledger, newest first, including sessions of `nexus ask` and other programs.",
            (
                Param("cwd", "Only sessions of this folder; default: all folders."),
                Param("limit", "Sessions to return; 50 without it.", _number(1, MOST_MESSAGES)),
            ),
            SessionsReport,
            (REFUSED,),
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
                Param("images", "Images in base64, to go with it.", TEXTS),
                Param("typed", "True: a person typed it, and a guide that it calls (`/NAME`, `$NAME`) is added.", YES),
                Param("pasted", "The parts of content that were pasted: they call no guide and attach nothing.", TEXTS),
            ),
            AskResult,
            (BUSY, TURN_FAILED),
        ),
        Method(
            "steer",
            "Say something to the running turn, delivered after its tool calls.",
            (_CONTENT,),
            errors=(REFUSED,),
        ),
        Method(
            "unqueue",
            "Remove messages that no turn has used yet; the `send` of a removed message fails with -32003.",
            (Param("content", "Only the newest message with this text; default: all messages."),),
            UnqueuedTexts,
        ),
        Method("cancel", "Stop the running turn. Completed steps are kept."),
        Method(
            "approve",
            "Answer the question of an `approval.ask` event.",
            (
                Param("id", "The `id` of that event.", required=True),
                Param("answer", "Allow it, also for the session, or not.", _one_of(*ANSWERS), required=True),
                Param("words", "With `no`: the reason for the model."),
            ),
            errors=(REFUSED,),
        ),
        Method(
            "answer",
            "Answer the questions of a `question.ask` event.",
            (
                Param("id", "The `id` of that event.", required=True),
                Param("answers", "An answer to each; with fewer the others have none.", TEXTS, required=True),
            ),
            errors=(REFUSED,),
        ),
        Method(
            "compact",
            "Summarize older messages.",
            (Param("instructions", "What the summary has to keep."),),
            CompactResult,
            (BUSY,),
        ),
        Method(
            "run_command",
            "Run a slash command beside the session: one that reads or changes this session alone.",
            (
                Param("name", "Its name, without the slash.", required=True),
                Param("arguments", "The rest of the line."),
                Param("asks", "True: its last call may be `choose`, and it waits for that method.", YES),
            ),
            CommandResult,
            (BUSY, REFUSED),
        ),
        Method(
            "list_commands",
            "List the commands of the person, the project and its MCP servers: a `typed` message calls one.",
            (),
            CommandList,
        ),
        Method(
            "choose",
            "Answer the choice of a command, which then runs on.",
            (
                Param("id", "The `id` of that call.", required=True),
                Param("key", "The `key` of the choice; without one nothing is chosen."),
            ),
            CommandResult,
            (REFUSED,),
        ),
        Method("get_status", "Return the figures of the status line.", (), Status),
        Method("get_tokens", "Return the tokens of the window.", (), TokenUsage),
        Method(
            "get_context",
            "Return the content of the next request, as `nexus context --json` does.",
            (),
            ContextReport,
            (REFUSED,),
        ),
        Method("list_workers", "List the workers of the session.", (), WorkerList, (REFUSED,)),
        Method(
            "get_messages",
            "Return messages of the session, the oldest first, also those that the window no longer shows.",
            (
                Param("offset", "Messages to skip.", _number(0, MOST_OFFSET)),
                Param("limit", "Messages to return; 100 without it.", _number(1, MOST_MESSAGES)),
            ),
            MessageList,
        ),
        Method(
            "get_conversation",
            "Return the newest turns as events, as a client shows them on return.",
            (Param("turns", "Turns to return; 10 without it.", _number(1, MOST_TURNS)),),
            ConversationObject,
            (REFUSED,),
        ),
        Method(
            "worktree_list", "List the worktrees of a project.", (_FOLDER,), WorktreesReport, (REFUSED,), of_agent=False
        ),
        Method(
            "worktree_diff",
            "Return the changes of a worktree as a patch for git apply.",
            (_WORKTREE, _FOLDER, Param("stat", "Count the changed lines of each file instead.", YES)),
            WorktreeDiff,
            (REFUSED,),
            of_agent=False,
        ),
        Method(
            "worktree_apply",
            "Apply the changes of a worktree to the project, with a three-way merge of each file.",
            (_WORKTREE, _FOLDER),
            AppliedWorktree,
            (REFUSED,),
            of_agent=False,
        ),
        Method(
            "worktree_remove",
            "Remove a worktree with its branch.",
            (_WORKTREE, _FOLDER, Param("force", "Also if something in it is not applied.", YES)),
            RemovedWorktree,
            (REFUSED,),
            of_agent=False,
        ),
        Method("shutdown", "End the server: running turns finish their step.", of_agent=False),
    )
}
"""Every method by its name."""
EVENTS: Mapping[str, Any] = {
    get_args(json_keys(kind)["type"])[0]: kind for kind in (*get_args(LineEvent), ResultLine, GapLine, CutLine)
}
"""What declares every event, by its type; `/openrpc.json` has them as `components/schemas/TYPE`."""


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
        session: str = "",
        limits: AgentLimits | None = None,
        effort: str = "",
    ) -> CreatedAgent:
        if self.is_stopping:
            raise RpcError(BUSY, STOPPING)
        folder = self._resolve(cwd) if cwd or not session else None
        given = Limits(**(limits or {}))
        config = AgentConfig("", system_prompt, model, allow, folder, recipe, session, given, effort, strict=True)
        made = await self.pool.create(agent_id, config)
        bound = made.session.dispatcher.limits.to_json()
        named = cast("AgentLimits", {name: bound[name] for name in _LIMITS["properties"] if name in bound})
        return {
            "agent_id": made.agent_id,
            "session": made.session.id,
            **level_fields(made.session.dispatcher.level),
            "limits": named,
        }

    def _resolve(self, cwd: str) -> Path:
        if "\0" in cwd:
            raise RpcError(INVALID_PARAMS, "cwd has a character that no path can have")
        return self._folder / os.path.expanduser(replace_surrogates(cwd))

    def _find_worktree(self, name: str, cwd: str) -> WorktreeRecord:
        return find_worktree_of(find_project(self._resolve(cwd)), name)

    async def list_sessions(self, cwd: str = "", limit: int = 50) -> SessionsReport:
        folder = os.path.realpath(self._resolve(cwd)) if cwd else None
        return await asyncio.to_thread(list_sessions, self.pool.open_ledger(), folder, limit, runs=True)

    async def worktree_list(self, cwd: str = "") -> WorktreesReport:
        return await asyncio.to_thread(worktrees_report, find_project(self._resolve(cwd)))

    async def worktree_diff(self, name: str, cwd: str = "", stat: bool = False) -> WorktreeDiff:
        record = self._find_worktree(name, cwd)
        data = await asyncio.to_thread(diff_worktree, record, stat=stat, binary=not stat)
        return {"diff": data.decode("utf-8", "replace")}

    async def worktree_apply(self, name: str, cwd: str = "") -> AppliedWorktree:
        record = self._find_worktree(name, cwd)
        data, work = places().data, partial(apply_worktree, record)
        done = await asyncio.to_thread(follow_apply, data, name, record.source, work)
        return cast("AppliedWorktree", done.to_json(record))

    async def worktree_remove(self, name: str, cwd: str = "", force: bool = False) -> RemovedWorktree:
        record = self._find_worktree(name, cwd)
        return {"removed": True, "note": await asyncio.to_thread(remove_worktree, record, force=force)}

    async def list_agents(self) -> AgentList:
        return {
            "agents": [
                {
                    "agent_id": agent.agent_id,
                    "session": agent.session.id,
                    "state": agent.dispatcher.state,
                    "model": agent.session.model,
                    "used": agent.session.engine.next_request().tokens,
                    "next": agent.dispatcher.feed.next,
                    **level_fields(agent.session.dispatcher.level),
                }
                for agent in self.pool.list()
            ]
        }

    async def destroy_agent(self, agent_id: str) -> DestroyedAgent:
        self.find_agent(agent_id)
        await self.pool.destroy(agent_id)
        return {"destroyed": True}

    async def shutdown(self) -> Acknowledged:
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
            "description": "POST /rpc, JSON-RPC 2.0. GET /agents/AGENT_ID/events: server-sent events of an agent; the "
            "schemas are those of their types.",
        },
        "methods": [_describe(method) for method in METHODS.values()],
        "components": {"schemas": {name: json_schema(kind) for name, kind in EVENTS.items()}},
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
        "errors": [
            {"code": code, "message": MEANINGS[code]} for code in (NO_SUCH_AGENT,) * method.of_agent + method.errors
        ],
    }
