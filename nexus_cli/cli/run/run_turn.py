"""Run one turn of a session: pass its events to renderers and signals to the session, return the exit status.

Independent of the syntax of the command line.
"""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nexus_cli.cli import process
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.ledger_wait import LedgerWait
from nexus_cli.cli.loop_watchdog import LoopWatchdog, signal_error
from nexus_cli.config.paths import project_root
from nexus_cli.core.errors import PARTIAL_KEPT, NexusError
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import Paths
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.print.stream import QuietStream, ReaderClosed, Stream, Writable, is_writing, write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.cli.command_options import SharedOptions
    from nexus_cli.cli.run.ask_options import PreparedTurn
    from nexus_cli.cli.run.watch import Watch
    from nexus_cli.cli.work_folder import WorkFolder
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.attachment import Trigger
    from nexus_cli.core.event_json import AskResult
    from nexus_cli.ui.print.json_renderer import JsonRenderer
    from nexus_cli.ui.print.turn_progress import TurnProgress

NOT_SAVED = "Nothing was saved. Send the prompt again, or a smaller task"


class AskTurn:
    """One turn of `nexus ask`, or with `--watch` one for each batch."""

    def __init__(self, run: PreparedTurn) -> None:
        self._run = run
        err = self._choose_streams()
        self._interrupt = Interrupt()
        self._stored = ""
        """The session's id, if a commit failed and the ledger has entries of it."""
        self._broken: NexusError | None = None
        """The error of a failed write to stdout."""
        self._closed = False
        """True once the reader of stdout has closed it."""
        self._explain: Callable[[Event], None] | None = None
        self._watch: Watch | None = None
        self._restore_terminal: Callable[[], None] = lambda: None
        interactive = os.isatty(0) and err.terminal
        approver = None
        if interactive:
            from nexus_cli.ui.print.approver import PersonApprover, describe_calls  # noqa: PLC0415  (in a terminal only)
            from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415
            from nexus_cli.ui.screen.terminal_questions import TerminalQuestions  # noqa: PLC0415

            theme = choose_theme(run.settings.ui.theme, err.colour)
            questions = TerminalQuestions(
                err, stop=lambda: signal.raise_signal(signal.SIGINT), cycle_level=lambda: self._session.cycle_level()
            )
            self._restore_terminal = questions.restore
            approver = PersonApprover(questions, describe_calls(questions, theme))
        self._session = open_session(
            ask_options(run, interactive=interactive),
            run.settings,
            approver=approver,
            services=SERVICES,
        )

    def _choose_streams(self) -> Writable:
        """Create the renderers for stdout and stderr; return the stream for questions to a person."""
        options = self._run.options
        verbose, quiet = self._run.shared.verbose, self._run.shared.quiet
        out: Writable = Stream(1)
        err: Writable = QuietStream(2)
        self._notices = err
        self._progress: TurnProgress | None = None
        self._json: JsonRenderer | None = None
        """Prints the result object, if one is wanted."""
        self._has_result = False
        """True once the result object of the present turn is printed."""
        text = out.terminal and not (options.json or options.stream_json or options.schema)
        silent = quiet or not (err.terminal or verbose)
        if text or not silent:
            from nexus_cli.ui.print.turn_progress import TurnProgress  # noqa: PLC0415  (rich is for terminals only)
            from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415

            theme = choose_theme(self._run.settings.ui.theme, (out if silent else err).colour)
            folder = self._run.work.path
            self._progress = TurnProgress(out, err, theme, text=text, silent=silent, verbose=verbose, folder=folder)
            out, err, self._notices = self._progress.out, self._progress.err, self._progress.notices
        self._remarks = NoticeLines(self._notices, quiet=quiet, alone=silent)
        if options.json or options.stream_json:
            from nexus_cli.ui.print.json_renderer import JsonLinesRenderer, JsonRenderer  # noqa: PLC0415

            self._json = JsonLinesRenderer(out) if options.stream_json else JsonRenderer(out)
        self._answers = None if text or self._json else out
        """The stream for the answer of each turn, whole at its end; None if a renderer prints it."""
        # First the progress: it stops drawing before the answer is written to a pipe.
        self._renderers = [renderer for renderer in (self._progress, self._json) if renderer is not None]
        return err

    def run(self) -> int:
        """Run the turn in an event loop; return the exit status. Errors are printed on stderr, not raised.

        If the status is not 0 and the session was saved with a message, the last line on stderr is the command that
        resumes it.
        """
        session = self._session
        self._remarks.session = session
        for notice in session.notices:
            self._remarks.print_notice(notice)
        if self._run.options.explain_context:
            from nexus_cli.cli.run.explain_context import ContextExplainer  # noqa: PLC0415  (only with --explain-context)

            self._explain = ContextExplainer(self._notices, session.record.drops).feed
        try:
            status = run_in_loop(self._run_session())
        except Exception as error:  # the resume command must be printed even then
            if self._run.shared.verbose:
                sys.excepthook(type(error), error, error.__traceback__)
            from nexus_cli.config.crash_report import report_bug  # noqa: PLC0415  (after a bug only)

            self._remarks.print_error(report_bug(error).line)
            status = 1
        if session.workers and not self._progress:
            self._notify_unapplied([row for row in session.workers.rows() if row["to_review"]])
        self._run.work.leave()
        if status and self._closed:
            self._remarks.print_notice("the reader of stdout closed it, so the turn was stopped")
        if status and session.conversation.last and (resume := self._resume_line()):  # an empty session is deleted
            self._remarks.print_next_step(resume)
        return status

    async def _run_session(self) -> int:
        session, resume = self._session, self._resume_line()
        watchdog = LoopWatchdog(lambda: session, lambda: resume, self._print_at_exit)
        moving = asyncio.create_task(self._progress.run()) if self._progress else None

        def print_end() -> None:
            self._close_progress()
            error = signal_error(self._interrupt.signal)
            self._print_at_exit(error)
            for line in filter(None, (error.line, resume)):
                write_stderr_line(line)

        self._interrupt.install(self._cancel, on_arrival=watchdog.note_signal, before_exit=print_end)
        try:
            with watchdog:
                outcome = await self._run_turns()
        except NexusError as error:
            self._remarks.print_error(error.line)
            self._print_result(partial(session.failed_result, error))
            return error.exit_status
        finally:
            if moving is not None:
                moving.cancel()
            self._close_progress()
            self._interrupt.uninstall()
            self._stored = session.id if not session.saved and has_entries(session) else ""
            await session.aclose()
        if self._broken is not None:
            self._remarks.print_error(self._broken.line)
            return outcome.exit or self._broken.exit_status
        return outcome.exit

    def _notify_unapplied(self, workers: Sequence[JsonObject]) -> None:
        """Name the worktrees of workers with changes that are not in the project."""
        from nexus_cli.worktrees.apply_worktree import list_unapplied  # noqa: PLC0415  (few runs have workers)
        from nexus_cli.worktrees.worktrees import find_worktree_of  # noqa: PLC0415

        for worker in workers:
            with suppress(NexusError):  # removed meanwhile, or `diff` reports it
                record = find_worktree_of(self._session.dispatcher.project_root, worker["worktree"])
                if list_unapplied(record).paths:
                    hint = "to review them: nexus worktree diff {0}; to apply them: nexus worktree apply {0}"
                    line = f"the changes of worker {worker['id']} were not applied; {hint.format(record.name)}"
                    self._remarks.print_notice(line)

    def _cancel(self) -> None:
        self._session.cancel(process.find_stopper(self._interrupt.signal))
        if self._watch is not None:
            self._watch.batches.stop()

    async def _run_turns(self) -> Outcome:
        """Run the turn, or with --watch one for each batch; return the outcome, the first that failed."""
        options, session = self._run.options, self._session
        if not options.watch:
            outcome = await self._run_events(self._run.trigger)
            self._print_result(lambda: session.result(outcome))
            return outcome
        from nexus_cli.cli.run.watch import Watch  # noqa: PLC0415  (few runs watch a stream)

        self._watch = watch = Watch(options, self._run.trigger, quiet=self._run.shared.quiet)
        async for trigger in watch.triggers():
            outcome = await self._run_events(trigger)
            self._print_result(partial(session.result, outcome))
            if not watch.end_turn(session, outcome) or self._closed or self._broken or self._interrupt.signal:
                break
        status = self._interrupt.status
        return watch.failed or Outcome(not status, status)

    def _close_progress(self) -> None:
        if self._progress is not None:
            self._progress.close()

    async def _run_events(self, trigger: Trigger) -> Outcome:
        outcome: Outcome | None = None
        self._has_result = False
        async for event in self._session.run(trigger):
            if isinstance(event, TurnEnd):
                outcome = event.outcome if event.outcome.ok else self._failed_outcome(event.outcome)
                event = TurnEnd(outcome)
            for renderer in self._renderers:
                self._print(partial(renderer.feed, event))
            if outcome and self._answers and (text := outcome.text.rstrip("\n")):
                text = sanitize(text) if self._answers.terminal else text  # a pipe gets the model's text unchanged
                self._print(partial(self._answers.write, text + "\n"))
            if not ((self._closed or self._broken) and isinstance(event, TurnEnd)):
                self._remarks.feed(event)
            if self._explain:
                self._explain(event)
        if outcome is None:
            raise NexusError("internal", "the turn ended without a result", "this is a bug in nexus")
        return outcome

    def _print_at_exit(self, error: NexusError) -> None:
        """Print the result object of a turn that is not waited for, if stdout can be written. Called in the watchdog's
        thread or by a signal."""
        self._restore_terminal()
        is_free = not is_writing() and select.select([], [1], [], 0)[1]
        if self._json is not None and not self._has_result and is_free:
            with suppress(ReaderClosed, NexusError):
                self._json.end(self._session.failed_result(error))

    def _failed_outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a failed turn to report, with the exit status of a signal or a failed write, not of a
        closed pipe."""
        if outcome.error and outcome.error["hint"].startswith(PARTIAL_KEPT) and not self._session.saved:
            outcome = replace(outcome, error={**outcome.error, "hint": NOT_SAVED})
        outcome = outcome.without_partial_text()
        if self._broken is not None:
            return replace(outcome, exit=self._broken.exit_status)
        return replace(outcome, exit=self._interrupt.status or outcome.exit)

    def _print_result(self, make_result: Callable[[], AskResult]) -> None:
        """Print the result object that `make_result` returns, if one is wanted."""
        if (json := self._json) is not None:
            self._print(lambda: json.end(make_result()))
            self._has_result = True

    def _print(self, write: Callable[[], None]) -> None:
        """Call `write` unless stdout has failed. If it fails, cancel the turn, because nobody can read the answer."""
        if self._closed or self._broken:
            return
        try:
            write()
        except ReaderClosed:
            self._closed = True
            self._session.cancel("end")
        except NexusError as error:
            self._broken = error
            self._session.cancel("end")

    def _resume_line(self) -> str:
        schema = self._run.options.schema
        command = f"nexus ask --schema {shlex.quote(schema)}" if schema else "nexus ask"
        return format_resume_line(self._session, command, self._run.shared, self._stored)


def session_options(
    shared: SharedOptions, settings: Settings, work: WorkFolder, model: str, **extra_options: Any
) -> Options:
    """Return the session options that the command line asks for; raise `UsageError` for a folder of --add-dir or a rule
    of --rule that cannot be used."""
    add_dirs: Paths = ()
    if shared.add_dirs:
        from nexus_cli.config.added_folders import check_folders  # noqa: PLC0415  (few runs add any)

        add_dirs = check_folders(shared.add_dirs, project_root(work.path))
    if shared.rules:
        from nexus_cli.permission.folder_rules import check_rules  # noqa: PLC0415  (few runs have any)

        check_rules(shared.rules)
    return Options(
        cwd=work.path,
        worktree=work.worktree,
        model=model,
        effort=shared.effort or settings.effort,
        recipe=shared.recipe,
        resume=shared.resume,
        newest=shared.newest,
        allow=shared.allow or None,
        no_tools=shared.no_tools,
        save=not shared.no_save,
        wait_for_ledger=LedgerWait(settings.ledger.wait),
        add_dirs=add_dirs,
        rules=tuple(shared.rules or ()),
        **extra_options,
    )


def ask_options(run: PreparedTurn, *, interactive: bool) -> Options:
    """Return the session options of one turn of `nexus ask`."""
    options = run.options
    return session_options(
        run.shared,
        run.settings,
        run.work,
        run.model,
        require_save=options.require_save,
        limits=options.limits,
        contract=run.contract,
        interactive=interactive,
        one_turn=True,
    )


def format_resume_line(session: Session, command: str, shared: SharedOptions, shown_id: str = "") -> str:
    """Return the line that resumes `session` with `command` in the same folder, as `shown_id` or by id; "" if unsaved.

    With `shown_id` the ledger has entries of the session, even if a later commit failed."""
    place = f" -C {shlex.quote(shared.directory)}" if shared.directory else ""
    place += f" -w {shared.worktree}" if shared.worktree else ""
    return f"Resume with: {command}{place} -r {shown_id or session.id}" if shown_id or session.saved else ""


def has_entries(session: Session) -> bool:
    """True if the ledger has entries of the session."""
    if not session.ledger.is_kept:
        return False
    try:
        return session.ledger.session(session.id).entries > 0
    except NexusError:
        return False
