"""Plain `nexus` in a terminal: choose model and session, build the REPL, run it, print the resume command.

The REPL itself is `nexus_cli.ui.repl`. This module connects its parts, and handles signals and the exit.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nexus_cli import __version__
from nexus_cli.cli import process
from nexus_cli.cli.command_options import PICK_SESSION, SharedOptions
from nexus_cli.cli.confirm import read_line
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.loop_watchdog import LoopWatchdog
from nexus_cli.cli.run.first_run import FirstRun, is_first_run
from nexus_cli.cli.run.run_turn import format_resume_line, has_entries, session_options
from nexus_cli.cli.setup.offer_login import offer_login
from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.cli.work_folder import WorkFolder, open_work_folder
from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.paths import places, project_root, with_tilde
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.config.unsupported import new_unsupported_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.provider.available_models import keys_present
from nexus_cli.provider.choose_model import ModelChoice, choose_model
from nexus_cli.provider.local_servers import local_servers
from nexus_cli.reports.last_exchange import short_id
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.ui.print.stream import QuietStream, write_stderr_line
from nexus_cli.ui.repl.local_session import LocalSession
from nexus_cli.ui.repl.repl import Repl

PROBE_AFTER = 0.1
"""Seconds before the sandbox is probed in the background: the prompt is shown first."""
LOAD_AFTER = 3.0
"""Seconds before the model library is loaded in the background. The first message needs none (`provider/head_start`):
one that is typed at once is sent sooner without that load beside it."""
RESET_TERMINAL = b"\x1b[0m\x1b[?25h\x1b[?2004l\r\n"
"""Resets text attributes, shows the cursor, turns bracketed paste off and begins a new line."""


def run_repl(shared: SharedOptions, first: str = "") -> int:
    """Run the REPL and return the exit status; `first` is sent at the start. Raises `NexusError` for errors before the
    session exists."""
    shared.check()
    picks = shared.resume == PICK_SESSION
    shared = replace(shared, resume="") if picks else shared
    process.block_imports_from(str(shared.folder))
    if not os.isatty(1):
        raise UsageError("no terminal", "stdout is not a terminal", "Use `nexus ask`")
    with open_work_folder(shared.folder, shared.worktree, quiet=shared.quiet) as work:
        settings = _load_settings(shared, work.path)
        chosen = _choose_model(shared, settings)
        if chosen.announce and not shared.quiet:
            write_stderr_line(f"nexus: {chosen.announce}")
        if os.isatty(0) and chosen.model and not shared.no_save:
            offer_login(chosen.model)
        options = session_options(shared, settings, work, chosen.model, front="chat", interactive=True)
        return _ReplRun(shared, options, settings, work, [*["/resume"] * picks, first]).run()


def _choose_model(shared: SharedOptions, settings: Settings) -> ModelChoice:
    """Return the model; if there is neither a key nor a local server, ask for a key first."""
    resumes = bool(shared.resume or shared.newest)
    try:
        return choose_model(shared.model, settings, resumes=resumes)
    except NexusError as error:
        keyless = error.what == "no model" and not keys_present(settings) and not local_servers()
        if not keyless or shared.no_save or not os.isatty(0):
            raise
    FirstRun(settings, QuietStream(1), read_line).log_in()
    return choose_model(shared.model, settings, resumes=resumes)


def _load_settings(shared: SharedOptions, folder: Path) -> Settings:
    project = project_root(folder)
    loaded = load_settings_in(project)
    model_or_session = shared.model or os.environ.get("NEXUS_MODEL", "").strip() or shared.resume or shared.newest
    if is_first_run(places()) and not (model_or_session or shared.no_save):  # a session to resume has its model
        FirstRun(loaded.settings, QuietStream(1), read_line).run()
        loaded = load_settings_in(project)
    return loaded.settings


class StderrLines(io.TextIOBase):
    """A replacement for `sys.stderr` while the screen is drawn: passes lines of libraries to `write_line`."""

    def __init__(self, write_line: Callable[[str], object]) -> None:
        self._write_line = write_line
        self._partial = ""

    def write(self, text: str) -> int:
        """Pass on each complete line. Safe from any thread."""
        *lines, self._partial = (self._partial + text)[-8192:].split("\n")
        for line in filter(str.strip, lines):
            self._write_line(line)
        return len(text)


class _ReplRun:
    """One run of the REPL."""

    def __init__(
        self, shared: SharedOptions, options: Options, settings: Settings, work: WorkFolder, first: Sequence[str]
    ) -> None:
        """Initialize; `first` are the lines to submit at the start: the message, "" for none, behind `/resume`."""
        self._shared = shared
        self._work = work
        self._first = first
        self._options = options
        self._settings = settings
        self._view = TerminalView(
            settings, options.cwd, lambda: self._backend.commands, lambda: self._backend, save=options.save
        )
        self._away: list[str] = []
        """Lines about unattended runs, for the greeting."""
        self._terminal = termios.tcgetattr(0) if os.isatty(0) else None
        self._backend: LocalSession

    def run(self) -> int:
        """Run until the person leaves; return the exit status."""
        view, approver = self._view, self._view.make_approver()
        session = open_session(self._options, self._settings, approver=approver, services=SERVICES)
        self._away = _describe_missed_runs(session)  # at once: the opening has asked for runs
        # Terminals open links to files on their own machine, so there are none over SSH.
        folder = None if os.environ.get("SSH_CONNECTION") else self._options.cwd

        def reopen(options: Options, settings: Settings, earlier: Session) -> Session:
            view.apply(settings)
            return open_session(options, settings, approver=approver, earlier=earlier, services=SERVICES)

        raw = QuietStream(1).write
        backend = LocalSession(session, self._options, self._settings, reopen, raw)
        backend.leaves_unchosen = "/resume" in self._first
        self._backend = backend
        repl = view.make_repl(backend, folder)
        view.remember(self._first[-1])
        watchdog = LoopWatchdog(lambda: backend.session, self._resume_line, self._reset_terminal)
        repl.jobs.guard = watchdog
        try:
            return run_in_loop(self._run_loop(repl, watchdog))
        finally:
            view.close()

    async def _run_loop(self, repl: Repl, watchdog: LoopWatchdog) -> int:
        interrupt = Interrupt()

        def stop() -> None:
            watchdog.forget_signal()
            repl.view.interrupt()

        interrupt.install(repl.request_exit, on_arrival=watchdog.note_signal, stop=stop)
        loop = asyncio.get_running_loop()
        sys.stderr = StderrLines(lambda line: loop.call_soon_threadsafe(repl.show_note, line, "warn"))
        self._greet(repl)
        loop.call_later(PROBE_AFTER, _prepare, repl, self._backend.session, loop)
        try:
            status = await self._run_until_left(repl)
        finally:
            sys.stderr = sys.__stderr__
            interrupt.uninstall()
            session = self._backend.session
            shown_id = short_id(session.ledger, session.id)
            resume = self._resume_line(shown_id) if has_entries(session) else ""
            jobs = await session.jobs.end_all() if session.jobs is not None else []
            await session.aclose()
            self._work.leave()
            for line in jobs:
                write_stderr_line(line)
            if session.ledger.is_kept and not session.record.is_saving:
                write_stderr_line("nexus: the ledger could not be written: part of this session was not saved.")
            if resume:
                write_stderr_line(resume)
        return interrupt.status or status

    async def _run_until_left(self, repl: Repl) -> int:
        """Run the REPL; return its exit status, which that of a signal overrides."""
        try:
            await repl.run(self._first)
        except (OSError, EOFError) as error:
            if not isinstance(error, EOFError) and _is_terminal(0) and _is_terminal(1):
                write_stderr_line(report_bug(error).line)
                return 1
            return 128 + signal.SIGHUP
        except Exception as bug:  # the resume command must be printed even then
            if self._shared.verbose:
                sys.excepthook(type(bug), bug, bug.__traceback__)
            write_stderr_line(report_bug(bug).line)
            return 1
        return 0

    def _greet(self, repl: Repl) -> None:
        session = self._backend.session
        if not self._shared.quiet:
            added = session.dispatcher.permission.added
            folders = " + ".join([self._work.describe(), *map(with_tilde, added)])
            keys = "" if self._view.is_dumb else "? keys, "
            repl.show_note(f"nexus {__version__}  {session.model}  {folders}\n{keys}/help commands, Ctrl+D exits")
        repl.show_notices((*self._work.notices, *session.take_notices()))
        if self._options.save and (line := new_unsupported_line(project_root(session.folder))):
            from nexus_cli.commands import use_slash_names  # noqa: PLC0415  (few starts have such a line)

            repl.show_note(f"nexus: {use_slash_names(line)}")
        for line in self._away:
            repl.show_note(f"nexus: {line}")
        self._backend.watch_runs(at_once=bool(self._away))
        self._backend.read_own_commands()
        if self._options.resume or self._options.newest:
            self._backend.show_conversation()

    def _resume_line(self, shown_id: str = "") -> str:
        """Return the line with the resume command, which has the id `shown_id`, by default the whole id."""
        return format_resume_line(self._backend.session, "nexus", self._shared, shown_id)

    def _reset_terminal(self, error: NexusError) -> None:
        """Restore the initial state of the terminal. Called in the watchdog's thread."""
        if self._terminal is not None:
            with suppress(termios.error, OSError):  # the window may be closed
                termios.tcsetattr(0, termios.TCSANOW, self._terminal)
                os.write(1, b"" if self._view.is_dumb else RESET_TERMINAL)


