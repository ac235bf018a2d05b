"""Runs one turn of a session in front of a person or a pipe: events to renderers, signals to the session, the end.

Knows nothing of how options were given; what the engine does is its own business.
"""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from nexus_cli.cli import process
from nexus_cli.cli.explain import Explain
from nexus_cli.cli.interrupt import Interrupt
from nexus_cli.cli.loop_watchdog import LoopWatchdog, end_blocked
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.session.exchange import KEPT
from nexus_cli.session.faults import internal
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.wiring import open_session
from nexus_cli.ui.print.jsonl_renderer import JsonLinesRenderer, JsonRenderer, failure_result
from nexus_cli.ui.print.plain_renderer import PlainRenderer
from nexus_cli.ui.print.progress_lines import ProgressLines
from nexus_cli.ui.print.renderer import Renderer
from nexus_cli.ui.print.stream import Gone, QuietStream, Stream
from nexus_cli.ui.print.terminal_approver import TerminalApprover

if TYPE_CHECKING:
    from nexus_cli.cli.ask import Run

PARTIAL = frozenset(
    ("aborted", "network", "provider", "rate_limit", "overloaded", "internal", "auth", "config", "usage")
)
"""Kinds of error after which the last text may be torn: no answer in any form, the session keeps it."""
NOT_KEPT = "Nothing was kept to go on with: ask again, or for less"
WIND_UP = 2.0
"""Seconds that what still runs in the loop at the end has to end."""


def run_turn(run: Run) -> int:
    """Run the turn and return the exit status; every error is told on stderr by then.

    With a status that is not 0 the last line on stderr is the command that resumes the session, if it is kept.
    """
    return _Turn(run).run()


class _Turn:
    def __init__(self, run: Run) -> None:
        options = run.options
        out = Stream(1)
        err = QuietStream(Stream(2))
        self._run = run
        self._remarks = ProgressLines(err, verbose=options.shared.verbose, quiet=options.shared.quiet)
        if options.stream_json:
            self._renderer: Renderer = JsonLinesRenderer(out)
        else:
            self._renderer = JsonRenderer(out) if options.json else PlainRenderer(out)
        self._interactive = os.isatty(0) and err.terminal
        self._approver = TerminalApprover(err) if self._interactive else None
        self._interrupt = Interrupt()
        self._broken: NexusError | None = None
        self._left = False
        self._explain: Explain | None = None

    def run(self) -> int:
        session = open_session(self._options(), self._run.settings, approver=self._approver)
        self._remarks.belong_to(session)
        for notice in session.notices:
            self._remarks.notice(notice)
        if self._run.options.explain and (record := session.record):
            self._explain = Explain(QuietStream(Stream(2)), record.drops)
        process.settle()
        loop = asyncio.new_event_loop()
        try:
            status = loop.run_until_complete(self._follow(session))
        except Exception as error:  # the command that resumes must stand below whatever went wrong
            if self._run.options.shared.verbose:
                sys.excepthook(type(error), error, error.__traceback__)
            self._remarks.error(internal(error).line)
            status = 1
        finally:
            wind_up(loop)
        if status and self._resume(session):
            self._remarks.last(self._resume(session))
        return status

    def _options(self) -> Options:
        options = self._run.options
        shared = options.shared
        return Options(
            cwd=self._run.folder,
            model=self._run.model,
            effort=shared.effort or self._run.settings.effort,
            recipe=shared.recipe,
            resume=shared.resume,
            newest=shared.newest,
            allow=shared.allow or None,
            no_tools=shared.no_tools,
            save=not shared.no_save,
            require_save=options.require_save,
            limits=options.limits,
            interactive=self._interactive,
        )

    async def _follow(self, session: Session) -> int:
        resume = self._resume(session)
        watchdog = LoopWatchdog(lambda: session, lambda error: self._end_blocked(session, error, resume))
        self._interrupt.take(session.cancel, resume, watchdog.arrived)
        try:
            with watchdog:
                outcome = await self._events(session)
            result = session.result(outcome)
            self._show(lambda: self._renderer.end(result), session)
        except NexusError as error:
            self._remarks.error(error.line)
            told = failure_result(error)
            self._show(lambda: self._renderer.end(told), session)
            return error.exit_status
        finally:
            self._interrupt.release()
            await session.aclose()
        if self._broken is not None:
            self._remarks.error(self._broken.line)
            return outcome.exit or self._broken.exit_status
        return outcome.exit

    async def _events(self, session: Session) -> Outcome:
        outcome: Outcome | None = None
        async for event in session.run(self._run.trigger):
            if isinstance(event, TurnEnd):
                outcome = self._outcome(event.outcome, session)
                event = TurnEnd(outcome)
            self._feed(event, session)
        if outcome is None:
            raise NexusError("internal", "the turn ended without an outcome", "this is a bug in nexus")
        return outcome

    def _end_blocked(self, session: Session, error: NexusError, resume: str) -> NoReturn:
        """End the process from the watchdog's thread, with the result object where somebody reads it."""
        if select.select([], [1], [], 0)[1]:
            with suppress(Gone, NexusError):
                self._renderer.end({**failure_result(error), "session": session.id or None, "model": session.model})
        end_blocked(error, resume)

    def _outcome(self, outcome: Outcome, session: Session) -> Outcome:
        """`outcome` with the status of what cancelled it: a signal, a full disk; a reader that left changes nothing.

        Its text is an answer, or "". Its hint can be followed.
        """
        if outcome.ok:
            return outcome
        if outcome.error and outcome.error["hint"].startswith(KEPT) and not session.saved:
            outcome = replace(outcome, error={**outcome.error, "hint": NOT_KEPT})
        if outcome.error and outcome.error["kind"] in PARTIAL:
            outcome = replace(outcome, text="")
        if self._broken is not None:
            return replace(outcome, exit=self._broken.exit_status)
        return replace(outcome, exit=self._interrupt.status) if self._interrupt.signal else outcome

    def _show(self, show: Callable[[], None], session: Session) -> None:
        """Call `show` as long as stdout takes something; when it does not, nobody can see the rest of the turn."""
        if self._left or self._broken:
            return
        try:
            show()
        except Gone:
            self._left = True
            session.cancel()
        except NexusError as error:
            self._broken = error
            session.cancel()

    def _feed(self, event: Event, session: Session) -> None:
        self._show(lambda: self._renderer.feed(event), session)
        if not ((self._left or self._broken) and isinstance(event, TurnEnd)):
            self._remarks.feed(event)
        if self._explain:
            self._explain.feed(event)

    def _resume(self, session: Session) -> str:
        return resume_line(session, "nexus ask", self._run.options.shared.directory)


def resume_line(session: Session, command: str, directory: str) -> str:
    """How `command` goes on with `session`, in the folder that was named as `directory`; "" where nothing can."""
    place = f" -C {_word(directory)}" if directory else ""
    return f"Resume with: {command}{place} -r {session.id}" if session.saved else ""


def _word(text: str) -> str:
    """`text` as one word of a shell, on one line whatever it holds."""
    if text.isprintable() and "  " not in text:
        return shlex.quote(text)
    plain = (char if char.isprintable() and char not in "\\' " else None for char in text)
    octal = ("".join(f"\\{byte:03o}" for byte in os.fsencode(char)) for char in text)
    return f"$'{''.join(as_it_is or escaped for as_it_is, escaped in zip(plain, octal, strict=True))}'"


def wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Close `loop` as `asyncio.run` does, within bounds: nothing of it is heard of afterwards."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=WIND_UP))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), WIND_UP))
    except TimeoutError:
        pass
    finally:
        loop.close()
