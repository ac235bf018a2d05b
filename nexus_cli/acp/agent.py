"""`EditorAgent`: the methods of the Agent Client Protocol (version 1) over ordinary sessions.

Every session is one that `nexus` itself could have begun: it is in the ledger, and the REPL resumes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from acp import Client, run_agent, schema
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION

from nexus_cli import __version__
from nexus_cli.acp.editor_files import EditorFiles
from nexus_cli.acp.prompt_blocks import Block, make_trigger
from nexus_cli.acp.questions import EditorApprover
from nexus_cli.acp.updates import UpdateStream, image, message, note, progress, turn_usage, usage_update
from nexus_cli.commands import discover
from nexus_cli.commands.command import Choice, Command
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.model import quick_names
from nexus_cli.config.added_folders import check_folders
from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.paths import project_root
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import ErrorObject, NexusError, UsageError
from nexus_cli.core.event import (
    Event,
    Outcome,
    SessionStart,
    SteeringMessage,
    TurnEnd,
    TurnStart,
)
from nexus_cli.core.front_ends import CHAT
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import ALL, ASK, AUTO, EDIT, PLAN
from nexus_cli.core.plan_question import PROCEED, PROMPT, offer_levels
from nexus_cli.core.real_files import real_path
from nexus_cli.core.server_results import CommandResult
from nexus_cli.core.services import EditorTexts
from nexus_cli.ledger import SessionInfo
from nexus_cli.mcp.server_values import ServerEntry
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.reports.conversation import replay_of
from nexus_cli.reports.export import fenced, save_in
from nexus_cli.rpc.jsonrpc import REFUSED, RpcError
from nexus_cli.rpc.pool import Agent, AgentPool
from nexus_cli.service_list import SERVICES
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session import Session
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.undo import undo_files

_UNNAMED = re.compile(r"[^A-Za-z0-9.-]+")
"""What a name of ours does not have; an editor's is for people."""
LONGEST = 64


def make_entries(servers: Sequence[Any], folder: Path) -> tuple[tuple[ServerEntry, ...], list[str]]:
    """Return the servers of `session/new`, and a line for each that cannot be used. Values are taken as they are: no
    `${NAME}` in them stands for a variable."""
    entries: dict[str, ServerEntry] = {}
    problems: list[str] = []
    for server in servers:
        name = _UNNAMED.sub("_", server.name).strip("_.-")[:LONGEST].strip("_.-")
        if not name or name in entries:
            label = one_line(server.name)[:LONGEST]
            problems.append(f"MCP server {label!r} from the editor was skipped: its name is invalid or taken")
            continue
        match server:
            case schema.McpServerStdio(command=command, args=args, env=env):
                entries[name] = ServerEntry(
                    name,
                    (command, *args),
                    values={variable.name: variable.value for variable in env},
                    cwd=str(folder),
                    source="editor",
                    file="the editor",
                    display_target=one_line(" ".join([command, *args])),
                )
            case schema.McpServerHttp(url=url, headers=headers):
                values = {header.name: header.value for header in headers}
                entries[name] = ServerEntry(
                    name, url=url, headers=values, source="editor", file="the editor", display_target=one_line(url)
                )
            case _:
                kind = str(getattr(server, "type", "unknown"))
                problems.append(f"MCP server {name} from the editor was skipped: unsupported transport {kind}")
    return tuple(entries.values()), problems


WIDTH = 100
"""Columns of a report in an editor."""
MAX_LISTED = 200
"""Most sessions of one answer."""
NO_SESSION = "(empty)"
"""In place of an empty session id, which would begin a new session."""
LEVEL, MODEL, EFFORT = "level", "model", "effort"
OPTIONS = {LEVEL: "permissions", MODEL: "model", EFFORT: "effort"}
"""The options of a session, each with the command that sets it."""
STEERING = "session/steering"
"""The extension of the protocol for messages to a running turn, without its underscore."""
OPENING_COMMANDS: Mapping[str, str] = {
    "clear": "Start a new session in the editor",
    "resume": "Choose the session in the editor, or in a terminal: nexus --resume",
    "fork": "Fork the session in the editor, if the editor can; else in a terminal: nexus -r {0}, then /fork",
    "edit": "Send the corrected message; or in a terminal: nexus -r {0}, then /edit",
    "rewind": "Use /rewind N files, which reverts only files; or in a terminal: nexus -r {0}, then /rewind",
}
"""Commands that open another session, each with what to do in the editor, which opens sessions itself."""
StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
_LEVELS: Mapping[str, str] = {
    PLAN: "Read-only; the model proposes a plan",
    ASK: "Asks before edits and commands that may write",
    EDIT: "Edits in the project without asking",
    AUTO: "Also runs sandboxed commands without asking",
    ALL: "Never asks; nothing is sandboxed",
}


