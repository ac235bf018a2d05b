"""`nexus runs list | show | cancel | pause | resume`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.cli.serve.serve_once import drive_runs, make_lines
from nexus_cli.commands.runs import Every, OfAgent, OfPlan, OfSpace, OneRun, build_list, end_pause, find_resumable
from nexus_cli.commands.verb import Authority, Option, Report, Source, Verb
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import EXIT_STATUS, UsageError
from nexus_cli.core.run import FAILED, RUNNING, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import RunReport, RunsReport, broken_runs, run_report
from nexus_cli.runs.run_approvals import ANSWERS, answer_run, ask_person, asks_approval, name_person
from nexus_cli.ui.print.stream import Stream, Writable

if TYPE_CHECKING:
    from nexus_cli.core.approval import Approver
    from nexus_cli.runs.runner import Runner


def list_and_answer(source: Source) -> Report[Annotated[Any, RunsReport]]:
    """List the runs. In a terminal, also ask for the approvals that runs wait for."""
    report: Report[Any] = build_list(source)
    asks = not source.is_json and _make_approver(Stream(2))
    for run in source.ledger.runs.waiting()[::-1] if asks else []:
        if asks_approval(run) and source.ledger.runs.is_own(run):
            source.show(report)
            report = resume_run(source, run.id)
            if report.status and source.ledger.runs.get(run.key).state != FAILED:  # stopped, or left for later
                break
    return report


def resume_run(
    source: Source,
    run: OneRun = "",
    answer: Annotated[
        str,
        Option("yes|session|no", "Answer to the run's question; session = yes for the rest of the run.", least=0),
    ] = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report[RunReport | RunsReport]:
    """Continue a run now, in this terminal, without waiting further.

    If the run waits for an approval, nexus asks you; without a terminal, answer with --answer. A failed run continues
    in its session with its level, rules and model, and its limits start again. Exit status: 0 success, 1 if the run
    failed, 3 if the run waits again or a limit stopped it, 130 after Ctrl+C (resume it again). --all, --plan, --space
    and --agent only end the pause of the selected runs; nexus serve then continues them.
    """
    if answer and answer not in ANSWERS:
        raise UsageError(f"--answer {answer}", f"must be one of {', '.join(ANSWERS)}")
    if not run:
        if answer:
            raise UsageError(
                f"--answer {answer}", "the run id is missing", f"Run: nexus runs resume ID --answer {answer}"
            )
        return end_pause(source, every, plan, space, agent)
    ledger, target_run = source.ledger, find_resumable(source, run)
    _signal(source, target_run, answer)
    if target_run.state == FAILED:
        ledger.runs.resume_failed(target_run, utc_now())
    ledger.runs.set_paused(target_run.key, False, utc_now())
    was_cut, stopped = _drive(ledger, target_run, json=source.is_json)
    now = ledger.runs.get(target_run.key)
    done = "continues in another process" if now.state == RUNNING and not broken_runs(ledger, [now]) else ""
    if now.state == WAITING and ledger.runs.signals(now.key):
        done = "continues in the process that has its session open"
    failed = EXIT_STATUS["limit"] if was_cut else 1
    status = {FAILED: failed, WAITING: 0 if done else EXIT_STATUS["waiting"]}.get(now.state, 0)
    status = stopped if stopped and not now.has_ended else status
    return Report("run", run_report(ledger, now, done), status=status)


def _signal(source: Source, run: Run, answer: str) -> None:
    """Signal that a person resumes or answers the run; ask them before, since `nexus serve` takes a signalled run and
    asks nobody. Without an answer there is no signal. Raises `UsageError` if nobody can be asked."""
    ledger, asks = source.ledger, asks_approval(run)
    if answer and not asks:
        raise UsageError(
            f"--answer {answer}",
            f"{run.id} is not waiting for an approval",
            f"Run: nexus runs resume {run.id}",
        )
    if run.state != WAITING or run.waits is None:
        return
    if answer:
        questions = run.waits.value["questions"]
        answer_run(ledger, run, [answer] * len(questions), by=_name_person(source))
        for question in questions:
            source.say(f"{answer}: {one_line(question['what'])[:200]}")
    elif asks and (approver := _make_approver(Stream(2))):
        asyncio.run(ask_person(ledger, run, approver, _name_person(source), run.id))
    elif asks:
        why = f"needs an answer ({run.waits.why.removeprefix('approval: ')}), but stdin or stderr is not a terminal"
        raise UsageError(run.id, why, f"Answer with: nexus runs resume {run.id} --answer yes (or no)")
    else:
        ledger.runs.signal(run.key, "person", {}, utc_now())


def _name_person(source: Source) -> str:
    return name_person(source.ledger, source.settings())


def _drive(ledger: Ledger, run: Run, *, json: bool = False) -> tuple[bool, int]:
    """Drive a run; return whether a limit stopped it, and the exit status for the signal that did, 0 for none."""

    lines = None if json else make_lines()

    def make(**shown: Any) -> Runner:
        from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)

        return Runner(ledger, person=_make_approver(lines.progress.err if lines else Stream(2)), **shown)

    _, cut, stopped = drive_runs(ledger, make, run.key, lines)
    return run.key in cut, stopped


def _make_approver(err: Writable) -> Approver | None:
    """Return an approver that asks in this terminal, None without a terminal."""
    if not (os.isatty(0) and err.terminal):
        return None
    from nexus_cli.ui.print.approver import PersonApprover, describe_calls  # noqa: PLC0415  (in a terminal only)
    from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415
    from nexus_cli.ui.screen.terminal_questions import TerminalQuestions  # noqa: PLC0415

    questions, theme = TerminalQuestions(err), choose_theme("auto", err.colour)
    return PersonApprover(questions, describe_calls(questions, theme), escape="Esc later")


VERBS = (
    Verb(list_and_answer, "", Authority.OPERATES, "write"),
    Verb(resume_run, "resume", Authority.OPERATES, "write"),
)
