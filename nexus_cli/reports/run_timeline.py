"""Report the history of a run that outlives processes: its states, its signals, and the rows of its session.

A timeline as in `timeline`, with `run`: `{"id", "state", "type", "title", "owner", "claims", "resumes", "waits",
"cost_usd", "session", "created", "updated"}`, and rows of the kinds `queued`, `signal` (`signal`: its kind, `taken`:
the run has resumed since), and at the end its current state: `running`, `waiting_reply`, `done`, `failed`, `cancelled`.
Each claim is a row `claimed` or `resumed`, each beginning of a wait a row `waiting` (`timeline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.run import QUEUED, RUNNING, WAITING, Run, Signal
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.lanes import END
from nexus_cli.reports.runs import RunObject, describe_run, name_signal
from nexus_cli.reports.timeline import LAST, TimelineReport
from nexus_cli.reports.timeline_rows import NEXUS, PlacedRow, SessionRecord, TimelineRow, make_row, pick_newest

_NO_SESSION = {"session": "", "name": "", "model": "", "folder": "", "cursor": 0}
_NO_USAGE = {**dict.fromkeys(("entries", "requests", "tokens", "drops"), 0), **to_json_value(Usage()), "saved_usd": 0.0}


class TimelineRun(RunObject):
    """A run with the number of its claims."""

    claims: int


class RunTimelineReport(TimelineReport):
    """With `--run`: the states of a run and the events of its session."""

    run: TimelineRun


def run_timeline(ledger: Ledger, run_id: str, last: int = LAST) -> RunTimelineReport:
    """Return the newest `last` rows of a run and its session, oldest first; raise `UsageError` for an unknown one."""
    run = ledger.runs.find(run_id)
    record = None
    with suppress(UsageError):  # it has no session yet, or its session was deleted
        record = SessionRecord(ledger, run.session, last)
    rows = list(_run_rows(ledger, run, record.find_place if record else lambda at: 0))
    if record:
        timeline = record.report(rows)
    else:
        totals = {**_NO_USAGE, "cost_usd": run.cost_usd, "known_usd": run.cost_usd or 0.0, "cost": None}
        timeline = {**_NO_SESSION, **pick_newest(rows, 0, last, totals)}
    value = {"version": 1, "run": {**describe_run(ledger, run), "claims": run.fence}, **timeline}
    return cast("RunTimelineReport", value)


def _run_rows(ledger: Ledger, run: Run, find_place: Callable[[str], int]) -> Iterator[PlacedRow]:
    """Yield the rows of a run; `find_place` returns the entry after which a time was."""
    yield find_place(run.created), _queued_row(run)
    for taken in (True, False):
        for signal in ledger.runs.signals(run.key, is_taken=taken):
            yield find_place(signal.at), _signal_row(signal, taken)
    if run.state != QUEUED:
        yield END, _state_row(run)


def _queued_row(run: Run) -> TimelineRow:
    facts = dict(run.trigger)
    sender = facts.get("sender")
    actor = sender if isinstance(sender, dict) and {"id", "name", "type"} <= sender.keys() else NEXUS
    return make_row(
        run.created,
        QUEUED,
        actor,
        name_signal(run.type, facts) if run.type == "service" else run.title,
        why=facts.get("triggerSource", ""),
        trigger={"type": run.type, **facts},
        run=run.id,
    )


def _signal_row(signal: Signal, taken: bool) -> TimelineRow:
    message = signal.value.get("message")
    why = f"msg-{message}" if message else ""
    return make_row(
        signal.at, "signal", NEXUS, name_signal(signal.kind, signal.value), why=why, signal=signal.kind, taken=taken
    )


def _state_row(run: Run) -> TimelineRow:
    """Return the row of the run's current state."""
    text, why = run.report, run.error
    if run.state == RUNNING:
        text = f"claimed by {run.owner}" if run.owner else ""
    elif run.state == WAITING and run.waits:
        text, why = run.waits.why, run.waits.kind
    return make_row(run.updated, run.state, NEXUS, text, why=why, cost_usd=run.cost_usd, run=run.id)
