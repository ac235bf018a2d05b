"""Runs as values: the list, and one with its trigger, its signals and its report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from nexus_cli.core.clock import format_utc
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger

if TYPE_CHECKING:
    from nexus_cli.core.json_types.report_types import RunObject, RunReport, RunsReport, RunState

MOST = 50
"""Most runs in a list."""


def describe_run(run: Run) -> RunObject:
    """Return a run as JSON has it: `id`, `state`, `type`, `title`, `session`, `waits_for`, `wake_at`, `resumes`,
    `created`, `updated`, `cost_usd`, `error`; times are ISO 8601, UTC."""
    until = run.waits.until if run.waits else None
    return {
        "id": run.id,
        "state": cast("RunState", run.state),
        "type": run.type,
        "title": run.title,
        "session": run.session or None,
        "waits_for": run.waits.why if run.waits else None,
        "wake_at": _utc(until),
        "resumes": run.resumes,
        "created": run.created,
        "updated": run.updated,
        "cost_usd": run.cost_usd,
        "error": run.error or None,
    }


def runs_report(ledger: Ledger, states: Iterable[str] = (), most: int = MOST) -> RunsReport:
    """Return the runs, the newest first: of some states, or all."""
    return {"version": 1, "runs": [describe_run(run) for run in ledger.runs.list_runs(states, most)]}


def run_report(ledger: Ledger, run: Run, done: str = "") -> RunReport:
    """Return one run with `trigger`, `signals` (`at`, `kind`, `value`, `taken`), `report`, and `done`: what a command
    did with it, "" for nothing."""
    signals = [
        {"at": one.at, "kind": one.kind, "value": dict(one.value), "taken": taken}
        for taken in (True, False)
        for one in ledger.runs.signals(run.key, taken=taken)
    ]
    questions = run.waits.value.get("questions", []) if run.waits else []
    more = {"trigger": dict(run.trigger), "signals": signals, "report": run.report, "questions": list(questions)}
    value = {"version": 1, **describe_run(run), **more, **({"done": done} if done else {})}
    return cast("RunReport", value)


def _utc(moment: float | None) -> str | None:
    try:
        return None if moment is None else format_utc(datetime.fromtimestamp(moment, UTC))
    except (ValueError, OverflowError, OSError):
        return None
