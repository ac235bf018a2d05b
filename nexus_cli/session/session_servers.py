"""The MCP servers of one session: ask for their tools, call them, put their questions to the person.

All sessions of a process share one host process, which starts a server at its first use.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nexus_cli.config.paths import project_root
from nexus_cli.core.approval import PersonQuestion
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import name_first, one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.message import USE_TOOL, ToolResult
from nexus_cli.core.services import PersonQuestions, ServerTools
from nexus_cli.core.tool import ToolContext
from nexus_cli.mcp.server_entries import ServerFiles, read_servers
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.mcp.server_values import ServerAnswer, ServerEntry, ServerError, ServerQuestion, ServerTool
from nexus_cli.mcp.tool_cache import make_list, store_list
from nexus_cli.permission.tool_pins import DefinitionChange, read_unpinned
from nexus_cli.session.server_inputs import attach_named

if TYPE_CHECKING:
    from nexus_cli.session.base_session import BaseSession

PATIENCE = 1.0
"""Most seconds that the first request waits for tools that are not known yet."""
SEARCH_PATIENCE = 30.0
"""Most seconds that a search waits for them."""
MAX_NAMED = 12
"""Most tools that a notice names."""


_hosts = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, weakref.WeakSet[Any]]]()
"""By loop: the host of its sessions, and its users."""


@asynccontextmanager
async def open_host() -> AsyncIterator[Any]:
    """Open the host of the running loop's sessions for one command."""
    user = asyncio.current_task()
    try:
        yield _host_of(user)
    finally:
        await _close_host(user)


def _host_of(user: object) -> Any:
    """Return the host of the running loop's sessions."""
    loop = asyncio.get_running_loop()
    if loop not in _hosts:
        host = import_module("nexus_cli.mcp.host_process").McpHost()  # the first use of a server
        _hosts[loop] = host, weakref.WeakSet()
    host, users = _hosts[loop]
    users.add(user)
    return host


async def _close_host(user: object) -> None:
    """End the host if nobody else in this loop uses it."""
    loop = asyncio.get_running_loop()
    if loop in _hosts:
        host, users = _hosts[loop]
        users.discard(user)
        if not users:
            del _hosts[loop]
            await host.aclose()


