"""`nexus serve --once` and `nexus schedule run`: run what is due, print a line for each run, and exit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from nexus_cli.cli.print_report import ENDLESS
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.settings import Settings
from nexus_cli.core.elide import cut_at_word
from nexus_cli.core.errors import EXIT_STATUS, NexusError
from nexus_cli.core.json_value import VersionedReport
from nexus_cli.core.run import APPROVAL, DONE, FAILED, RUNNING, Plan, Run
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import RunObject, broken_runs, describe_runs
from nexus_cli.reports.text.blocks import Wrapped

if TYPE_CHECKING:
    from nexus_cli.core.request import Provider
    from nexus_cli.runs.run_kind import RunProducer
    from nexus_cli.runs.runner import Runner
    from nexus_cli.ui.print.turn_progress import TurnLines

from nexus_cli.ui.print.stream import Stream, write_stderr_line

LONGEST = 300
"""Most characters of a run's line, without the command that shows the whole."""


class ServeOnceReport(VersionedReport):
    """The runs that were due, or the run that was requested; `nexus serve` prints it with `--once`."""

    ok: bool
    exit: int
    runs: list[RunObject]
    held_back: str | None
    """The reason why due runs did not begin."""


def serve_once(open_ledger: Callable[[], Ledger], *, json: bool) -> int:
    """Run what is due in a ledger. Return 0 if all of it succeeded, 3 if only limits stopped runs, else 1.

    A ledger that fails is `NexusError("ledger", ...)`, with `json` after a report without runs.
    """
    try:
        ledger = open_ledger()
        if has_work(ledger):
            return _drive(ledger, json=json)
        _print(ledger, [], "", json, 0)
        return 0
    except NexusError as error:
        if json:
            _print(None, [], "", json, error.exit_status)
        raise


def run_plan(ledger: Ledger, plan: Plan, *, json: bool) -> int:
    """Run a plan now, in addition to its times; return a status like `serve_once`."""
    from nexus_cli.runs.plan_service import fire_now  # noqa: PLC0415  (loads the engine)

    key = fire_now(ledger, plan)
    return _drive(ledger, key, json=json, lines=make_lines() if Stream(2).terminal and not json else None)


def make_lines() -> TurnLines:
    """Return the lines that show a run on stderr, as `nexus ask` does."""
    from nexus_cli.ui.print.turn_progress import TurnLines  # noqa: PLC0415  (loads the engine)

    return TurnLines(Stream(2), own_settings().ui.theme)


def has_work(ledger: Ledger) -> bool:
    """True if a plan is due, or a run is due, waits, or is marked as running, because its process may be gone."""
    runs = ledger.runs
    return bool(ledger.plans.due(runs.now()) or runs.due(1) or runs.waiting() or runs.list_runs([RUNNING], 1))


def _drive(ledger: Ledger, key: int = 0, *, json: bool, lines: TurnLines | None = None) -> int:
    """Run what is due, or the run with this key; print the runs, return the exit status. `lines` show the runs."""
    settings, warnings = own_settings(), list[str]()

    def warn(line: str) -> None:
        if line not in warnings:
            warnings.append(line)
            write_stderr_line(f"nexus: {line}")

    make = partial(make_runner, ledger, settings, warn)
    runs, cut, stopped = drive_runs(ledger, make, lines, **({"key": key} if key else {}))
    if key and not (runs or stopped):
        runs = [ledger.runs.get(key)]
    failed = {run.key for run in runs if run.state == FAILED}
    ended = 0 if not failed else EXIT_STATUS["limit"] if failed <= cut else 1
    _print(ledger, runs, "; ".join(warnings), json, ended)
    return stopped or ended


def drive_runs(
    ledger: Ledger, make: Callable[..., Runner], lines: TurnLines | None = None, **filters: int
) -> tuple[list[Run], Set[int], int]:
    """Drive the runs that are due, or those that `filters` allow, until they wait or have ended; `lines` show them.

    Return them, the keys of those that a limit stopped, and the exit status for the signal that ended this, 0 for none.
    """
    from nexus_cli.cli.interrupt import Interrupt, run_in_loop  # noqa: PLC0415  (loads the engine)

    interrupt, runs, cut = Interrupt(), list[Run](), set[int]()

    async def drive() -> None:
        runner = make(show=lambda run, event: lines.feed(event)) if lines else make()
        work = asyncio.ensure_future(runner.run_due(**filters))
        interrupt.install(work.cancel)
        try:
            async with lines.drawn() if lines else nullcontext():
                runs.extend(await work)
        except asyncio.CancelledError:
            pass
        finally:
            await runner.aclose()
            cut.update(runner.cut)
            interrupt.uninstall()

    run_in_loop(drive())
    if interrupt.signal:
        print_interrupted_runs(ledger, **filters)
    return runs, cut, interrupt.status


def print_interrupted_runs(ledger: Ledger, **filters: int) -> None:
    """Print how to resume each of these runs whose process has ended."""
    with suppress(NexusError):
        for run in broken_runs(ledger, ledger.runs.list_runs([RUNNING], **filters)):
            write_stderr_line(f"nexus: {run.id} was interrupted. Resume with: nexus runs resume {run.id}")


def make_runner(
    ledger: Ledger,
    settings: Settings,
    warn: TakeText,
    provider: Provider | None = None,
    producers: Sequence[RunProducer] = (),
    **runner_options: Any,
) -> Runner:
    """Return a runner for due runs, including those that `producers` queue; `warn` gets warnings, `Runner` the
    `runner_options`."""
    from nexus_cli.runs.fire_plans import PlanProducer  # noqa: PLC0415
    from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)
    from nexus_cli.runs.unattended import ALL_RESERVED, UnattendedRules  # noqa: PLC0415

    rules = UnattendedRules(settings.runs)

    def holds_back(ledger: Ledger, run: Run) -> str:
        why = rules.holds_back(ledger, run)
        if why not in ("", ALL_RESERVED):
            warn(why)
        return why

    return Runner(
        ledger,
        producers=[PlanProducer(warn), *producers],
        holds_back=holds_back,
        provider=provider,
        **runner_options,
    )


def _print(ledger: Ledger | None, runs: list[Run], note: str, json: bool, status: int) -> None:
    out = Stream(1)
    if json:
        value: ServeOnceReport = {
            "version": 1,
            "ok": not status,
            "exit": status,
            "runs": describe_runs(ledger, runs) if ledger is not None else [],
            "held_back": note or None,
        }
        out.write(json_text(value, escaped=True) + "\n")
    else:
        width = out.width if out.terminal else ENDLESS
        out.write("".join(f"{line}\n" for run in runs for line in Wrapped(run_line(run)).lines(width)))


def run_line(run: Run, longest: int = LONGEST) -> str:
    """Describe a run on one line; a shortened line ends with the command that shows the whole run."""
    cost = f" ${run.cost_usd:.4f}" if run.cost_usd else ""
    waits = ""
    if run.waits and run.state != RUNNING:
        waits = f"waits for {run.waits.text}"
        waits += f" (to answer: nexus runs resume {run.id})" if run.waits.kind == APPROVAL else ""
    outcome = run.error or waits or (run.last_words if run.state == DONE else "")
    outcome += f" ({', '.join(run.facts)})" if run.has_ended and run.facts else ""
    line = " ".join(f"{run.id} {run.state}{cost} {run.type} {run.title}{': ' if outcome else ''}{outcome}".split())
    return line if len(line) <= longest else f"{cut_at_word(line, longest)} (nexus runs show {run.id})"
