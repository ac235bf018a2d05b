"""Plain `nexus` in a terminal: chooses model and session, puts the REPL together, runs it, and says how to come back.

What the REPL does is the business of `nexus_cli.ui.repl`; signals and the end of the process are taken care of here.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from nexus_cli import __version__
from nexus_cli.cli import process
from nexus_cli.cli.choose_model import choose
from nexus_cli.cli.first_run import first_run, is_first
from nexus_cli.cli.interrupt import NUMBERS
from nexus_cli.cli.loop_watchdog import LoopWatchdog, end_blocked
from nexus_cli.cli.options import SharedOptions
from nexus_cli.cli.run_turn import resume_line, wind_up
from nexus_cli.cli.tell import tell
from nexus_cli.commands import discover
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.session.faults import internal
from nexus_cli.session.options import Options
from nexus_cli.session.reports import last
from nexus_cli.session.session import Session
from nexus_cli.session.wiring import open_session
from nexus_cli.tools.process import kill_all
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.print.stream import QuietStream, Stream
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl.command_context import ReplCommandContext
from nexus_cli.ui.repl.repl import Repl
from nexus_cli.ui.repl.repl_approver import ReplApprover
from nexus_cli.ui.repl.view import ReplView
from nexus_cli.ui.screen.screen import Screen

SOON = 0.1
"""Seconds after which the model library is loaded in the background: the prompt stands by then."""

AS_BEFORE = b"\x1b[0m\x1b[?25h\x1b[?2004l\r\n"
"""Plain text, the cursor shown, pasted text unmarked, on a line of its own."""


def run_repl(shared: SharedOptions) -> int:
    """Run the REPL and return the exit status; what goes wrong before there is a session is raised as `NexusError`."""
    shared.check()
    folder = shared.folder
    process.forget_folder(str(folder))
    if not os.isatty(1):
        raise NexusError("usage", "no terminal", "stdout is not one, so nobody can be shown a prompt", "Use nexus ask")
    settings = _settings(shared)
    chosen = choose(shared.model, os.environ, settings, resumes=bool(shared.resume or shared.newest))
    if chosen.announce and not shared.quiet:
        tell(f"nexus: {chosen.announce}")
    options = Options(
        cwd=folder,
        model=chosen.model,
        effort=shared.effort or settings.effort,
        recipe=shared.recipe,
        front="chat",
        resume=shared.resume,
        newest=shared.newest,
        allow=shared.allow or None,
        no_tools=shared.no_tools,
        save=not shared.no_save,
        interactive=True,
    )
    return _Start(shared, options, settings).run()


def _settings(shared: SharedOptions) -> Settings:
    found = places()
    here = project_root(shared.folder)
    loaded = load_settings_in(here, found, defaults_dir(), os.environ)
    if is_first(found) and not (shared.model or shared.no_save or os.environ.get("NEXUS_MODEL", "").strip()):
        first_run(loaded, os.environ, QuietStream(Stream(1)), sys.stdin.readline)
        loaded = load_settings_in(here, found, defaults_dir(), os.environ)
    return loaded.settings


class Overheard(io.TextIOBase):
    """What libraries write to stderr while the screen is drawn on: told in lines like everything else."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._begun = ""

    def write(self, text: str) -> int:
        """Tell the lines that `text` ends; safe from any thread."""
        *lines, self._begun = (self._begun + text)[-8192:].split("\n")
        for line in filter(str.strip, lines):
            self._tell(line)
        return len(text)


