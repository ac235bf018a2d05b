"""Runs as values: the list, and one with its trigger, its signals and its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from nexus_cli.core.clock import format_local_minute, format_utc
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.text.lines import Value, cut_line, dollars, filled, table

if TYPE_CHECKING:
    from nexus_cli.core.json_types.report_types import RunObject, RunReport, RunsReport, RunState

MOST = 50
"""Most runs in a list."""
WIDEST = 60
"""Cells of a title in the list."""


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


def runs_text(value: Value, width: int) -> str:
    """Return a line for each run, newest first."""
    found = value["runs"]
    if not found:
        return "\n".join(
            filled("No runs: they begin with scheduled work, services, spaces, or a waiting session.", width)
        )
    rows = [("id", "state", "since", "type", "what")]
    rows += [
        (one["id"], one["state"], format_local_minute(str(one["updated"])), one["type"], _what(one)) for one in found
    ]
    return "\n".join(table(rows, width))


def _what(one: Value) -> str:
    title = cut_line(one["title"], WIDEST)
    more = f"waits: {one['waits_for']}" if one["waits_for"] else one["error"] or ""
    return f"{title}; {cut_line(more, 2 * WIDEST)}" if more else title


def run_text(value: Value, width: int) -> str:
    """Show one run after an action on it."""
    return "\n".join(line for part in _parts(value) for line in (filled(part, width) if part else [""]))


def _parts(value: Value) -> Iterator[str]:
    if value.get("done"):
        yield f"{value['id']} {value['done']}."
    yield f"{value['id']} {value['state']} · {value['type']} · {value['title']}".rstrip(" ·")
    if value["waits_for"]:
        until = f", until {format_local_minute(value['wake_at'])}" if value["wake_at"] else ""
        yield f"waits: {value['waits_for']}{until}"
    for one in value["questions"]:
        yield f"asks: {one['what']} ({one['why']})"
    for one in value["signals"]:
        yield f"{format_local_minute(one['at'])} {one['kind']}{'' if one['taken'] else ', not taken yet'}"
    facts = [f"session {value['session']}" if value["session"] else "no session yet"]
    facts += [f"resumed {value['resumes']} times" if value["resumes"] != 1 else "resumed once"]
    facts += [dollars(value["cost_usd"])] if value["cost_usd"] else []
    yield " · ".join(facts)
    if value["error"]:
        yield f"error: {value['error']}"
    if value["report"]:
        yield ""
        yield from value["report"].splitlines()
