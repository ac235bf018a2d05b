"""Sessions: list, read, search, stop, copy, name and delete them; `/resume`, `/clear`, `/fork`, `/edit`, `/rename`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import unescape
from itertools import islice
from typing import Annotated, Literal, TypedDict, cast, get_args

from nexus_cli.commands.arguments import SessionSource, read_log, resume_options
from nexus_cli.commands.command import Choice, CommandContext, usage_error
from nexus_cli.commands.export import EXPORT, export_named_session
from nexus_cli.commands.runs import cancel_run
from nexus_cli.commands.verb import Act, ActReport, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.config.paths import places
from nexus_cli.core.clock import format_age, local_now
from nexus_cli.core.elide import clip_text, plural
from nexus_cli.core.entry import PERSON, Entry
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import ABSENT, JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.run import QUEUED, RUNNING, WAITING
from nexus_cli.core.running_workers import WorkerObject
from nexus_cli.core.typed_text import GIVEN_BLOCK, split_attachments
from nexus_cli.ledger import LaneLog, Ledger, SessionInfo
from nexus_cli.ledger.lock_owners import LockOwner
from nexus_cli.ledger.search import SearchResult
from nexus_cli.ledger.sessions import owners_of
from nexus_cli.reports.conversation import Replay, open_calls
from nexus_cli.reports.last_exchange import short_id, title_of
from nexus_cli.reports.runs import describe_runs
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Table
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import cut_line, known_dollars, when
from nexus_cli.reports.transcript import transcript_of
from nexus_cli.reports.workers import recorded_workers

MOST = 200
"""Most sessions that are offered; a search reaches the others."""
LISTED = 50
"""Default number of listed sessions."""
LONGEST_NAME = 100
STEPS_SAVED = "Completed steps are kept."
Key = Annotated[str, Argument("ID", "Session id (or its start or end) or name.")]
TITLE = 100
"""Most characters of a title."""
LONGEST_TITLE = 200
"""Most columns of a title on lines that are otherwise as long as their content."""
TRIGGERED = {"tick_autonomous": "plan: ", "tick_event": "event: "}
"""What started a run that nobody typed, before its title, by its recipe."""
WIDE = 1000
"""Wider than any terminal: from here on ids are whole, for scripts."""
RunningState = Literal["asks", "runs", "waits", "queued", "broken off", "idle"]
ImportOrigin = TypedDict("ImportOrigin", {"from": str, "id": str, "file": str})
"""The program, its id of the session, and the file that an imported session comes from."""


class ListedSession(JsonOf[SessionInfo]):
    """A session with the short id that people see."""

    short: str
    person: str = ABSENT
    """On a server: the role whose session it is."""


class SessionsReport(VersionedReport):
    """The listed sessions."""

    sessions: list[ListedSession]
    """Newest first."""
    total: int
    runs: int
    """Sessions of `nexus ask` and unattended runs in this folder that are not listed; `--all` lists them."""


class SessionReport(JsonOf[SessionInfo]):
    """A session with its conversation."""

    version: Literal[1]
    workers: list[WorkerObject]
    entries: list[JsonOf[Entry]]
    imported: ImportOrigin = ABSENT


class SearchReport(JsonOf[SearchResult]):
    """The matches of a search."""

    version: Literal[1]
    text: str
    folder: str | None


@dataclass(slots=True)
class RunningObject:
    """A session that a process has open, a worker, or an unattended run."""

    id: str
    short: str
    kind: Literal["session", "worker", "run"]
    state: RunningState
    """`idle`: open, and no turn runs in it."""
    title: str
    what: str | None
    """The call that runs or asks, or what a run waits for."""
    folder: str
    updated: str
    parent: str | None = None
    """For a worker: the session that started it."""
    run: str | None = None
    """The unattended run that works in the session."""
    command: str | None = None
    """The subcommand of nexus; null for the REPL, `program` for a Python program that uses nexus."""
    pid: int | None = None
    terminal: str | None = None


class RunningReport(VersionedReport):
    """With `--running`: active and waiting sessions and runs."""

    running: list[JsonOf[RunningObject]]


Listed = SessionsReport | RunningReport


def build_list(
    source: Source,
    everywhere: Annotated[
        bool, Option(None, "Include sessions of all folders, of `nexus ask`, and of unattended runs.", "--all")
    ] = False,
    limit: Annotated[int, Option("N", "Show at most this many, newest first (not with --running).")] = LISTED,
    running: Annotated[
        bool, Option(None, "Show active and waiting sessions and runs of all terminals and folders.")
    ] = False,
) -> Report[Listed]:
    """List the interactive sessions of this folder, newest first."""
    ledger = source.ledger
    if running:
        return Report("running", running_report(ledger))
    value = list_sessions(ledger, None if everywhere else str(source.folder()), limit)
    note = describe_more_sessions(value) if limit == LISTED and source.is_piped else ""
    if not (value["total"] or everywhere or value["runs"]):
        note = "`nexus sessions list --all` lists the sessions of all folders."
    if not value["total"] and ledger.list_replaced():
        note = f"{note} A damaged ledger was replaced: see `nexus doctor`.".lstrip()
    return Report("sessions", value, uncut=True, note=note)


def build_session(source: Source, key: Key) -> Report[SessionReport]:
    """Print the conversation of a session."""
    info = source.ledger.session(source.find(key))
    value = show_session(source.ledger, info.id)
    if source.is_json:
        return Report("transcript", value)
    transcript = transcript_of(Replay(source.ledger.log(info.id), info.folder, is_whole=True), info)
    return Report("transcript", cast("SessionReport", {**value, **transcript}), uncut=True)


def build_search(
    source: Source,
    text: Annotated[str, Argument("TEXT", "Plain text to search for; case is ignored.", least=0)],
    everywhere: Annotated[bool, Option(None, "Search sessions of all folders.", "--all")] = False,
    limit: Annotated[int, Option("N", "Show at most this many matches.")] = 20,
) -> Report[SearchReport]:
    """Search messages and tool calls in the sessions of this folder, newest first."""
    folder = None if everywhere else str(source.folder())
    return Report("search", search_sessions(source.ledger, replace_surrogates(text), folder, limit))


def list_sessions(ledger: Ledger, folder: str | None = None, limit: int = 50, *, runs: bool = False) -> SessionsReport:
    """Return the newest sessions of a folder, how many there are in total, and how many runs of `nexus ask` are left
    out of them, unless `runs` are wanted; without a folder those of all folders, with the runs."""
    runs = runs or folder is None
    hidden_runs = 0 if runs or folder is None else ledger.count_runs(folder)
    infos, total = ledger.sessions(folder, limit, runs=runs), ledger.count_sessions(folder, runs=runs)
    ends = ledger.short_ids([info.id for info in infos])
    values = [ListedSession(to_json_value(info), short=end) for info, end in zip(infos, ends, strict=True)]
    if ledger.db.is_shared:
        makers = owners_of(ledger.db, [info.id for info in infos])
        for value in values:
            value["person"] = makers[value["id"]]
    return {"version": 1, "sessions": values, "total": total, "runs": hidden_runs}


def show_session(ledger: Ledger, session: str) -> SessionReport:
    """Return one session with its workers and every entry of its main conversation."""
    log = ledger.log(session)
    value: JsonDict = {**to_json_value(ledger.session(session)), "version": 1}
    value["workers"] = recorded_workers(ledger, session)
    for memo in log.memos(IMPORTED_SESSION):
        value["imported"] = {name: memo.value[name] for name in ("from", "id", "file")}
    return SessionReport(value, entries=to_json_value(log.read(1, log.last_id())))


def search_sessions(ledger: Ledger, text: str, folder: str | None = None, limit: int = 20) -> SearchReport:
    """Return the newest entries that contain `text`; raise `UsageError` if it is empty."""
    if not text.strip():
        raise UsageError("nothing to search for", "the text is empty", "Enter text to search for")
    return SearchReport(version=1, text=text, folder=folder, **to_json_value(ledger.search(text, folder, limit)))


def running_report(ledger: Ledger) -> RunningReport:
    """Return open sessions, the busy ones first, and the runs that are queued, running or waiting."""
    owners = ledger.find_owners()
    sessions = [_session_row(ledger, name, owner) for name, owner in owners.items() if not name.startswith("run-")]
    rows = [session for session in sessions if session is not None]
    by_session = {row.id: row for row in rows}
    if ledger.has_runs():
        for run in describe_runs(ledger, ledger.runs.list_runs((QUEUED, RUNNING, WAITING), limit=200)):
            if session_row := by_session.get(run["session"] or ""):
                session_row.run = run["id"]
                continue
            state: RunningState = (
                "waits" if run["state"] == WAITING else "broken off" if run["broken_off"] else "queued"
            )
            facts = run["title"], run["waits_for"], run["folder"], run["updated"]
            rows.append(RunningObject(run["id"], run["id"], "run", state, *facts))
    rows.sort(key=lambda row: (get_args(RunningState).index(row.state), row.id))
    return {"version": 1, "running": to_json_value(rows)}


def _session_row(ledger: Ledger, session: str, owner: LockOwner) -> RunningObject | None:
    with suppress(NexusError):  # deleted since
        info, log = ledger.session(session), ledger.log(session)
        state, activity = _find_state(log, owner)
        return RunningObject(
            info.id,
            ledger.short_ids([info.id])[0],
            "worker" if info.spawner else "session",
            state,
            info.name or title_of(info.first_text),
            activity,
            info.folder,
            info.updated,
            info.spawner,
            command=owner.command or None,
            pid=owner.pid or None,
            terminal=owner.terminal or None,
        )
    return None


def _find_state(log: LaneLog, owner: LockOwner) -> tuple[RunningState, str | None]:
    """Return the state and the work of an open session. In a turn, a call that was not started waits for an answer."""
    if not owner.is_busy:
        return "idle", None
    calls = open_calls(next(Replay(log).newest_turns(), ()))
    if not calls:
        return "runs", None
    started = [event for event in calls if log.was_started(event.call.id)]
    first = (started or calls)[0]
    return "runs" if started else "asks", f"{first.call.name} {first.subject}".strip()[:LONGEST_TITLE]


def stop_session(
    source: Source,
    key: Annotated[str, Argument("ID", "Id or name of a session, or a run such as run-3.")],
    yes: Annotated[bool, Option(None, "Do not ask.", "--yes -y")] = False,
) -> Act:
    """Stop a session that is open in another terminal, or cancel a run. Completed steps are kept.

    nexus sends SIGTERM to the process of the session, which stops the turn, saves and exits.
    """
    ledger = source.ledger
    if key.startswith("run-"):
        cancel_run(source, key)
        return report_act(f"{key} was cancelled. {STEPS_SAVED}", key)
    session = source.find(key)
    _refuse_open(source, session)
    owner = stop_running(ledger, session)
    owner_name = " ".join(filter(None, (f"nexus {owner.command}".rstrip(), owner.terminal)))
    if not yes:
        if source.confirm is None:
            raise UsageError(f"session {session}", f"this would stop {owner_name}, process {owner.pid}", "Add --yes")
        if not source.confirm(
            f"The session is open in {owner_name}, process {owner.pid}. {STEPS_SAVED} Stop the process?"
        ):
            return report_act("")
    if not ledger.end_owner(session, owner):
        raise UsageError(
            f"session {session}",
            f"process {owner.pid} has closed the session in the meantime",
            "`nexus sessions list --running` lists the open sessions",
        )
    return report_act(f"process {owner.pid} was asked to stop. {STEPS_SAVED}", session)


def stop_running(ledger: Ledger, session: str) -> LockOwner:
    """Return the process to end, one of this session alone; raise `UsageError` if there is none."""
    info = ledger.session(session)
    owner = ledger.find_owner(info.id)
    if owner is None:
        raise UsageError(f"session {info.id}", "no process has it open", "See `nexus sessions list --running`")
    if info.spawner:
        hint = f"Use /agents stop in session {info.spawner}, or stop that session: nexus sessions stop {info.spawner}"
        raise UsageError(f"session {info.id}", "this is a worker of another session", hint)
    if owner.server:
        why = f"the session belongs to {owner.server} (process {owner.pid})"
        hint = "Stop the session in its client, or cancel its run: nexus runs cancel ID"
        raise UsageError(f"session {info.id}", why, hint)
    if not owner.is_here:
        why = "the process runs on another machine or is unknown"
        raise UsageError(f"session {info.id}", why, "Stop the session where it runs")
    return owner


def fork(
    source: Source, key: Key, name: Annotated[str, Option("NAME", "Name of the new session.", least=0)] = ""
) -> Act:
    """Copy a session and print the id of the copy."""
    from nexus_cli.undo import undo_files  # noqa: PLC0415  (imports the undo)

    original, live = source.find(key), source.live
    session = undo_files.fork_session(source.ledger, original, name=name)
    if live and live.id == original and live.ledger.is_kept and not live.saved:
        source.say("only the saved messages were copied: the ledger could not be written")
    return report_act("", session.id, line=session.id)


def rename(source: Source, key: Key, name: Annotated[str, Argument("NAME", "The new name.", least=0)]) -> Act:
    """Rename a session; --resume accepts the name."""
    session = source.find(key)
    if not source.ledger.writes:
        hint = "In a shell: nexus sessions rename ID NAME"
        raise usage_error("rename", "", "changes to this session are not saved", hint)
    source.ledger.rename_session(session, _check_name("rename", name) if source.live else name)
    stored_name = source.ledger.session(session).name
    return report_act(f'renamed to "{stored_name}".' if stored_name else "the name was removed.", session)


def delete_session(
    source: Source, key: Key, yes: Annotated[bool, Option(None, "Do not ask for confirmation.", "--yes -y")] = False
) -> Act:
    """Delete a session, its workers, and all stored data that no other session uses. This cannot be undone."""
    from nexus_cli.undo.retention import forget_session  # noqa: PLC0415  (imports the undo)

    ledger = source.ledger
    info = ledger.find_session(key)
    _refuse_open(source, info.id)
    label = f'{info.id} "{info.name}"' if info.name else info.id
    question = f"Session {label} has {plural(info.entries, 'entry', 'entries')}. Delete it permanently?"
    if source.confirm and not yes and not source.confirm(question):
        return report_act("nothing was deleted.")
    if ledger.is_locked(info.id) or not ledger.lock(info.id):
        raise UsageError(f"session {info.id}", "open in another process or agent", "Stop its process or agent first")
    used = ledger.usage_sum(info.id)
    freed = ledger.delete_session(info.id)
    forget_session(places().data, info.id)
    cost = known_dollars(used.usage.cost_usd, used.known_usd) or "cost"
    uncounted = f" Its {cost} no longer counts in `nexus usage`." if used.requests else ""
    size = f" ({freed:,} bytes freed)" if freed else ""  # the file shrinks by whole pages
    return report_act(f"session {info.id} was deleted{size}.{uncounted}", info.id)


def _refuse_open(source: Source, session: str) -> None:
    """Raise `UsageError` if the session is the one in which the command was typed."""
    if source.live and session == source.session():
        raise UsageError(f"session {session}", "this is the current session", "Leave it with /exit")


async def resume_session(
    context: CommandContext,
    words: Annotated[str, Argument("[ID|WORDS]", "Which session.")] = "",
    everywhere: Annotated[bool, Option(None, "Choose from the sessions of all folders.", "--all")] = False,
    running: Annotated[bool, Option(None, "List all active and waiting sessions and runs.")] = False,
) -> Report[Listed | ActReport]:
    """Resume another session.

    ID is an id, its start or end, or a name. nexus searches for WORDS in titles, then in messages. Without an argument,
    choose from the sessions of this folder; with --all, from all sessions, including runs of `nexus ask`. The
    conversation is shown again. --running lists active and waiting sessions of all terminals.
    """
    source = SessionSource(context)
    if running:
        return await asyncio.to_thread(build_list, source, running=True)
    if words:
        chosen = await _find_session(context, source, words)
    else:
        candidates, _ = _list_other_sessions(source, everywhere=everywhere)
        if not candidates:
            hint = "" if everywhere else " /resume --all also lists sessions of other folders and of `nexus ask`."
            return print_act(f"No other sessions.{hint}")
        chosen = await _choose_session(context, source, "Which session?", candidates, everywhere=everywhere)
    if not chosen:
        return report_act("")
    if chosen == context.session.id:
        return print_act("This session is already open.")
    await context.reopen(resume_options(context, resume=chosen, model="", effort="", recipe=""))
    return report_act("", chosen)


async def _find_session(context: CommandContext, source: Source, words: str) -> str:
    """Return the id of the session that `words` name or that contains them, "" if the person chooses none of several.

    Titles in this folder come before those in others, and titles before messages. Raises `UsageError` if
    nothing matches.
    """
    ledger, title = source.ledger, f'Which session with "{words[:TITLE]}"?'
    try:
        return source.find(words)
    except NexusError as error:
        if error.kind != "usage":
            raise
        unknown = error
    for everywhere in (False, True):
        candidates, _ = _list_other_sessions(source, words, everywhere=everywhere)
        if len(candidates) > 1:
            return await _choose_session(context, source, title, candidates, words, everywhere=everywhere)
        if candidates:
            return candidates[0].id
    hits = (await asyncio.to_thread(search_sessions, ledger, words, None, MOST))["hits"]
    ids = [
        session_id for session_id in dict.fromkeys(hit["session"] for hit in hits) if session_id != context.session.id
    ]
    if not ids:
        raise unknown
    context.say(f'No title contains "{words[:TITLE]}"; found in messages of {plural(len(ids), "session")}.')
    choices = _choices(ledger, [ledger.session(session_id) for session_id in ids])
    return str(ids[0]) if len(ids) == 1 else await context.choose(title, choices) or ""


async def _choose_session(
    context: CommandContext,
    source: Source,
    title: str,
    candidates: Sequence[SessionInfo],
    words: str = "",
    *,
    everywhere: bool,
) -> str:
    """Let the person choose one of `candidates`, which match `words`; return its id, "" for none. Typing searches all
    sessions."""

    def search(added_words: str) -> tuple[Sequence[Choice], int]:
        try:
            sessions, total = _list_other_sessions(source, f"{words} {added_words}", everywhere=everywhere)
        except NexusError:  # a key press cannot report it; taking the choice does
            return (), 0
        return _choices(source.ledger, sessions), total

    return await context.choose(title, _choices(source.ledger, candidates), search) or ""


def _list_other_sessions(source: Source, words: str = "", *, everywhere: bool = False) -> tuple[list[SessionInfo], int]:
    """Return the newest sessions, except the open one, that have all `words`, and their total number. In a session runs
    of `nexus ask` are left out, unless sessions of all folders are wanted."""
    folder, runs = None if everywhere else str(source.folder()), everywhere or source.live is None
    return source.ledger.search_titles(words, folder, MOST, runs=runs, without=source.session())


def _choices(ledger: Ledger, sessions: Sequence[SessionInfo]) -> list[Choice]:
    """Return the sessions to choose from: title; age, turns, cost and end of the id in columns."""
    if not sessions:
        return []
    now = local_now()
    ends = ledger.short_ids([session.id for session in sessions])
    costs = [known_dollars(session.cost_usd, session.known_usd) or "$?" for session in sessions]
    titles = [
        _worktree_mark(session.worktree) + one_line_title(session.name or title_of(session.first_text))
        for session in sessions
    ]
    rows = [
        (format_age(session.updated, now), plural(session.turns, "turn"), cost, end)
        for session, cost, end in zip(sessions, costs, ends, strict=True)
    ]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        Choice(info.id, title, "  ".join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True)))
        for info, title, row in zip(sessions, titles, rows, strict=True)
    ]


def _worktree_mark(name: str) -> str:
    """Return the beginning of the title of a session in a worktree, "" without one."""
    return f"-w {name}: " if name else ""


def one_line_title(words: str) -> str:
    return clip_text(" ".join(words[: 4 * TITLE].split()), TITLE) or "(no words)"


def _complete_sessions(source: Source) -> Sequence[str]:
    return [info.name if info.name and " " not in info.name else info.id for info in _list_other_sessions(source)[0]]


async def clear_session(context: CommandContext) -> Act:
    """Start a new session; this one is kept.

    The new session has the same model, effort and permission level. /resume returns to the previous session.
    """
    before = context.session
    has_entries = context.session.ledger.session(before.id).entries > 0
    await context.reopen(resume_options(context, resume="", effort=before.status().effort))
    previous = f"Previous session: /resume {short_id(context.session.ledger, before.id)}"
    return print_act(previous if has_entries else "", context.session.id)


async def continue_in_copy(
    context: CommandContext,
    name: Annotated[str, Argument("NAME", "Name of the copy.", is_text=True)] = "",
) -> Act:
    """Continue in a copy of this session.

    The original session is not changed. The copy shares its messages so far, so the provider's cache still hits.
    """
    ledger, before = context.session.ledger, context.session.id
    if not ledger.session(before).entries:
        raise usage_error("fork", name, "this session has no messages yet", "Send a message first")
    context.session.refuse_to_leave()
    report = fork(SessionSource(context), before, _check_name("fork", name))
    await reopen_fork(context, report.line)
    return print_act(f"This is a copy. Previous session: /resume {short_id(ledger, before)}", report.line)


def _check_name(command: str, name: str) -> str:
    """Return `name` as the name of a session."""
    if len(name) > LONGEST_NAME:
        raise usage_error(command, name, f"a name can have at most {LONGEST_NAME} characters")
    return name


async def reopen_fork(context: CommandContext, fork_id: str) -> None:
    """Continue in a fork of the session; the fork is deleted if that is impossible."""
    ledger, before = context.session.ledger, context.session.id
    try:
        await context.reopen(resume_options(context, resume=fork_id))
    except BaseException:
        if context.session.id == before:
            from nexus_cli.undo.undo_files import delete_fork  # noqa: PLC0415  (imports the undo)

            delete_fork(ledger, fork_id)
        raise


async def edit_message(
    context: CommandContext, chooses: Annotated[bool, Option(None, "Choose the message.", "--list")] = False
) -> Act:
    """Edit your last message and ask again.

    The session continues in a copy that ends before the message, which is put into the input box. Files are not
    changed; /rewind can restore them too.
    """
    messages = await asyncio.to_thread(_messages, read_log(SessionSource(context)), MOST if chooses else 1)
    if not messages:
        raise usage_error("edit", "", "you have not sent a message in this session yet", "Type your first message")
    place = 0
    if chooses:
        choices = [Choice(str(place), one_line_title(words), age) for place, (_, words, age) in enumerate(messages)]
        chosen = await context.choose("Go back to which message?", choices)
        if chosen is None:
            return report_act("")
        place = int(chosen)
    entry, words, _ = messages[place]
    context.session.refuse_to_leave()
    before = await fork_to_edit(context, entry, words)
    restore = f"To restore them too: /resume {before}, then /rewind"
    return print_act(f"Edit the message and send it again. Files are not changed. {restore}", context.session.id)


async def fork_to_edit(context: CommandContext, entry: int, words: str, kept: Sequence[str] = ()) -> str:
    """Continue in a fork that ends before the message `entry`, with `words` in the input box, and attach what was
    attached to the message; return the short id of the session before. `kept` as in `fork_before`."""
    from nexus_cli.undo.undo_files import fork_before  # noqa: PLC0415  (imports the undo)

    ledger, before = context.session.ledger, context.session.id
    content = ledger.log(before).read(entry, entry)[0].message.content
    await reopen_fork(context, (await asyncio.to_thread(fork_before, ledger, before, entry, kept)).id)
    context.fill(words)
    attached = split_attachments(content)[1] if content.startswith(words) else ""  # else a command attaches it anew
    while block := GIVEN_BLOCK.match(attached):
        context.attach(block[0].rstrip(), unescape(block[2]))
        attached = attached[block.end() :]
    return short_id(ledger, before)


def _messages(record: LaneLog, most: int) -> list[tuple[int, str, str]]:
    """Return the person's newest messages that began a turn: entry, text, age."""
    messages = ((entry, text) for entry, text in Replay(record).messages() if entry.actor == PERSON)
    now = local_now()
    return [(entry.id, text, format_age(entry.at, now)) for entry, text in islice(messages, most)]