class _Start:
    """One run of the REPL."""

    def __init__(self, shared: SharedOptions, options: Options, settings: Settings) -> None:
        self._shared = shared
        self._options = options
        self._settings = settings
        out = Stream(1)
        self._theme = choose_theme(settings.ui.theme, os.environ, out.colour)
        self._vi = settings.ui.keys == "vi"
        self._dumb = os.environ.get("TERM", "") in ("", "dumb")
        self._draft: Callable[[], str] = str
        """What stands in the input box."""
        self._signal = 0
        self._repl: Repl | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchdog: LoopWatchdog | None = None
        self._terminal = termios.tcgetattr(0) if os.isatty(0) else None

    def run(self) -> int:
        """Until the person leaves; the exit status."""
        box = None if self._dumb else self._box()
        view = self._make_view(box)
        approver = ReplApprover(view, self._theme)
        session = open_session(self._options, self._settings, approver=approver)
        renderer = RichRenderer(view.put, lambda: view.width, self._theme, drawn=box is not None)
        repl = self._repl = Repl(session, view, renderer, self._theme)
        repl.draft = self._draft
        if box is not None:
            box.outside = view.outside
            box.notice = lambda text: repl.show_note(f"nexus: {text}", "warn")
        repl.desk = ReplCommandContext(
            repl, self._options, self._settings, os.environ,
            lambda options, settings, earlier: open_session(options, settings, approver=approver, earlier=earlier),
            QuietStream(Stream(1)).write,
        )  # fmt: skip
        watchdog = self._watchdog = LoopWatchdog(lambda: repl.session, self._end_blocked)
        repl.jobs.guard = watchdog
        process.settle()
        loop = self._loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._follow(repl))
        finally:
            wind_up(loop)
            if box is not None:
                box.close()

    def _make_view(self, box: InputBox | None) -> ReplView:
        """Single lines where the terminal cannot be drawn on, else the screen."""
        if box is not None:
            self._draft = lambda: box.text
            return Screen(box, self._theme, environ=os.environ)
        from nexus_cli.ui.screen.line_view import LineView  # noqa: PLC0415  (for few terminals only)

        line = LineView(environ=os.environ)
        self._draft = lambda: line.draft
        return line

    def _box(self) -> InputBox:
        return InputBox(
            folder=self._options.cwd,
            project=project_root(self._options.cwd),
            commands=discover,
            desk=lambda: self._repl.desk if self._repl else None,
            history=places().data / "history",
            vi=self._vi,
            save=self._options.save,
        )

    async def _follow(self, repl: Repl) -> int:
        self._take()
        loop = asyncio.get_running_loop()
        sys.stderr = Overheard(lambda line: loop.call_soon_threadsafe(repl.show_note, line, "warn"))
        self._greet(repl)
        loop.call_later(SOON, _prepare, repl.session)
        try:
            status = await self._until_left(repl)
        finally:
            sys.stderr = sys.__stderr__
            process.take_signals()
            words = self._last_words(repl.session)
            await repl.session.aclose()
            if words:
                tell(words)
        return 128 + self._signal if self._signal else status

    async def _until_left(self, repl: Repl) -> int:
        """Run the REPL; the status with which it ends, were there no signal."""
        try:
            await repl.run()
        except (OSError, EOFError) as error:
            if not isinstance(error, EOFError) and _there(0) and _there(1):
                tell(internal(error).line)
                return 1
            return 128 + signal.SIGHUP
        except Exception as bug:  # the last seam: the command that resumes stands below whatever went wrong
            if self._shared.verbose:
                sys.excepthook(type(bug), bug, bug.__traceback__)
            tell(internal(bug).line)
            return 1
        return 0

    def _greet(self, repl: Repl) -> None:
        session = repl.session
        if not self._shared.quiet:
            where = str(self._options.cwd).replace(str(Path.home()), "~", 1)
            repl.show_note(f"nexus {__version__}  {session.model}  {where}\n/help lists the commands, Ctrl+D leaves")
        for notice in session.take_notices():
            repl.show_note(f"nexus: {notice}", "warn")
        if self._options.resume or self._options.newest:
            repl.show("last", last.value(session))

    def _last_words(self, session: Session) -> str:
        """The command that comes back to the session, "" when nothing happened in it."""
        if session.ledger is None or not session.saved:
            return ""
        try:
            begun = session.ledger.session(session.id).entries > 0
        except NexusError:
            return ""
        return resume_line(session, "nexus", self._shared.directory) if begun else ""

    def _take(self) -> None:
        """From now on SIGTERM and SIGHUP end the REPL after what runs has settled, SIGINT stops what runs."""
        for number in NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._arrived)

    def _end_blocked(self, error: NexusError) -> NoReturn:
        """End the process from the watchdog's thread, with the terminal as it was and the command that resumes."""
        if self._terminal is not None:
            with suppress(termios.error, OSError):  # the window may be closed
                termios.tcsetattr(0, termios.TCSANOW, self._terminal)
                os.write(1, b"" if self._dumb else AS_BEFORE)
        assert self._repl is not None, "something runs, so it is there"
        session = self._repl.session
        resume = resume_line(session, "nexus", self._shared.directory) if session.ledger is not None else ""
        end_blocked(error, resume)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        assert self._loop is not None and self._repl is not None, "signals are taken when both are there"
        if self._watchdog is not None:
            self._watchdog.arrived(number)
        if number == signal.SIGINT:
            self._loop.call_soon_threadsafe(self._interrupted)
            return
        if self._signal:
            kill_all()
            process.leave(128 + self._signal)
        self._signal = number
        self._loop.call_soon_threadsafe(self._repl.request_exit)


    def _interrupted(self) -> None:
        """Ctrl+C where it is a signal: single lines, or another process that sends it."""
        assert self._repl is not None, "signals are taken when it is there"
        self._repl.view.interrupt()


def _there(descriptor: int) -> bool:
    """Whether the terminal still answers."""
    try:
        return bool(termios.tcgetattr(descriptor))
    except (termios.error, OSError):
        return False


def _prepare(session: Session) -> None:
    """Load what the first request needs while the person types; what fails there is told by the request."""

    def load() -> None:
        try:
            session.prepare()
        except ImportError:
            pass

    threading.Thread(target=load, name="prepare", daemon=True).start()
