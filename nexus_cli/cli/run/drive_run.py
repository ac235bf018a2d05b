"""Drive a run in this terminal, whose person is asked: `nexus runs`, `nexus runs resume`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nexus_cli.cli.serve.serve_once import drive_runs, make_lines
from nexus_cli.commands.verb import Report, Source
from nexus_cli.core.errors import EXIT_STATUS
from nexus_cli.core.run import FAILED, RUNNING, WAITING, Run
from nexus_cli.reports.runs import RunReport, broken_runs, run_report
from nexus_cli.ui.print.stream import Stream, Writable

if TYPE_CHECKING:
    from nexus_cli.core.approval import Approver
    from nexus_cli.runs.runner import Runner


def drive_run(source: Source, run: Run) -> Report[RunReport]:
    """Drive a run in this terminal until it ends or waits, and report it with the exit status."""
    ledger = source.ledger
    lines = None if source.is_json else make_lines()

    def make(**callbacks: Any) -> Runner:
        from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)

        return Runner(ledger, person=make_approver(lines.progress.err if lines else Stream(2)), **callbacks)

    _, cut, stopped = drive_runs(ledger, make, lines, key=run.key)
    now = ledger.runs.get(run.key)
    outcome = "continues in another process" if now.state == RUNNING and not broken_runs(ledger, [now]) else ""
    if now.state == WAITING and ledger.runs.signals(now.key):
        outcome = "continues in the process that has its session open"
    failed = EXIT_STATUS["limit"] if run.key in cut else 1
    status = {FAILED: failed, WAITING: 0 if outcome else EXIT_STATUS["waiting"]}.get(now.state, 0)
    status = stopped if stopped and not now.has_ended else status
    return Report("run", run_report(ledger, now, outcome), status=status)


def make_approver(err: Writable) -> Approver | None:
    """Return an approver that asks in this terminal; None without a terminal."""
    if not (os.isatty(0) and err.terminal):
        return None
    from nexus_cli.ui.print.approver import PersonApprover, describe_calls  # noqa: PLC0415  (in a terminal only)
    from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415
    from nexus_cli.ui.screen.terminal_questions import TerminalQuestions  # noqa: PLC0415

    questions, theme = TerminalQuestions(err), choose_theme("auto", err.colour)
    return PersonApprover(questions, describe_calls(questions, theme), escape="Esc later")
