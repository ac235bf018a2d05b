"""Report the sessions of a ledger: the list, one whole, a search, and the last exchange of one.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from nexus_cli.core.entry import Entry
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import SteeringMessage, Text, TurnStart
from nexus_cli.core.json_value import ABSENT, JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.core.run import TRIGGER_MARK
from nexus_cli.core.running_workers import WorkerObject
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.search import SearchResult
from nexus_cli.ledger.sessions import SessionInfo, makers_of
from nexus_cli.reports.conversation import open_calls, replay_of
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Table
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import cut_line, plural, when
from nexus_cli.reports.workers import recorded_workers

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

PERSON = "person"
TITLE = 200
"""Most columns of a title on lines that are otherwise as long as their content."""
TRIGGERED = {"tick_autonomous": "plan: ", "tick_event": "event: "}
"""What started a run that nobody typed, before its title, by its recipe."""
WIDE = 1000
"""Wider than any terminal: from here on ids are whole, for scripts."""


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
    """Runs of `nexus ask` in this folder that are not listed."""


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


def list_sessions(ledger: Ledger, folder: str | None = None, limit: int = 50, *, runs: bool = False) -> SessionsReport:
    """Return the newest sessions of a folder, how many there are in total, and how many runs of `nexus ask` are left
    out of them, unless `runs` are wanted; without a folder those of all folders, with the runs."""
    runs = runs or folder is None
    hidden_runs = 0 if runs or folder is None else ledger.count_runs(folder)
    return _list_value(
        ledger, ledger.sessions(folder, limit, runs=runs), ledger.count_sessions(folder, runs=runs), hidden_runs
    )


def list_in_worktree(ledger: Ledger, project: str | None, worktree: str, limit: int) -> SessionsReport:
    """Return the newest sessions of a project, or of all, in worktrees of this name, with the runs of `nexus ask`."""
    sessions = ledger.sessions_in_worktree(project, worktree)
    return _list_value(ledger, sessions[:limit], len(sessions), 0)


def _list_value(ledger: Ledger, infos: Sequence[SessionInfo], total: int, runs: int) -> SessionsReport:
    ends = ledger.short_ids([info.id for info in infos])
    values = [ListedSession(to_json_value(info), short=end) for info, end in zip(infos, ends, strict=True)]
    if ledger.db.is_shared:
        makers = makers_of(ledger.db, [info.id for info in infos])
        for value in values:
            value["person"] = makers[value["id"]]
    return {"version": 1, "sessions": values, "total": total, "runs": runs}


def short_id(ledger: Ledger, session: str) -> str:
    """Return the shown form of a session's id; the whole id if the ledger fails."""
    try:
        return ledger.short_ids([session])[0]
    except NexusError:
        return session


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


def is_cut_short(session: Session) -> bool:
    """True if the newest turn is not finished, so that `/continue` resumes it."""
    try:
        return session.is_open() or not last_exchange(session)["finished"]
    except NexusError:  # the ledger has failed, which is reported elsewhere
        return False


def describe_opened(session: Session) -> str:
    """Describe a new session that was opened in place of another one."""
    description = f"session {short_id(session.ledger, session.id)}, model {session.model}"
    return f"{description}, permission level {session.dispatcher.level}"


def last_exchange(session: Session) -> JsonObject:
    """Return the newest turn: the person's words, the newest text of the answer, the calls without a result.

    Steering is part of the words. `finished` is False if calls are open or the answer broke off. Raises `NexusError` if
    the ledger fails.
    """
    replay = replay_of(session)
    with session.record.for_screen():
        info = session.record.session
    turn = next(replay.newest_turns(), [])
    events = [past.event for past in turn]
    messages = [event.text for event in events if isinstance(event, TurnStart | SteeringMessage)]
    answers = [event.text for event in events if isinstance(event, Text)]
    return {
        "version": 1,
        "session": info.id,
        "short": short_id(session.ledger, session.id),
        "name": info.name,
        "user": "\n\n".join(filter(None, messages)),
        "assistant": answers[-1] if answers else "",
        "open": [
            {"name": event.call.name, "subject": event.subject, "started": replay.record.was_started(event.call.id)}
            for event in open_calls(turn)
        ],
        "finished": not session.is_open() and not replay.record.ends_unfinished(),
        "at": turn[-1].at if turn else info.updated,
        "entries": info.entries,
        "turns": info.turns,
    }


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
        place += f"-w {session['worktree']}: " if session.get("worktree") else ""
        return cut_line(place + run + title, TITLE)

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


def title_of(text: object) -> str:
    """Return the beginning of a session as its title: the person's text without attachments, or the work of a run."""
    return str(text or "").split("\n\n<", 1)[0].removesuffix(f" {TRIGGER_MARK}")


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