def rename_open_session(source: Source, name: Annotated[str, Argument("NAME", "The new name.", is_text=True)]) -> Act:
    """Name this session.

    /resume and --resume accept the name.
    """
    return rename(source, source.session(), name)


def sessions_text(value: JsonObject, width: int) -> Blocks:
    """Return the sessions of a folder or of all."""
    sessions, runs = value["sessions"], value.get("runs", 0)
    hidden = f"{plural(runs, 'session')} of `nexus ask` and unattended runs hidden"
    note = f"{hidden} (`nexus sessions list --all` lists all sessions)." if runs else ""
    note = name_commands(" ".join(filter(None, (describe_more_sessions(value), note))))
    if not sessions:
        yield f"No sessions. {note}".rstrip()
        return
    persons = len({session.get("person") for session in sessions})

    def describe(session: JsonObject) -> str:
        title = session["name"] or title_of(session["first_text"]) or f"({session.get('recipe')})"
        run = TRIGGERED.get(session.get("recipe", ""), "ask: ") if session.get("front") == "ask" else ""
        run = "served: " if session.get("front") == "serve" else run
        place = f"{session['person']}: " if persons > 1 else ""
        place += _worktree_mark(session.get("worktree", ""))
        return cut_line(place + run + title, LONGEST_TITLE)

    columns = {
        "id": "id" if width >= WIDE else lambda session: session.get("short", session["id"]),
        "last used": lambda session: when(session["updated"]),
        "turns": "turns",
        "what": describe,
    }
    yield Table(columns, sessions)
    if note and width < WIDE:
        yield from ["", note]