@dataclass
class EditorSession:
    """An open session: its agent, and what belongs to its connection."""

    agent: Agent
    approver: EditorApprover
    sent_title: str = ""
    """The title that the editor was told."""
    level: str = ""
    """The level that the editor was told."""
    attached: str = ""
    """What commands have attached to the next message."""
    updates: asyncio.Queue[Iterable[Any]] = field(default_factory=asyncio.Queue)
    """Updates that were not sent yet."""
    is_closed: bool = False
    """True once its editor has closed it or has left."""
    sending: asyncio.Future[Any] | None = None
    """Sends them."""
    choosing: asyncio.Future[str | None] = field(default_factory=asyncio.Future)
    """The newest choice that the person was asked for; cancelled once the person does something else."""

    @property
    def session(self) -> Session:
        return self.agent.session

    def send(self, updates: Iterable[Any]) -> None:
        """Send updates after the earlier ones; each is made when its turn comes. A closed session sends none."""
        if not self.is_closed:
            self.updates.put_nowait(updates)

    def close(self) -> None:
        """Send nothing more, so that no turn waits for an editor that has left."""
        self.is_closed = True
        self.choosing.cancel()
        if self.sending is not None:
            self.sending.cancel()
        while not self.updates.empty():
            self.updates.get_nowait()
            self.updates.task_done()

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """Return the key of the choice that the person picks, None without one. The question is shown as a call, below
        all earlier updates."""
        call = schema.ToolCallUpdate(tool_call_id=secrets.token_hex(4), title=sanitize(title), status="pending")

        async def ask_one_level() -> str | None:
            await self.updates.join()
            return await self.approver.choose(call, choices)

        self.choosing = asyncio.ensure_future(ask_one_level())  # at once: it can be cancelled from now on
        await asyncio.wait([self.choosing])
        self.send([progress(call.tool_call_id, status="completed")])
        return None if self.choosing.cancelled() else self.choosing.result()

    def renew_stream(self) -> None:
        """Use a new stream to translate events from now on."""
        texts = self.session.services.find(EditorTexts)
        unsaved = texts.unsaved if texts else {}
        stream = UpdateStream(self.agent.registry, self.session.folder, unsaved, earlier=self.approver.stream)
        self.approver.stream = stream

    def send_event(self, event: Event) -> None:
        """Send an event of the agent."""
        if isinstance(event, SessionStart):
            self.renew_stream()
        elif isinstance(event, TurnEnd):
            self.send_usage()
        elif not isinstance(event, TurnStart | SteeringMessage):  # the editor shows the person's own messages itself
            self.send(self.approver.stream.translate(event))

    def send_usage(self) -> None:
        """Send the used tokens of the window and the cost after a turn, a changed level, and a new title."""
        self.send([usage_update(self.session.status())])
        self.send_level()
        with suppress(NexusError):
            info = self.session.ledger.session(self.session.id)
            title = _title(info)
            if title and title != self.sent_title:
                self.sent_title = title
                update = schema.SessionInfoUpdate(
                    title=title, updated_at=info.updated, session_update="session_info_update"
                )
                self.send([update])

    def send_level(self) -> None:
        """Send the permission level as mode and option if it differs from the last one sent."""
        level = self.session.status().allow
        if level != self.level:
            self.level = level
            mode = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=level)
            options = schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=self.describe_options()
            )
            self.send([mode, options])

    def describe_options(self) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
        """Return level, model and effort, each with its choices."""
        status = self.session.status()
        names = [status.model, *quick_names(self.session.engine.settings)]
        return [
            _select(LEVEL, "Permission level", "mode", status.allow, list(_LEVELS), _LEVELS),
            _select(MODEL, "Model", "model", status.model, list(dict.fromkeys(names)), {}),
            _select(EFFORT, "Effort", "thought_level", status.effort or DEFAULT_EFFORT, (DEFAULT_EFFORT, *EFFORTS), {}),
        ]


