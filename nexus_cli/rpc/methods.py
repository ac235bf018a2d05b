"""The methods of the server: the table that checks calls and generates `/openrpc.json`, and those of no agent.

Those of an agent are in `AgentDispatcher`. A new method is one coroutine: see `method`.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from nexus_cli import __version__
from nexus_cli.commands import discover, worktree
from nexus_cli.commands.sessions import SessionsReport, list_sessions
from nexus_cli.commands.verb import Report, Source
from nexus_cli.commands.worktree import WorktreesReport, find_project
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import LineEvent
from nexus_cli.core.event_json import ResultLine
from nexus_cli.core.json_schema import json_keys, json_schema
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import EDIT, FORMER_NAMES, LEVELS, MAX_INT, Limits, level_fields
from nexus_cli.core.server_results import (
    Acknowledged,
    AgentLimits,
    AgentList,
    CreatedAgent,
    CutLine,
    DestroyedAgent,
    GapLine,
    RemovedWorktree,
    WorktreeDiff,
)
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.rpc.dispatcher import MAX_MESSAGES, STOPPING, AgentDispatcher
from nexus_cli.rpc.jsonrpc import (
    BUSY,
    IN_USE,
    INVALID_PARAMS,
    MEANINGS,
    NO_SUCH_AGENT,
    NO_SUCH_METHOD,
    REFUSED,
    RpcError,
)
from nexus_cli.rpc.method import Method, number, one_of, read_methods, rpc_method
from nexus_cli.rpc.pool import Agent, AgentConfig, AgentPool

_LIMITS = {
    "type": "object",
    "properties": {
        "max_steps": number(1, MAX_INT),
        "max_total_tokens": number(1, MAX_INT),
        "max_cost": {"type": "number", "exclusiveMinimum": 0},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
    },
    "additionalProperties": False,
}

EVENTS: JsonObject = {
    get_args(json_keys(kind)["type"])[0]: kind for kind in (*get_args(LineEvent), ResultLine, GapLine, CutLine)
}
"""What declares every event, by its type; `/openrpc.json` has them as `components/schemas/TYPE`."""


class FolderSource(Source):
    """A folder of the server's machine, whose project a verb is about."""

    is_piped = True

    def __init__(self, pool: AgentPool, folder: Path) -> None:
        super().__init__(pool.open_ledger)
        self._pool, self._folder = pool, folder

    def folder(self) -> Path:
        return self._folder

    def settings(self) -> Settings:
        return self._pool.shared.config or settings_in(find_project(self._folder))


class ServerMethods:
    """Methods that need no agent: the verbs of worktrees, and the end of the server."""

    def __init__(self, pool: AgentPool, folder: Path, shutdown: Callable[[], object]) -> None:
        """A caller's relative `cwd` is below `folder`; `shutdown` is called once and must not block."""
        self.pool = pool
        self._folder = folder
        self._shutdown = shutdown
        self.is_stopping = False

    def _resolve(self, cwd: str) -> Path:
        if "\0" in cwd:
            raise RpcError(INVALID_PARAMS, "cwd contains a NUL character")
        return self._folder / os.path.expanduser(replace_surrogates(cwd))

    def _source(self, cwd: str, *, writes: bool = False) -> Source:
        """Return the source of a verb in a folder; raise `NexusError` if it writes and the level of the server forbids
        that."""
        source = FolderSource(self.pool, self._resolve(cwd))
        if writes:
            self.pool.require_level(EDIT, source.settings())
        return source

    @rpc_method(REFUSED)
    async def worktree_list(self, cwd: str = "") -> WorktreesReport:
        """List the worktrees of this project and their changes.

        cwd: A folder of the project; default: the server's folder.
        """
        report: Report[WorktreesReport] = await asyncio.to_thread(worktree.build_list, self._source(cwd))
        return report.value

    @rpc_method(REFUSED)
    async def worktree_diff(self, name: str, cwd: str = "", stat: bool = False) -> WorktreeDiff:
        """Show the changes made in a worktree, without changes that the project had when the worktree was created.

        name: Name of the worktree.
        cwd: A folder of the project; default: the server's folder.
        stat: Count the changed lines of each file.
        """
        report = await asyncio.to_thread(worktree.build_diff, self._source(cwd), name, stat)
        return {"diff": replace_surrogates(report.value["text"])}

    @rpc_method(REFUSED)
    async def worktree_apply(
        self, name: str, cwd: str = ""
    ) -> Annotated[JsonObject, "worktrees.apply_worktree.AppliedWorktree"]:
        """Apply the changes of a worktree to the project, with a three-way merge of each file. Requires level edit.

        name: Name of the worktree.
        cwd: A folder of the project; default: the server's folder.
        """
        report = await asyncio.to_thread(worktree.apply_changes, self._source(cwd, writes=True), name)
        return cast("JsonObject", report.value)

    @rpc_method(REFUSED)
    async def worktree_remove(self, name: str, cwd: str = "", force: bool = False) -> RemovedWorktree:
        """Remove a worktree with its branch. Requires level edit.

        name: Name of the worktree.
        cwd: A folder of the project; default: the server's folder.
        force: Discard unapplied changes.
        """
        report = await asyncio.to_thread(worktree.remove, self._source(cwd, writes=True), name, force)
        return {"removed": True, "note": report.value["note"]}

    @rpc_method()
    async def shutdown(self) -> Acknowledged:
        """End the server: running turns finish their step."""
        self.is_stopping = True
        self._shutdown()
        return {"ok": True}