def describe_more_sessions(value: JsonObject) -> str:
    """Return the number of older sessions that a list leaves out, with the command that lists them; "" for none."""
    total = value.get("total", 0)
    hidden_count = total - len(value["sessions"])
    return f"{plural(hidden_count, 'older session')} not shown: --limit {total} lists all." if hidden_count > 0 else ""


def running_text(value: JsonObject) -> Blocks:
    """Return a line for each, with the ways to open and to stop one."""
    columns = {
        "state": "state",
        "id": "short",
        "where": _name_process,
        "since": lambda session: when(session["updated"]),
        "what": _describe_running,
    }
    yield Table(columns, value["running"], "Nothing is running or waiting.")
    if value["running"]:
        yield from ["", name_commands("Details: nexus sessions show ID. To stop: nexus sessions stop ID")]


def _describe_running(session: JsonObject) -> str:
    doing = f" · {session['what']}" if session["what"] else ""
    kind = "worker: " if session["kind"] == "worker" else ""
    return cut_line(f"{kind}{session['title'] or '(no words)'}{doing}", LONGEST_TITLE)


def _name_process(session: Mapping[str, object]) -> str:
    terminal = str(session["terminal"] or "").removeprefix("/dev/")
    return " ".join(filter(None, (str(session["command"] or ""), terminal, str(session["pid"] or "")))) or "-"