class EditorAgent:
    """Serves one editor: several sessions over one ledger and one provider. It has no forks (`/rewind` forks) and no
    extensions. A level is a mode and an option: some editors know only one of them."""

    def __init__(self, options: Options) -> None:
        """`options` has the model, level and effort of the command line, for new sessions."""
        self._options = options
        self._client: Client
        self._asks_forms = False
        self._files = schema.FileSystemCapabilities()
        self._pool = AgentPool()
        self._open: dict[str, EditorSession] = {}

    def on_connect(self, conn: Client) -> None:
        """Store the editor's end of the connection; the SDK calls this."""
        self._client = conn

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the messages of an editor until it closes its end."""
        await run_agent(cast("Any", self), writer, reader, use_unstable_protocol=True)

    async def aclose(self) -> None:
        """Close all sessions, then ledger and provider: the editor has left."""
        await asyncio.gather(*map(self.close_session, list(self._open)))
        await self._pool.aclose()

    # -- the connection ------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        """Agree on version 1, and say what nexus has."""
        forms = client_capabilities.elicitation if client_capabilities else None
        self._asks_forms = forms is not None and forms.form is not None
        self._files = (client_capabilities and client_capabilities.fs) or self._files
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="nexus", title="nexus", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            field_meta={"steering": {"supported": True}},
            auth_methods=[
                schema.TerminalAuthMethod(
                    type="terminal",
                    id="login",
                    name="Store a key: nexus login",
                    description="Asks for a provider and its API key in a terminal",
                    args=["login"],
                )
            ],
        )

    async def authenticate(self, **kwargs: Any) -> schema.AuthenticateResponse:
        """Accept: keys are stored by `nexus login` in a terminal, and looked for when a session is opened."""
        return schema.AuthenticateResponse()

    # -- sessions ------------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        """Begin a session in a folder."""
        editor_session = await self._open_session(cwd, additional_directories, mcp_servers)
        return schema.NewSessionResponse(session_id=editor_session.session.id, **self._offer(editor_session))

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[Any] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        """Open a session of the ledger, and send its conversation as it was shown."""
        editor_session = await self._open_session(cwd, additional_directories, mcp_servers, session_id or NO_SESSION)
        stream = UpdateStream(
            editor_session.agent.registry,
            editor_session.session.folder,
            replays=True,
            earlier=editor_session.approver.stream,
        )
        for past in replay_of(editor_session.session).events():
            editor_session.send(stream.translate(past.event))
            if past.entry and isinstance(past.event, TurnStart | SteeringMessage):
                editor_session.send(map(image, past.entry.message.parts))
        await editor_session.updates.join()
        return schema.LoadSessionResponse(**self._offer(editor_session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        """Open a session of the ledger; its conversation is not sent again."""
        session = await self._open_session(cwd, additional_directories, mcp_servers, session_id or NO_SESSION)
        return schema.ResumeSessionResponse(**self._offer(session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> schema.ForkSessionResponse:
        """Open a copy of a session of the ledger, which stays as it is."""
        session = await self._open_session(
            cwd, additional_directories, mcp_servers, session_id or NO_SESSION, forks=True
        )
        return schema.ForkSessionResponse(session_id=session.session.id, **self._offer(session))

    async def list_sessions(self, cwd: str | None = None, **kwargs: Any) -> schema.ListSessionsResponse:
        """List the newest sessions of a folder, or of all."""
        with _as_request_error():
            # The protocol lists no session of another folder, as those of worktrees are.
            sessions = self._pool.open_ledger().sessions(cwd or None, MAX_LISTED, runs=False, worktrees=False)
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=session.id,
                    cwd=session.folder,
                    title=_title(session) or None,
                    updated_at=session.updated,
                )
                for session in sessions
            ]
        )

    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse:
        """Stop the session's turn and close it; it stays in the ledger."""
        if (editor_session := self._open.pop(session_id, None)) is not None:
            editor_session.close()
            with suppress(NexusError):
                await editor_session.agent.aclose()
        return schema.CloseSessionResponse()

    async def _open_session(
        self,
        cwd: str,
        added: Sequence[str] | None,
        servers: Sequence[Any] | None,
        resume: str = "",
        *,
        forks: bool = False,
    ) -> EditorSession:
        with _as_request_error():
            if resume:
                resume = self._pool.open_ledger().find_session(resume).id
            if resume and not forks:
                await self.close_session(resume)
            folder = _find_folder(cwd)
            entries, problems = make_entries(servers or (), folder)
            if forks:
                resume = (await asyncio.to_thread(undo_files.fork_session, self._pool.open_ledger(), resume)).id
            try:
                editor_session = self._make_session(folder, added or (), resume, entries)
            except BaseException:
                if forks:
                    undo_files.delete_fork(self._pool.open_ledger(), resume)
                raise
            problems += editor_session.session.describe_resumed() if resume else ()
        self._open[editor_session.session.id] = editor_session
        dispatcher = editor_session.agent.dispatcher
        dispatcher.heard, dispatcher.wait_until_shown = editor_session.send_event, editor_session.updates.join
        editor_session.renew_stream()
        work = self._greet(editor_session, problems), self._send_updates(editor_session)
        editor_session.sending = asyncio.gather(*work, return_exceptions=True)
        return editor_session

    def _make_session(
        self, folder: Path, added: Sequence[str], resume: str, servers: tuple[ServerEntry, ...]
    ) -> EditorSession:
        project = project_root(folder)
        settings = settings_in(project)
        model_name = self._options.model
        model = "" if resume and not model_name else choose_model(model_name, settings).model
        options = replace(
            self._options,
            cwd=folder,
            model=model,
            effort=self._options.effort or settings.effort,
            resume=resume,
            front=CHAT,
            interactive=True,
            servers=servers,
            add_dirs=check_folders(tuple(added), project) if added else (),
        )
        services = SERVICES
        if self._files.read_text_file and self._files.write_text_file:
            make = partial(EditorFiles, self._client, asyncio.get_running_loop())
            services = (*SERVICES, ServiceMaker(EditorTexts, make))
        approver = EditorApprover(self._client)
        approver.attach_client(has_person=self._asks_forms)
        agent = self._pool.open_agent(options, settings, approver, services)
        approver.session_id, approver.stream = agent.agent_id, UpdateStream(agent.registry, folder)
        return EditorSession(agent, approver)

    async def _greet(self, editor_session: EditorSession, problems: Sequence[str]) -> None:
        """Send the commands and the notices of a session that was opened."""
        session, built_in = editor_session.session, discover()
        own_commands = await editor_session.agent.dispatcher.read_own_commands()
        served = [
            verb
            for name, verb in built_in.items()
            if verb.is_served and (name not in OPENING_COMMANDS or name == "rewind")
        ]
        commands = [_describe_command(command) for command in (*own_commands, *served)]
        update = schema.AvailableCommandsUpdate(available_commands=commands, session_update="available_commands_update")
        editor_session.send([update])
        notices = [*self._pool.notices, *session.take_notices(), *problems]
        editor_session.send(map(note, notices))

    async def _send_updates(self, editor_session: EditorSession) -> None:
        """Send the updates of a session until it is closed."""
        while True:
            updates = await editor_session.updates.get()
            try:
                with suppress(ConnectionError):  # the editor has left
                    for update in updates:
                        await self._client.session_update(editor_session.session.id, update)
            except Exception as bug:  # the others are sent
                report_bug(bug)
            finally:
                editor_session.updates.task_done()

    # -- turns ---------------------------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: Sequence[Block], **kwargs: Any) -> schema.PromptResponse:
        """Run a turn, or a slash command, and return how it ended."""
        editor_session, outcome = self._get(session_id), None
        editor_session.choosing.cancel()
        with _as_request_error():
            prompted = make_trigger(prompt, editor_session.session.folder)
            try:
                if trigger := await self._run_command(editor_session, prompted):
                    if trigger.text:
                        trigger = replace(trigger, text=trigger.text + editor_session.attached)
                        editor_session.attached = ""
                    outcome = await self._run_turns(editor_session, trigger)
            except RpcError as error:
                if error.code != REFUSED:
                    raise
                await editor_session.updates.join()
                return schema.PromptResponse(stop_reason="cancelled")
        await editor_session.updates.join()
        return self._end_turn(outcome) if outcome else schema.PromptResponse(stop_reason="end_turn")

    async def _run_turns(self, editor_session: EditorSession, trigger: Trigger) -> Outcome:
        """Run a turn, then one for messages that came too late for it, and one that carries out its plan if the person
        says so. Raise `RpcError` if that question is cancelled."""
        dispatcher, session = editor_session.agent.dispatcher, editor_session.session
        outcome = await dispatcher.run(trigger)
        if outcome.ok and session.undelivered:
            outcome = await dispatcher.run(Trigger())
        status = session.status()
        levels = offer_levels(outcome, status.allow, has_sandbox=status.has_sandbox)
        if levels and dispatcher.state == "idle":
            level = await editor_session.choose(PROMPT, [*map(Choice, levels, levels.values())])
            if editor_session.choosing.cancelled():
                raise RpcError(REFUSED, "the question was cancelled")
            if level:
                session.set_level(level)
                editor_session.send_level()
                outcome = await dispatcher.run(Trigger(PROCEED, "client"))
        return outcome

    async def ext_method(self, method: str, params: JsonDict) -> JsonDict:
        """Answer `_session/steering`, as other agents do until the protocol has a method: give the running turn a
        message. One that it cannot take, as with images or a command, is a prompt."""
        if method != STEERING:
            raise RequestError.method_not_found(f"_{method}")
        prompt_request = schema.PromptRequest.model_validate(params)
        editor_session = self._get(prompt_request.session_id)
        with _as_request_error():
            trigger = make_trigger(prompt_request.prompt, editor_session.session.folder)
        with suppress(RpcError):
            if not (trigger.parts or trigger.text.startswith("/")):
                await editor_session.agent.dispatcher.steer(trigger.text)
                return {"outcome": "injected"}
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}

    def _end_turn(self, outcome: Outcome) -> schema.PromptResponse:
        kind = outcome.error["kind"] if outcome.error else ""
        if outcome.error and not outcome.was_declined and kind not in ("aborted", "limit", "denied", "waiting"):
            raise _request_error(NexusError.of(cast("ErrorObject", outcome.error)))
        reason: StopReason = "end_turn"
        if kind == "aborted" and not outcome.was_declined:
            reason = "cancelled"
        elif kind == "limit":
            reason = "max_turn_requests"
        return schema.PromptResponse(stop_reason=reason, usage=turn_usage(outcome.usage))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop the running turn, and the prompts that wait for it; what was done is kept."""
        if (editor_session := self._open.get(session_id)) is not None:
            editor_session.choosing.cancel()
            editor_session.agent.dispatcher.cancel_all()

    async def _run_command(self, editor_session: EditorSession, trigger: Trigger) -> Trigger | None:
        """Run the slash command that a prompt is, and return the trigger of the turn that it starts, None if it starts
        none; return the trigger of any other prompt."""
        line = trigger.text.strip()
        word, _, arguments = line.removeprefix("/").partition(" ")
        dispatcher, commands = editor_session.agent.dispatcher, discover()
        if trigger.text.startswith("/") and word not in commands:
            own = [command.name for command in await dispatcher.read_own_commands()]
            word = next((name for name, verb in commands.items() if word in verb.aliases and word not in own), word)
        if not (trigger.text.startswith("/") and word in commands):
            return trigger
        _refuse_opening(commands[word], arguments, editor_session.session.id)
        return await self._repeat(editor_session, await dispatcher.run_command(word, arguments, asks=True))

    async def _repeat(self, editor_session: EditorSession, result: CommandResult) -> Trigger | None:
        """Do in the editor what a command did at its terminal, and let the person choose; return the trigger of the
        turn that it starts."""
        follows: Trigger | None = None
        for call in result["calls"]:
            params, text = call["params"], ""
            match call["method"]:
                case "say":
                    text = sanitize(str(params["text"]))
                case "show":
                    text = fenced(find_form(params["form"])(params["value"], WIDTH))
                case "save":
                    path = await asyncio.to_thread(save_in, editor_session.session.folder, **params, inside=True)
                    text = f"Written to {sanitize(str(path))}"
                case "start":
                    follows = Trigger(params["text"], expands=params["typed"])
                case "attach":
                    editor_session.attached += f"\n\n{params['block']}"
                case "choose":
                    choices = [Choice(**choice) for choice in params["choices"]]
                    key = await editor_session.choose(params["title"], choices)
                    chosen = await editor_session.agent.dispatcher.choose(params["id"], key)
                    return await self._repeat(editor_session, chosen)
            if text:
                editor_session.send([message(f"{text}\n")])
        if error := result["error"]:
            raise NexusError.of(error)
        editor_session.send_usage()
        return follows

    # -- settings ------------------------------------------------------------------------------------------------

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change level, model or effort of a session that runs no turn; the level also during one."""
        session = self._get(session_id)
        session.choosing.cancel()
        word = str(value)
        with _as_request_error():
            if config_id not in OPTIONS:
                raise UsageError(f"option {config_id!r}", f"must be one of {', '.join(OPTIONS)}")
            if config_id != LEVEL and session.session.busy:
                raise UsageError(
                    f"the {config_id} cannot be changed",
                    "a turn is running",
                    "Try again when the turn has ended",
                )
            if len(word.split()) != 1 or any(word == verb.name for verb in discover()[OPTIONS[MODEL]].verbs):
                raise UsageError(f"the {config_id} {word[:80]!r}", "unknown value", "Choose from the list")
            if error := (await session.agent.dispatcher.run_command(OPTIONS[config_id], word))["error"]:
                raise NexusError.of(error)
        session.send_level()
        return schema.SetSessionConfigOptionResponse(config_options=session.describe_options())

    async def set_session_mode(self, mode_id: str, session_id: str, **kwargs: Any) -> schema.SetSessionModeResponse:
        """Change the level of a session, as the option does."""
        await self.set_config_option(LEVEL, session_id, mode_id)
        return schema.SetSessionModeResponse()

    def _offer(self, editor_session: EditorSession) -> JsonDict:
        """Return the levels as modes, and the options, as they are when a session is opened."""
        editor_session.level = editor_session.session.status().allow
        levels = [
            schema.SessionMode(id=level, name=level, description=description) for level, description in _LEVELS.items()
        ]
        modes = schema.SessionModeState(current_mode_id=editor_session.level, available_modes=levels)
        return {"modes": modes, "config_options": editor_session.describe_options()}

    def _get(self, session_id: str) -> EditorSession:
        session = self._open.get(session_id)
        if session is None:
            raise RequestError.invalid_params({"message": f"no open session {session_id}; load or resume it first"})
        return session