class PoolMethods(ServerMethods):
    """The methods of the pool, and the calls of all methods."""

    async def call(self, name: str, params: JsonObject) -> Any:
        """Return the result of a method; raise `RpcError` for every failure that a caller may see."""
        target, arguments = self.find_target(name, params)
        try:
            return await getattr(target, name)(**arguments)
        except NexusError as error:
            raise RpcError.of(error) from error

    def find_target(self, name: str, params: JsonObject) -> tuple[Any, JsonObject]:
        """Return the object that has the method, this or the dispatcher of an agent, and the arguments of its function.
        Raise `RpcError` if the method or the agent does not exist, or the method does not take `params`."""
        method = METHODS.get(name)
        if method is None:
            raise RpcError(NO_SUCH_METHOD, name[:80])
        arguments = method.check(params)
        return (self._find_agent(arguments.pop("agent_id")).dispatcher if method.of_agent else self), arguments

    def _find_agent(self, agent_id: str) -> Agent:
        agent = self.pool.get(agent_id)
        if agent is None:
            raise RpcError(NO_SUCH_AGENT, agent_id[:80])
        return agent

    @rpc_method(BUSY, REFUSED, IN_USE)
    async def create_agent(
        self,
        agent_id: str = "",
        system_prompt: str | None = None,
        model: str = "",
        allow: Annotated[str | None, one_of(*LEVELS, *FORMER_NAMES.values())] = None,
        cwd: str = "",
        recipe: str = "",
        session: str = "",
        limits: Annotated[AgentLimits | None, _LIMITS] = None,
        effort: Annotated[str, one_of(DEFAULT_EFFORT, *EFFORTS)] = "",
        joins: bool = False,
    ) -> CreatedAgent:
        """Make an agent: a session of its own.

        agent_id: Letters, digits, '.', '_', '-', at most 64; without one it is made.
        system_prompt: The whole system text, instead of nexus's own.
        model: A litellm name or an alias; the server's without one.
        allow: What runs without asking; more than the server allows is an error.
        cwd: Working folder of the agent; default: the folder of `session`, else of the server.
        recipe: The recipe of the session.
        session: The session that it continues: an id or a name; without one it begins a new one.
        limits: Limits of each turn, instead of the limits in the settings.
        effort: The reasoning effort of the model.
        joins: True: if an agent has `session`, return that agent as it is.
        """
        if self.is_stopping:
            raise RpcError(BUSY, STOPPING)
        folder = self._resolve(cwd) if cwd or not session else None
        bounds = Limits(**(limits or {}))
        if any(value is not None and not 0 < value < math.inf for value in (bounds.max_cost, bounds.timeout)):
            raise RpcError(INVALID_PARAMS, "limits.max_cost and limits.timeout must be above 0 and finite")
        config = AgentConfig("", system_prompt, model, allow, folder, recipe, session, bounds, effort, strict=True)
        joined = self.pool.find_agent(session) if joins and session else None
        agent = joined or await self.pool.create(agent_id, config)
        bound = agent.session.dispatcher.limits.to_json()
        agent_limits = cast("AgentLimits", {name: bound[name] for name in AgentLimits.__annotations__ if name in bound})
        return {
            "agent_id": agent.agent_id,
            "session": agent.session.id,
            **level_fields(agent.session.dispatcher.level),
            "limits": agent_limits,
        }

    @rpc_method(REFUSED)
    async def list_sessions(self, cwd: str = "", limit: Annotated[int, number(1, MAX_MESSAGES)] = 50) -> SessionsReport:
        """List the sessions in the ledger, newest first, including sessions of `nexus ask` and other programs.

        cwd: Only sessions of this folder; default: all folders.
        limit: Sessions to return; 50 without it.
        """
        folder = os.path.realpath(self._resolve(cwd)) if cwd else None
        return await asyncio.to_thread(list_sessions, self.pool.open_ledger(), folder, limit, runs=True)

    @rpc_method()
    async def list_agents(self) -> AgentList:
        """List the agents."""
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

    @rpc_method(NO_SUCH_AGENT)
    async def destroy_agent(self, agent_id: str) -> DestroyedAgent:
        """Stop an agent and forget it. Its session stays.

        agent_id: The agent.
        """
        self._find_agent(agent_id)
        await self.pool.destroy(agent_id)
        return {"destroyed": True}


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        *read_methods(PoolMethods),
        *read_methods(AgentDispatcher, of_agent=True),
        *read_methods(ServerMethods),
    )
}
"""Every method by its name."""


@cache
def openrpc_document() -> JsonObject:
    """Return the OpenRPC description of the methods."""
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "nexus",
            "version": __version__,
            "description": "POST /rpc: JSON-RPC 2.0. GET /agents/AGENT_ID/events: server-sent events of an agent; "
            "their schemas are in components.schemas, by event type.",
        },
        "methods": [_describe(method) for method in METHODS.values()],
        "x-commands": [*_describe_commands()],
        "components": {"schemas": {name: json_schema(kind) for name, kind in EVENTS.items()}},
    }


def _describe_commands() -> Iterator[JsonObject]:
    """Yield the verbs that `run_command` runs, with the schema of the `value` of its result."""
    for command in discover().values():
        for verb in (verb for verb in command.verbs if verb.is_served):
            yield {
                "name": command.name,
                "arguments": verb.served_usage,
                "summary": " ".join(verb.help.partition("\n\n")[0].split()),
                "authority": str(verb.authority),
                **({"value": json_schema(verb.value_type)} if verb.has_report else {}),
            }


def _describe(method: Method) -> JsonObject:
    return {
        "name": method.name,
        "summary": method.about,
        "paramStructure": "by-name",
        "params": [*method.params.values()],
        "result": {"name": f"{method.name}_result", "schema": json_schema(method.result)},
        "errors": [{"code": code, "message": MEANINGS[code]} for code in method.errors],
    }