def _describe_missed_runs(session: Session) -> list[str]:
    """Return lines about the unattended runs of the project since the person's last visit, and let the model know that
    the person was shown them."""
    ledger = session.ledger
    with suppress(NexusError):  # the session reports a failed ledger
        if ledger.is_kept and ledger.has_runs():
            from nexus_cli.runs.missed_runs import pop_missed_runs_notes  # noqa: PLC0415  (few projects have runs)

            notes = pop_missed_runs_notes(ledger, session.folder)
            session.queue_missed_runs(to_json_value(notes))
            return [note.line for note in notes]
    return []


def _is_terminal(descriptor: int) -> bool:
    """True if the descriptor is a terminal that still answers."""
    try:
        return bool(termios.tcgetattr(descriptor))
    except (termios.error, OSError):
        return False


def _prepare(repl: Repl, session: Session, loop: asyncio.AbstractEventLoop) -> None:
    """Probe the sandbox and load what prints answers, then the model library, in a thread. Errors are reported at the
    first use."""

    def load() -> None:
        if not session.has_sandbox():
            with suppress(RuntimeError):  # the REPL has ended meanwhile
                loop.call_soon_threadsafe(repl.refresh_status)
        from nexus_cli.ui.render import markdown_print  # noqa: F401, PLC0415  (rich: a tenth of the start)

        time.sleep(LOAD_AFTER)
        with suppress(ImportError):
            session.prepare()

    threading.Thread(target=load, name="prepare", daemon=True).start()