def _refuse_opening(command: Command, arguments: str, session: str) -> None:
    """Raise `UsageError` for a line that opens another session than `session` in its place."""
    words = arguments.casefold().split()
    is_verb = words[:1] and words[0] in (verb.name for verb in command.verbs)
    name = "resume" if command.name == "sessions" and not is_verb else command.name
    stays = words[-1:] == ["files"] if name == "rewind" else "--running" in words
    if name in OPENING_COMMANDS and not stays:
        subject = f"/{command.name} {arguments}".rstrip()
        raise UsageError(subject, "only the editor can open another session", OPENING_COMMANDS[name].format(session))


def _title(info: SessionInfo) -> str:
    return sanitize(info.name or info.first_text).partition("\n")[0][:100]


def _describe_command(command: Command) -> schema.AvailableCommand:
    usage = schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=command.usage)) if command.usage else None
    return schema.AvailableCommand(name=command.name, description=sanitize(command.summary), input=usage)


def _find_folder(cwd: str) -> Path:
    """Return the real path of a folder that is named absolutely; raise `UsageError` for any other."""
    with suppress(OSError, ValueError):  # a path that is too long, or has NUL
        folder = real_path(cwd)
        if os.path.isabs(cwd) and folder.is_dir():
            return folder
    raise UsageError(f"folder {one_line(cwd)[:200]}", "must be the absolute path of an existing folder")


def _select(
    key: str, name: str, category: Any, current: str, values: Sequence[str], descriptions: Mapping[str, str]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        id=key,
        name=name,
        category=category,
        type="select",
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=value, description=descriptions.get(value))
            for value in values
        ],
    )


@contextmanager
def _as_request_error() -> Iterator[None]:
    """Raise an error of the block as one of the protocol, with what to do."""
    try:
        yield
    except NexusError as error:
        raise _request_error(error) from error
    except RpcError as error:
        raise RequestError(error.code, str(error), error.data) from error


def _request_error(error: NexusError) -> RequestError:
    data = dict(error.to_json())
    if error.kind == "auth" or error.what == "no model":
        return RequestError.auth_required(data)
    code = -32602 if error.kind in ("usage", "config") else -32603
    return RequestError(code, error.line.removeprefix("nexus: "), data)
