"""`EditorAgent`: the methods of the Agent Client Protocol (version 1) over ordinary sessions.

Every session is one that `nexus` itself could have begun: it is in the ledger, and the REPL resumes it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from acp import Agent, Client, run_agent, schema
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION

from nexus_cli import __version__
from nexus_cli.acp.editor_files import EditorFiles
from nexus_cli.acp.prompt_blocks import Block, make_trigger
from nexus_cli.acp.questions import AskingApprover, EditorApprover
from nexus_cli.acp.updates import UpdateStream, image, message, note, turn_usage, usage_update
from nexus_cli.commands import discover
from nexus_cli.commands.command import Command
from nexus_cli.commands.own_guides import message_commands
from nexus_cli.config.added_folders import check_folders
from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.paths import project_root
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import (
    AgentEvent,
    CompactionDone,
    CompactionStart,
    Event,
    Notice,
    Outcome,
    SteeringMessage,
    TurnEnd,
    TurnStart,
    WorkerState,
)
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import ALL, ASK, AUTO, EDIT, PLAN
from nexus_cli.core.real_files import real_path
from nexus_cli.core.request import close_if_closable
from nexus_cli.core.services import EditorTexts
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.mcp.server_values import ServerEntry
from nexus_cli.provider.available_models import resolve_alias, unnamed_model
from nexus_cli.reports import models
from nexus_cli.reports.conversation import replay_of
from nexus_cli.reports.export import save_in
from nexus_cli.reports.forms import find_form
from nexus_cli.rpc.served_command import ServedContext, find_served, refuse_elsewhere
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import make_provider, open_session
from nexus_cli.session.open_session import open_ledger
from nexus_cli.session.options import CHAT, Options
from nexus_cli.session.service_makers import ServiceMaker, ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.text.terminal_sanitizer import sanitize

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
            shown = one_line(server.name)[:LONGEST]
            problems.append(f"MCP server {shown!r} from the editor was skipped: its name is invalid or taken")
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
                    shown=one_line(" ".join([command, *args])),
                )
            case schema.McpServerHttp(url=url, headers=headers):
                values = {header.name: header.value for header in headers}
                entries[name] = ServerEntry(
                    name, url=url, headers=values, source="editor", file="the editor", shown=one_line(url)
                )
            case _:
                kind = str(getattr(server, "type", "unknown"))
                problems.append(f"MCP server {name} from the editor was skipped: unsupported transport {kind}")
    return tuple(entries.values()), problems


WIDTH = 100
"""Columns of a report in an editor."""
MOST_LISTED = 200
"""Most sessions of one answer."""
NO_SESSION = "(empty)"
"""In place of an empty session id, which would begin a new session."""
LEVEL, MODEL, EFFORT = "level", "model", "effort"
OPTIONS = {LEVEL: "permissions", MODEL: "model", EFFORT: "effort"}
"""The options of a session, each with the command that sets it."""
OPEN_OTHERS = ("clear", "edit", "fork", "resume")
"""Commands that open another session, which the editor does itself."""
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
    """An open session, and what belongs to its connection."""

    session: Session
    approver: EditorApprover
    told: str = ""
    """The title that the editor was told."""
    level: str = ""
    """The level that the editor was told."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a turn, a command and a change of the session: another prompt waits for it."""
    cancels: int = 0
    """How often the editor has cancelled: a prompt that waited meanwhile is cancelled too."""

    def stream(self) -> UpdateStream:
        """Return a new stream of updates; the approver asks with it."""
        texts, dispatcher = self.texts, self.session.dispatcher
        self.approver.stream = UpdateStream(dispatcher.registry, self.session.folder, texts.unsaved if texts else {})
        return self.approver.stream

    @property
    def texts(self) -> EditorTexts | None:
        """The texts of the editor, None if it does not offer them."""
        return self.session.state.services.find(EditorTexts)


