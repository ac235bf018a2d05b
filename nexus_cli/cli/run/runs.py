"""`nexus runs list | show | cancel | pause | resume`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.cli.shell_command import add_verbs, make_source
from nexus_cli.commands.runs import end_pause
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import EXIT_STATUS, NexusError
from nexus_cli.core.run import DONE, FAILED, RUNNING, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import broken_runs, run_report, run_text, runs_report, runs_text
from nexus_cli.runs.away_report import describe_rest
from nexus_cli.runs.run_approvals import ANSWERS, answer_run, ask_person, asks_approval, name_person, require_own
from nexus_cli.ui.print.stream import Stream, write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.core.approval import Approver
    from nexus_cli.core.event import Event

app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None), "runs")


@app.callback(invoke_without_command=True)
def list_runs(context: typer.Context) -> int:
    """List the runs; in a terminal, also ask what they wait for."""
    if context.invoked_subcommand:
        return 0
    ledger = open_ledger(writes=True)
    print_report(runs_report(ledger), runs_text, json=False)
    approver = _make_approver()
    waiting = ledger.runs.waiting()[::-1] if approver is not None else []
    for run in waiting:
        if not (asks_approval(run) and ledger.runs.is_own(run)):
            continue
        write_stderr_line(f"nexus: {describe_rest(ledger, run)}")
        if approver is None or not asyncio.run(ask_person(ledger, run, approver, _name_person(ledger), run.id)):
            break
        _, stopped = _drive(ledger, run, json=False)
        print_report(run_report(ledger, ledger.runs.get(run.key)), run_text, json=False)
        if stopped:
            return stopped
    return 0


@app.command("resume")
def resume_run(
    run: Annotated[str, typer.Argument(metavar="[ID]", help="The run's id, such as run-12.")] = "",
    answer: Annotated[
        str,
        typer.Option(
            metavar="yes|session|no", help="The answer to the run's question; session: yes for the rest of the run."
        ),
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="End the pause of all runs.")] = False,
    plan: Annotated[str, typer.Option(metavar="ID", help="End the pause of all runs of a schedule.")] = "",
    space: Annotated[str, typer.Option(metavar="NAME", help="End the pause of all runs in a space.")] = "",
    agent: Annotated[str, typer.Option(metavar="NAME", help="End the pause of all runs of an agent.")] = "",
    json: Json = False,
) -> int:
    """Continue a run here, without waiting any longer; if the run waits for an approval, nexus asks you.

    A failed run continues in its session with its level, rules and model; its limits start again from zero. Without a
    terminal, answer with --answer. Exit status: 0 success, 3 if the run waits again or a limit stopped it, 130 after
    Ctrl+C (resume it again). --all, --plan, --space and --agent only end the pause of runs; nexus serve continues the
    runs.
    """
    if answer and answer not in ANSWERS:
        raise NexusError("usage", f"--answer {answer}", f"expected one of {', '.join(ANSWERS)}")
    ledger = open_ledger(writes=True)
    if not run:
        if answer:
            raise NexusError(
                "usage", f"--answer {answer}", "it needs the id of a run", f"nexus runs resume ID --answer {answer}"
            )
        report = end_pause(make_source(ledger), every, plan, space, agent)
        return print_report(report.value, runs_text, json=json)
    found = ledger.runs.find(run)
    if found.has_ended and found.state != FAILED:
        hint = f"`nexus ask -r {found.session}` continues its session" if found.session else "nexus runs list"
        raise NexusError("usage", found.id, f"it is {found.state}", hint)
    require_own(ledger, found)
    _signal(ledger, found, answer)
    if found.state == FAILED:
        ledger.runs.resume_failed(found, format_utc(local_now()))
    ledger.runs.set_paused(found.key, False, format_utc(local_now()))
    was_cut, stopped = _drive(ledger, found, json=json)
    now = ledger.runs.get(found.key)
    done = "continues in another process" if now.state == RUNNING and not broken_runs(ledger, [now]) else ""
    if now.state == WAITING and ledger.runs.signals(now.key):
        done = "continues in the process that has its session open"
    print_report(run_report(ledger, now, done), run_text, json=json)
    if stopped and not now.has_ended:
        return stopped
    failed = EXIT_STATUS["limit"] if was_cut else 1
    return {DONE: 0, FAILED: failed, WAITING: 0 if done else EXIT_STATUS["waiting"]}.get(now.state, 0)


def _signal(ledger: Ledger, run: Run, answer: str) -> None:
    """Signal that a person resumes or answers the run. Raises `NexusError("usage", ...)` if it needs an answer."""
    asks = asks_approval(run)
    if answer and not asks:
        raise NexusError(
            "usage", f"--answer {answer}", f"{run.id} is not waiting for an answer", f"nexus runs resume {run.id}"
        )
    if run.state != WAITING or run.waits is None:
        return
    at = format_utc(local_now())
    if answer:
        questions = run.waits.value["questions"]
        answer_run(ledger, run, [answer] * len(questions), by=_name_person(ledger))
        for one in questions:
            write_stderr_line(f"nexus: {answer}: {one_line(one['what'])[:200]}")
    elif asks and not (os.isatty(0) and Stream(2).terminal):
        why = f"it asks: {run.waits.why.removeprefix('approval: ')}, and stdin is not a terminal"
        raise NexusError("usage", run.id, why, f"nexus runs resume {run.id} --answer yes")
    else:
        ledger.runs.signal(run.key, "person", {}, at)


def _name_person(ledger: Ledger) -> str:
    settings = settings_in(Path.cwd())
    return name_person(ledger, settings)


def _drive(ledger: Ledger, run: Run, *, json: bool) -> tuple[bool, int]:
    """Drive a run; return whether a limit stopped it, and the exit status for the signal that did, 0 for none."""
    from nexus_cli.cli.interrupt import Interrupt, run_in_loop  # noqa: PLC0415  (loads the engine)
    from nexus_cli.runs.runner import Runner  # noqa: PLC0415

    interrupt = Interrupt()

    async def drive() -> bool:
        runner = Runner(ledger, person=_make_approver(), show=_show_nothing if json else _make_show())
        work = asyncio.ensure_future(runner.run_due(key=run.key))
        interrupt.install(work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            pass
        finally:
            await runner.aclose()
            interrupt.uninstall()
        return run.key in runner.cut

    return run_in_loop(drive()), interrupt.status if interrupt.signal else 0


def _show_nothing(run: Run, event: Event) -> None:
    """Ignore the event: with --json only the result is printed."""


def _make_show() -> Callable[[Run, Any], None]:
    """Return a function that prints the progress of a run on stderr, as `nexus ask` does."""
    from nexus_cli.ui.print.progress_lines import ProgressLines  # noqa: PLC0415

    lines = ProgressLines(Stream(2))
    return lambda run, event: lines.feed(event)


def _make_approver() -> Approver | None:
    """Return an approver that asks in this terminal, None without a terminal."""
    err = Stream(2)
    if not (os.isatty(0) and err.terminal):
        return None
    from nexus_cli.ui.print.approver import PersonApprover, describe_calls  # noqa: PLC0415  (in a terminal only)
    from nexus_cli.ui.print.terminal_questions import TerminalQuestions  # noqa: PLC0415
    from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415

    questions, theme = TerminalQuestions(err), choose_theme("auto", os.environ, err.colour)
    return PersonApprover(questions, describe_calls(questions, theme), escape="Esc later")
