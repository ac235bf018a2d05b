"""Report all that runs, waits or asks now: sessions that a process has open, their workers, and unattended runs.

A session is open while its lock is held; the lock says by whom (`ledger/lock_owners.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.run import QUEUED, RUNNING, WAITING
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.ledger.lock_owners import LockOwner
from nexus_cli.reports.conversation import Replay, open_calls
from nexus_cli.reports.runs import describe_runs
from nexus_cli.reports.sessions import title_of
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import cut_line, when

NONE = "Nothing is running or waiting."
TITLE = 200
RunningState = Literal["asks", "runs", "waits", "queued", "broken off", "idle"]


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


def running_report(ledger: Ledger) -> RunningReport:
    """Return open sessions, the busy ones first, and the runs that are queued, running or waiting."""
    owners = ledger.find_owners()
    sessions = [_session_row(ledger, name, owner) for name, owner in owners.items() if not name.startswith("run-")]
    rows = [session for session in sessions if session is not None]
    by_session = {row.id: row for row in rows}
    if ledger.has_runs():
        for run in describe_runs(ledger, ledger.runs.list_runs((QUEUED, RUNNING, WAITING), limit=200)):
            if here := by_session.get(run["session"] or ""):
                here.run = run["id"]
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
        state, activity = _state(log, owner)
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


def _state(log: LaneLog, owner: LockOwner) -> tuple[RunningState, str | None]:
    """Return the state and the work of an open session. In a turn, a call that was not started waits for an answer."""
    if not owner.is_busy:
        return "idle", None
    calls = open_calls(next(Replay(log).newest_turns(), ()))
    if not calls:
        return "runs", None
    started = [event for event in calls if log.was_started(event.call.id)]
    first = (started or calls)[0]
    return "runs" if started else "asks", f"{first.call.name} {first.subject}".strip()[:TITLE]


def running_text(value: JsonObject) -> Blocks:
    """Return a line for each, with the ways to open and to stop one."""
    columns = {
        "state": "state",
        "id": "short",
        "where": _where,
        "since": lambda session: when(session["updated"]),
        "what": _describe,
    }
    yield Table(columns, value["running"], NONE)
    if value["running"]:
        yield from ["", name_commands("Details: nexus sessions show ID. To stop: nexus sessions stop ID")]


def _describe(session: JsonObject) -> str:
    doing = f" · {session['what']}" if session["what"] else ""
    kind = "worker: " if session["kind"] == "worker" else ""
    return cut_line(f"{kind}{session['title'] or '(no words)'}{doing}", TITLE)


def _where(session: Mapping[str, object]) -> str:
    terminal = str(session["terminal"] or "").removeprefix("/dev/")
    return " ".join(filter(None, (str(session["command"] or ""), terminal, str(session["pid"] or "")))) or "-"


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