def search_text(value: JsonObject) -> Blocks:
    """List the matches: session and entry, then the text around each."""
    hits = value["hits"]
    scope = "the sessions of any folder" if value["folder"] is None else "the sessions of this folder"
    for hit in hits:
        name = f" {hit['name']}" if hit["name"] else ""
        head = f"{hit['session']} [{hit['entry']}] {when(hit['at'])} {hit['actor']}{name}"
        yield Paragraph(head, "    ", "")
        yield Paragraph(hit["snippet"], "    ")
        yield ""
    note = " (the newest); --limit shows more" if value["more"] else ""
    none = f"`{cut_line(value['text'], 200)}` was not found in {scope}."
    yield f"{plural(len(hits), 'match', 'matches')}{note}." if hits else none
    if value["damaged"]:
        yield f"{plural(value['damaged'], 'damaged record')} could not be read."


RESUME = Verb(resume_session, complete=_complete_sessions)
NOUN = Noun(
    "sessions",
    "sessions",
    (
        RESUME,
        Verb(build_list, "list"),
        Verb(build_session, "show", complete=_complete_sessions),
        Verb(build_search, "search"),
        replace(EXPORT, run=export_named_session, name="export", complete=_complete_sessions),
        Verb(stop_session, "stop", Authority.OPERATES, "write"),
        Verb(fork, "fork", Authority.KEEPS, "write", complete=_complete_sessions),
        Verb(rename, "rename", Authority.KEEPS, "write", complete=_complete_sessions),
        Verb(delete_session, "delete", Authority.OPERATES, "write", complete=_complete_sessions),
    ),
    "List, read, search, stop or delete sessions.",
    aliases=("session",),
    is_idle=True,
)
NOUNS = (
    Noun("resume", "sessions", (RESUME,), is_first=True, is_idle=True),
    Noun(
        "clear",
        "sessions",
        (Verb(clear_session),),
        aliases=("new", "reset"),
        is_first=True,
        is_idle=True,
    ),
    Noun("fork", "sessions", (Verb(continue_in_copy),), aliases=("branch",), is_idle=True),
    Noun("edit", "sessions", (Verb(edit_message),), is_idle=True),
    Noun("rename", "sessions", (Verb(rename_open_session, "", Authority.ACTS, only="slash"),)),
)