class SessionServers(ServerTools):
    """Implements `ServerTools` for a session."""

    def __init__(self, session: BaseSession) -> None:
        self._session = session
        self._catalogue = Catalogue(ServerFiles())
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The requests for tools, by hash of the entry."""
        self._failed: dict[str, str] = {}
        """Why a server did not list its tools, by hash of the entry."""
        self._listed: dict[str, str] = {}
        """The revisions of the tools that were listed in this process, by hash of the entry."""
        self._shown_lines: set[str] = set()
        self._model_lines: set[str] = set()
        """Lines about servers that the model was sent in the current turn."""
        self._has_waited = False
        self._project = str(project_root(session.folder))

    async def prepare(self) -> None:
        """See `ServerTools`. Also takes over what has changed in the files since the last turn."""
        self._model_lines.clear()
        catalogue = await asyncio.to_thread(Catalogue.read, self._session.folder, self._session.options.servers)
        since, self._catalogue = self._catalogue, catalogue
        for name in catalogue.lists.keys() & since.lists.keys():
            if catalogue.entries[name] != since.entries[name]:
                continue
            if since.lists[name].at >= catalogue.lists[name].at:  # listed while the files were read
                catalogue.lists[name] = since.lists[name]
            await self._report_change(name, since, catalogue)  # another process may have listed them
        for line in self._catalogue.files.problems:
            self._notify(line)
        for name in catalogue.lists.keys() - since.lists.keys():
            self._failed.pop(catalogue.entries[name].sha256, None)  # another process could list its tools
        is_reloaded = self._session.engine.readings.epoch_cause == "reload"
        for entry in self._catalogue.unlisted:
            if entry.sha256 not in self._tasks or is_reloaded:
                self._begin_list(entry)
        listed = [entry for entry in self._catalogue.entries.values() if entry.sha256 in self._listed]
        running = [entry for entry in listed if self._find_revision(entry)]  # others are compared before a call
        waiting = {self._begin_list(entry) for entry in running if self._is_outdated(entry)}
        if not self._has_waited:
            waiting |= {task for task in self._tasks.values() if not task.done()}
        if waiting:
            await asyncio.wait(waiting, timeout=PATIENCE)
        await self._offer()
        self._announce_changes(since)
        self._has_waited = True  # behind the announcements: at the first turn no server is new

    async def call(self, server: str, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        questions: PersonQuestions | None = context.services.get(PersonQuestions)
        ask = partial(_ask_person, server, questions) if questions is not None and questions.can_ask else None

        async def send(host: Any, opened: ServerEntry) -> ServerAnswer:
            entry, decided = self._catalogue.entries[server], self._find_tool(server, tool)
            if decided is None:
                raise ServerError("refused", f"{server} no longer offers the tool {tool}")
            answer: ServerAnswer
            call = partial(
                host.call, opened, tool, dict(arguments), ask=ask, progress=lambda text: context.emit(f"{text}\n")
            )
            try:
                answer = await call(revision=self._listed.get(entry.sha256, ""))
            except ServerError as error:
                if error.fault != "changed" or not await self._still_lists(entry, decided):
                    raise
                answer = await call()
            return answer

        return await self._use(server, send)

    async def read_resource(self, server: str, uri: str) -> ToolResult:
        async def send(host: Any, entry: ServerEntry) -> ServerAnswer:
            answer: ServerAnswer = await (host.read_resource(entry, uri) if uri else host.list_resources(entry))
            return answer

        return await self._use(server, send)

    async def refresh(self, server: str) -> None:
        entry = self._catalogue.entries.get(server)
        if entry is None:
            return
        task = self._tasks.get(entry.sha256)
        if task is not None and not task.done():  # it may have begun before the server changed them
            await asyncio.wait({task})
        if self._is_outdated(entry):
            await asyncio.wait({self._begin_list(entry)})

    async def _use(self, server: str, send: Callable[[Any, ServerEntry], Awaitable[ServerAnswer]]) -> ToolResult:
        """Return the result of what is sent to a server, which is asked for its tools if that is due."""
        entry = self._catalogue.entries.get(server)
        if entry is None:
            return ToolResult(error=f"MCP server {server} no longer exists", ran=False)
        if entry.source in ("project", "plugin") and await self._is_changed(entry):
            plugin = entry.file.removeprefix("plugin ")
            again = "`nexus trust`" if entry.source == "project" else f"`nexus plugin update {plugin}`"
            why = f"the server or a file named in its command changed since you trusted it; run {again}"
            self._notify(f"MCP server {server}: {why}")
            return ToolResult(error=f"MCP server {server} is not used: {why}", ran=False)
        try:
            answer = await send(*self._open(entry))
        except ServerError as error:
            return ToolResult(error=describe_error(server, error))
        self._failed.pop(entry.sha256, None)
        if answer.revision != self._listed.get(entry.sha256):
            self._begin_list(entry)
        text = answer.text.strip("\n")
        if answer.is_error:
            return ToolResult(error=text or "the tool failed without an error message", images=answer.images)
        return ToolResult(text, images=answer.images)

    async def attach(self, trigger: Trigger) -> Trigger:
        engine = self._session.engine
        return await attach_named(engine.context, engine.control, self._catalogue, self._open, trigger)

    async def settle(self) -> Sequence[str]:
        if waiting := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(waiting, timeout=SEARCH_PATIENCE)
        faults = list[str]()
        for row in self._catalogue.describe_servers(self._failed):
            faults += [row.why] if row.why else [f"MCP server {row.entry.name}: {why}" for why in row.left_out]
        lines = [f"[{fault}]" for fault in faults if fault not in self._model_lines]
        self._model_lines.update(faults)
        return lines

    def rows(self) -> Sequence[JsonObject]:
        rows: Sequence[JsonObject] = to_json_value(self._catalogue.describe_servers(self._failed))
        return rows

    async def aclose(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        with suppress(ServerError):
            await _close_host(self)

    async def _is_changed(self, entry: ServerEntry) -> bool:
        """Return True if a server of the project is not in effect any more: it runs without a sandbox, and a call may
        start what an earlier call of the same turn wrote."""
        files = await asyncio.to_thread(read_servers, self._session.folder)
        return files.entries.get(entry.name) != entry

    def _open(self, entry: ServerEntry) -> tuple[Any, ServerEntry]:
        """Return the host, and `entry` with the folder in which its server starts."""
        return _host_of(self), entry if entry.cwd or entry.url else replace(entry, cwd=self._project)

    def _find_tool(self, server: str, tool: str) -> ServerTool | None:
        """Return a tool as its server listed it last."""
        listed = self._catalogue.lists.get(server)
        return next((server_tool for server_tool in listed.tools if server_tool.name == tool), None) if listed else None

    async def _still_lists(self, entry: ServerEntry, tool: ServerTool) -> bool:
        """Ask a server for its tools, and return True if it lists `tool` as before."""
        await asyncio.wait({self._begin_list(entry)})
        return entry.sha256 not in self._failed and self._find_tool(entry.name, tool.name) == tool

    def _find_revision(self, entry: ServerEntry) -> str:
        """Return the revision of a server's tools, "" if the server does not run."""
        host, opened = self._open(entry)
        return str(host.find_revision(opened))

    def _is_outdated(self, entry: ServerEntry) -> bool:
        """Return True if a server's tools were not listed in this process, or changed since."""
        return self._listed.get(entry.sha256) != self._find_revision(entry)

    def _begin_list(self, entry: ServerEntry) -> asyncio.Task[None]:
        """Ask a server for its tools, unless it is being asked; return the task."""
        task = self._tasks.get(entry.sha256)
        if task is None or task.done():
            task = self._tasks[entry.sha256] = asyncio.create_task(self._list(entry))
        return task

    async def _list(self, entry: ServerEntry) -> None:
        """Ask a server for its tools; offer them, with a notice to the model if a request was sent without them."""
        try:
            host, opened = self._open(entry)
            offer = await host.list_offer(opened)
            tool_list = await asyncio.to_thread(make_list, offer)
            await asyncio.to_thread(store_list, entry, tool_list)
        except ServerError as error:
            self._failed[entry.sha256] = describe_error(entry.name, error)
            more = f"; to test it: nexus mcp test {entry.name}" if error.brief != str(error) else ""
            self._notify(describe_error(entry.name, error.brief) + more)
            return
        self._listed[entry.sha256] = offer.revision
        self._failed.pop(entry.sha256, None)
        known_list = self._catalogue.lists.get(entry.name)
        if self._catalogue.entries.get(entry.name) != entry or (
            known_list and replace(known_list, at=tool_list.at) == tool_list
        ):
            return  # the known list stays, whose bytes were sent
        since = self._catalogue
        self._catalogue = now = replace(since, lists={**since.lists, entry.name: tool_list})
        await self._offer()
        await self._report_change(entry.name, since, now)

    async def _report_change(self, server: str, since: Catalogue, now: Catalogue) -> None:
        """Tell what a server offers or says differently `now` and `since` an earlier catalogue: the person with the
        lines that differ, the model without them."""
        former, current = since.lists.get(server), now.lists[server]
        for line in current.left_out:
            if former is None or line not in former.left_out:
                self._notify(f"MCP server {server}: {line}")
        before, after = (
            {tool.name for tool in tool_list.tools} if tool_list else set() for tool_list in (former, current)
        )
        if former is None or before != after:
            self._announce(server)
        if former is None or former == current:
            return
        for how, names in (("added", after - before), ("removed", before - after)):
            if names:
                self._notify(f"MCP server {server} {how} {name_first(sorted(names), MAX_NAMED)}", again=True)
        ignored = await asyncio.to_thread(read_unpinned, now.entries[server].sha256)
        if changes := now.find_changes(server, since, ignored):
            change = f"MCP server {server} changed {name_first(list(changes), MAX_NAMED)}"
            then, says = ("\n".join(texts) for texts in zip(*changes.values(), strict=True))
            self._notify(f"{change}: {DefinitionChange.between(then, says).first_lines}", again=True)
            if self._has_epoch():
                self._session.engine.notices.tell(f"the {change}")

    def _announce_changes(self, since: Catalogue) -> None:
        """Announce the servers that were added since the last turn, and those that the model's schemas do not have."""
        if not self._has_epoch():
            return
        tools = self._session.conversation.epoch.tools
        descriptions = {tool["function"]["name"]: str(tool["function"]["description"]) for tool in tools}
        earlier = {entry.sha256 for entry in since.entries.values()}  # a server may move to another file
        for name, entry in self._catalogue.entries.items():
            is_new = self._has_waited and entry.sha256 not in earlier
            if name in self._catalogue.lists and (is_new or not self._is_told(name, descriptions)):
                self._announce(name)
                offered = plural(len(self._names(name)), "tool")
                self._notify(f"MCP server {name}: {offered} to be sent after the next compaction")
        for name in since.entries.keys() - self._catalogue.entries.keys():
            self._announce(name)

    def _is_told(self, server: str, descriptions: Mapping[str, str]) -> bool:
        """Return True if the descriptions of an epoch's tools have a tool of a server, or name the server."""
        return not descriptions.keys().isdisjoint(self._names(server)) or f" {server} (" in descriptions.get(
            USE_TOOL, ""
        )

    def _has_epoch(self) -> bool:
        return self._session.record.current_epoch() is not None

    def _names(self, server: str) -> list[str]:
        return [name for name, owner, _ in self._catalogue.named_tools() if owner == server]

    def _announce(self, server: str) -> None:
        """Tell the model with the next request what a server offers now, if a request was sent before."""
        if not self._has_epoch():
            return
        names = self._names(server)
        listed = f"now has the tools {name_first(names, MAX_NAMED)}; use_tool describes them"
        now = listed if names else "offers no tools now"
        now = now if server in self._catalogue.entries else "was removed"
        self._session.engine.notices.tell(f"the MCP server {server} {now}")

    async def _offer(self) -> None:
        """Register the tools as they are known now, and keep the definitions of those that rules allow. Their schemas
        change with the next epoch."""
        dispatcher = self._session.dispatcher
        if not (self._session.options.no_tools and not dispatcher.registry.names()):
            tools = self._catalogue.tools()
            dispatcher.registry.add(tools)
            dispatcher.registry.starting = tuple(entry.name for entry in self._catalogue.unlisted)
            try:
                await asyncio.to_thread(dispatcher.permission.pin_allowed, tools)
            except NexusError as error:
                self._notify(f"definitions of MCP tools could not be saved: {error}")

    def _notify(self, line: str, *, again: bool = False) -> None:
        """Tell the person a line, once unless `again`: at once during a turn, else with the next one."""
        if line in self._shown_lines and not again:
            return
        self._shown_lines.add(line)
        engine = self._session.engine
        if engine.control.running:
            engine.control.emit_notice(line)
        else:
            self._session.notices.append(line)