class EditorAgent:
    """Serves one editor: several sessions over one ledger and one provider. It has no forks (`/rewind` forks) and no
    extensions. A level is a mode and an option: some editors know only one of them."""

    def __init__(self, options: Options) -> None:
        """`options` has the model, level and effort of the command line, for new sessions."""
        self._options = options
        self._client: Client
        self._asks_forms = False
        self._files = schema.FileSystemCapabilities()
        self._open: dict[str, EditorSession] = {}
        self._ledger: Ledger | None = None
        self._provider: Any = None
        self._beside: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        """See the SDK: the editor's end of the connection."""
        self._client = conn

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the messages of an editor until it closes its end."""
        await run_agent(cast("Agent", self), writer, reader, use_unstable_protocol=True)

    async def aclose(self) -> None:
        """Close all sessions, then ledger and provider: the editor has left."""
        for session_id in list(self._open):
            await self.close_session(session_id)
        await close_if_closable(self._provider)
        if self._ledger is not None:
            self._ledger.close()

    # -- the connection ------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
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
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
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

    async def authenticate(self, method_id: str, **kwargs: Any) -> schema.AuthenticateResponse:
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
        stream = UpdateStream(editor_session.session.dispatcher.registry, editor_session.session.folder, replays=True)
        for past in replay_of(editor_session.session).events():
            await self._send(editor_session, stream.translate(past.event))
            if past.entry and isinstance(past.event, TurnStart | SteeringMessage):
                await self._send(editor_session, map(image, past.entry.message.parts))
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

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """List the newest sessions of a folder, or of all."""
        with _as_request_error():
            sessions = self._open_ledger().sessions(cwd or None, MOST_LISTED, runs=False)
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
        editor_session = self._open.pop(session_id, None)
        if editor_session is not None:
            editor_session.session.cancel("end")
            with suppress(NexusError):
                await editor_session.session.aclose()
        return schema.CloseSessionResponse()

    async def _open_session(
        self, cwd: str, added: Sequence[str] | None, servers: Sequence[Any] | None, resume: str = ""
    ) -> EditorSession:
        if resume in self._open:
            await self.close_session(resume)
        with _as_request_error():
            folder = _find_folder(cwd)
            entries, problems = make_entries(servers or (), folder)
            editor_session = self._make_session(folder, added or (), resume, entries)
        self._open[editor_session.session.id] = editor_session
        self._listen(editor_session)
        asyncio.get_running_loop().call_soon(self._spawn, self._greet(editor_session, problems))
        return editor_session

    def _make_session(
        self, folder: Path, added: Sequence[str], resume: str, servers: tuple[ServerEntry, ...]
    ) -> EditorSession:
        project = project_root(folder)
        settings = settings_in(project)
        model = resolve_alias(self._options.model, settings) if self._options.model else ""
        model = model or ("" if resume else unnamed_model(settings))
        if not model and not resume:
            raise NexusError(
                "auth",
                "no model",
                "no default model is set",
                "`nexus model use NAME` sets a model; `nexus login PROVIDER` stores a key",
            )
        self._provider = self._provider or make_provider(settings)
        approver = AskingApprover(self._client) if self._asks_forms else EditorApprover(self._client)
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
        session = open_session(
            options,
            settings,
            approver=approver,
            provider=self._provider,
            ledger=self._open_ledger(),
            services=self._services(),
        )
        approver.session_id = session.id
        return EditorSession(session, approver)

    def _services(self) -> ServiceMakers:
        """Return the services of a session, with the texts of the editor if it gives and takes them."""
        if not (self._files.read_text_file and self._files.write_text_file):
            return SERVICES
        make = partial(EditorFiles, self._client, asyncio.get_running_loop())
        return (*SERVICES, ServiceMaker(EditorTexts, make))

    def _open_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = open_ledger(self._options, [])
        return self._ledger

    async def _greet(self, editor_session: EditorSession, problems: Sequence[str]) -> None:
        """Send the commands and the notices of a session that was opened."""
        session, built_in = editor_session.session, discover()
        own = await asyncio.to_thread(message_commands, session.folder, built_in, session.options.servers)
        served = [verb for name, verb in built_in.items() if verb.is_served and name not in OPEN_OTHERS]
        commands = [_describe_command(command) for command in (*own.values(), *served)]
        update = schema.AvailableCommandsUpdate(available_commands=commands, session_update="available_commands_update")
        await self._client.session_update(session.id, update)
        await self._send(editor_session, map(note, [*session.take_notices(), *problems]))

    # -- turns ---------------------------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: Sequence[Block], **kwargs: Any) -> schema.PromptResponse:
        """Run a turn, or a slash command, and return how it ended."""
        editor_session = self._get(session_id)
        with _as_request_error():
            trigger = make_trigger(prompt, editor_session.session.folder)
        before = editor_session.cancels
        async with editor_session.lock:
            if editor_session.cancels != before:
                return schema.PromptResponse(stop_reason="cancelled")
            if trigger.text.startswith("/") and trigger.text[1:].partition(" ")[0].strip() in discover():
                with _as_request_error():
                    follows = await self._run_command(editor_session, trigger.text)
                if follows is None:
                    await self._tell_figures(editor_session)
                    return schema.PromptResponse(stop_reason="end_turn")
                trigger = follows
            outcome: Outcome | None = None
            stream = editor_session.stream()
            try:
                async for event in editor_session.session.run(trigger):
                    if isinstance(event, TurnEnd):
                        outcome = event.outcome
                    elif not (isinstance(event, Notice) and not event.text):
                        # The editor shows the person's own message itself.
                        await self._send(editor_session, () if event.kind == "turn.start" else stream.translate(event))
            except NexusError as error:
                raise _request_error(error) from error
            except Exception as error:  # a bug must be told to the editor, which shows nothing of stderr
                raise _request_error(report_bug(error)) from error
            await self._tell_figures(editor_session)
        if outcome is None:
            raise RequestError.internal_error({"message": "the turn ended without a result"})
        return self._end_turn(outcome)

    def _end_turn(self, outcome: Outcome) -> schema.PromptResponse:
        error = outcome.error or {}
        kind = error.get("kind", "")
        if kind and not outcome.was_declined and kind not in ("aborted", "limit", "denied", "waiting"):
            raise RequestError(-32603, error["message"], {"kind": kind, "hint": error.get("hint", "")})
        reason: StopReason = "end_turn"
        if kind == "aborted" and not outcome.was_declined:
            reason = "cancelled"
        elif kind == "limit":
            reason = "max_turn_requests"
        return schema.PromptResponse(stop_reason=reason, usage=turn_usage(outcome.usage))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop the running turn, and the prompts that wait for it; what was done is kept."""
        if (editor_session := self._open.get(session_id)) is not None:
            editor_session.cancels += 1
            editor_session.session.cancel("person")

    async def _run_command(self, editor_session: EditorSession, line: str) -> Trigger | None:
        """Run a slash command; return the trigger of the turn that it starts, None if it starts none."""
        word, _, rest = line.strip().removeprefix("/").partition(" ")
        context = self._context(editor_session)
        command = find_served(word, rest.strip(), context)
        if command.name == "rewind" and rest.split()[-1:] != ["files"]:
            raise refuse_elsewhere(f"/rewind {rest.strip()}".rstrip(), "Use /rewind N files, which reverts only files")
        await command.invoke(context, rest.strip())
        follows: Trigger | None = None
        for call in context.take_calls():
            params = call["params"]
            if call["method"] == "say":
                await self._send(editor_session, [message(f"{sanitize(str(params['text']))}\n")])
            elif call["method"] == "show":
                text = sanitize(find_form(params["form"])(params["value"], WIDTH))
                await self._send(editor_session, [message(f"```\n{text}\n```\n")])
            elif call["method"] == "save":
                path = await asyncio.to_thread(save_in, editor_session.session.folder, **params, inside=True)
                await self._send(editor_session, [message(f"Written to {sanitize(str(path))}\n")])
            elif call["method"] == "start":
                follows = Trigger(params["text"])
        return follows

    # -- settings ------------------------------------------------------------------------------------------------

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change level, model or effort of a session that runs no turn; the level also during one."""
        session = self._get(session_id)
        word = str(value)
        with _as_request_error():
            if config_id not in OPTIONS:
                raise NexusError("usage", f"option {config_id!r}", f"must be one of {', '.join(OPTIONS)}")
            if config_id != LEVEL and session.lock.locked():
                raise NexusError(
                    "usage",
                    f"the {config_id} cannot be changed",
                    "a turn is running",
                    "Try again when the turn has ended",
                )
            if len(word.split()) != 1 or any(word == verb.name for verb in discover()[OPTIONS[MODEL]].verbs):
                raise NexusError("usage", f"the {config_id} {word[:80]!r}", "unknown value", "Choose from the list")
            context = self._context(session)
            await find_served(OPTIONS[config_id], word, context).invoke(context, word)
        await self._tell_level(session)
        return schema.SetSessionConfigOptionResponse(config_options=self._config(session))

    async def set_session_mode(self, mode_id: str, session_id: str, **kwargs: Any) -> schema.SetSessionModeResponse:
        """Change the level of a session, as the option does."""
        await self.set_config_option(LEVEL, session_id, mode_id)
        return schema.SetSessionModeResponse()

    def _context(self, editor_session: EditorSession) -> ServedContext:
        return ServedContext(
            lambda: editor_session.session,
            partial(self._tell_beside, editor_session),
            partial(self._reopen, editor_session),
        )

    async def _reopen(self, editor_session: EditorSession, options: Options) -> None:
        if options.resume != editor_session.session.id:
            raise refuse_elsewhere(
                "another session", "Open the session from the editor, or with `nexus -r ID` in a terminal"
            )
        before, settings = editor_session.session, editor_session.session.engine.settings
        services = self._services()
        editor_session.session = open_session(
            options, settings, approver=editor_session.approver, earlier=before, services=services
        )
        self._listen(editor_session)

    def _listen(self, editor_session: EditorSession) -> None:
        editor_session.session.listen(partial(self._tell_beside, editor_session))
        editor_session.stream()

    def _offer(self, editor_session: EditorSession) -> JsonDict:
        """Return the levels as modes, and the options, as they are when a session is opened."""
        editor_session.level = editor_session.session.status().allow
        levels = [schema.SessionMode(id=level, name=level, description=about) for level, about in _LEVELS.items()]
        modes = schema.SessionModeState(current_mode_id=editor_session.level, available_modes=levels)
        return {"modes": modes, "config_options": self._config(editor_session)}

    async def _tell_level(self, editor_session: EditorSession) -> None:
        """Send the level as mode and option if it is not the one that the editor was told."""
        level = editor_session.session.status().allow
        if level != editor_session.level:
            editor_session.level = level
            mode = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=level)
            options = schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=self._config(editor_session)
            )
            await self._send(editor_session, [mode, options])

    def _config(
        self, editor_session: EditorSession
    ) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
        status = editor_session.session.status()
        names = [status.model, *models.quick_names(editor_session.session.engine.settings)]
        return [
            _select(LEVEL, "Permission level", "mode", status.allow, list(_LEVELS), _LEVELS),
            _select(MODEL, "Model", "model", status.model, list(dict.fromkeys(names)), {}),
            _select(EFFORT, "Effort", "thought_level", status.effort or DEFAULT_EFFORT, (DEFAULT_EFFORT, *EFFORTS), {}),
        ]

    # -- updates -------------------------------------------------------------------------------------------------

    async def _send(self, editor_session: EditorSession, updates: Iterable[Any]) -> None:
        for update in updates:
            await self._client.session_update(editor_session.session.id, update)

    async def _tell_figures(self, editor_session: EditorSession) -> None:
        """Send the window and the dollars after a turn, a changed level, and the title once there is one."""
        await self._send(editor_session, [usage_update(editor_session.session.status())])
        await self._tell_level(editor_session)
        with suppress(NexusError):
            session = self._open_ledger().session(editor_session.session.id)
            title = _title(session)
            if title and title != editor_session.told:
                editor_session.told = title
                update = schema.SessionInfoUpdate(
                    title=title, updated_at=session.updated, session_update="session_info_update"
                )
                await self._send(editor_session, [update])

    def _tell_beside(self, session: EditorSession, event: Event) -> None:
        """Send an event of a worker, a job or a command that comes while no turn runs."""
        inner = event.event if isinstance(event, AgentEvent) else event
        if isinstance(inner, Notice | WorkerState | CompactionStart | CompactionDone):
            self._spawn(self._send(session, list(session.stream().translate(event))))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._end_beside)

    def _end_beside(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled():
            task.exception()  # the editor has left: nobody is there to be told

    def _get(self, session_id: str) -> EditorSession:
        session = self._open.get(session_id)
        if session is None:
            raise RequestError.invalid_params({"message": f"no open session {session_id}; load or resume it first"})
        return session


def _title(info: SessionInfo) -> str:
    return sanitize(info.name or info.first_text).partition("\n")[0][:100]


def _describe_command(command: Command) -> schema.AvailableCommand:
    usage = schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=command.usage)) if command.usage else None
    return schema.AvailableCommand(name=command.name, description=sanitize(command.summary), input=usage)


def _find_folder(cwd: str) -> Path:
    """Return the real path of a folder that is named absolutely; raise `NexusError("usage", ...)` for any other."""
    with suppress(OSError, ValueError):  # a path that is too long, or has NUL
        folder = real_path(cwd)
        if os.path.isabs(cwd) and folder.is_dir():
            return folder
    raise NexusError("usage", f"folder {one_line(cwd)[:200]}", "must be the absolute path of an existing folder")


def _select(
    key: str, name: str, category: Any, current: str, values: Sequence[str], about: Mapping[str, str]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        id=key,
        name=name,
        category=category,
        type="select",
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=value, description=about.get(value)) for value in values
        ],
    )


@contextmanager
def _as_request_error() -> Iterator[None]:
    """Raise a `NexusError` of the block as an error of the protocol, with what to do."""
    try:
        yield
    except NexusError as error:
        raise _request_error(error) from error


def _request_error(error: NexusError) -> RequestError:
    data = dict(error.to_json())
    if error.kind == "auth":
        return RequestError.auth_required(data)
    code = -32602 if error.kind in ("usage", "config") else -32603
    return RequestError(code, error.line.removeprefix("nexus: "), data)