def describe_error(server: str, error: ServerError | str) -> str:
    """Return one line that names the server, which most errors do themselves."""
    text = one_line(str(error))
    return f"MCP server {text}" if text.startswith(f"{server}:") else text


async def _ask_person(server: str, questions: PersonQuestions, question: ServerQuestion) -> JsonObject | None:
    """Put a question of a server to the person. Return the answers by name of the field; None if the person answers
    nothing, or declines."""

    async def ask(text: str, *choices: str) -> str:
        replies = await questions.ask([PersonQuestion(text, (*choices, "decline"))])
        answer = replies[0].strip() if replies else ""
        return "" if answer == "decline" else answer

    lead = f"MCP server {server} asks: {one_line(question.text)}"
    if question.url:
        return {} if await ask(f"{lead}\nOpen {one_line(question.url)}", "done") == "done" else None
    fields = question.parameters.get("properties")
    if not isinstance(fields, Mapping) or not fields:
        return {} if await ask(lead, "yes") == "yes" else None
    answers: JsonDict = {}
    for name, schema in list(fields.items())[:20]:
        schema = schema if isinstance(schema, Mapping) else {}
        text = one_line(str(schema.get("title") or schema.get("description") or name))
        answer = await ask(f"{lead} ({text})", *_choices(schema))
        if not answer:
            return None
        answers[str(name)] = _read_answer(answer, schema)
    return answers


def _choices(schema: JsonObject) -> tuple[str, ...]:
    if schema.get("type") == "boolean":
        return ("yes", "no")
    values = schema.get("enum", ())
    return tuple(one_line(str(value)) for value in values[:8]) if isinstance(values, list | tuple) else ()


def _read_answer(text: str, schema: JsonObject) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        return text.casefold() in ("yes", "y", "true")
    with suppress(ValueError):
        return int(text) if kind == "integer" else float(text) if kind == "number" else text
    return text
