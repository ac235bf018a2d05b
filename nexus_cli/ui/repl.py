"""The REPL: what a line becomes, what runs now, what waits for its turn. How it looks is the business of the face.

One piece of work runs at a time: a turn, a command, a shell line. While a turn runs, words steer it; what is queued
comes afterwards. Nothing typed is lost: what was not delivered when a turn is stopped waits to be sent or taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nexus_cli.commands import discover, find, parse
from nexus_cli.commands.command import Command, Desk
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status
from nexus_cli.tools.process import kill_all
from nexus_cli.ui.branch import branch
from nexus_cli.ui.diff import painted
from nexus_cli.ui.door import through
from nexus_cli.ui.face import Face, Typed
from nexus_cli.ui.first_look import FirstLook
from nexus_cli.ui.last_exchange import last_exchange
from nexus_cli.ui.pager import page
from nexus_cli.ui.reports import FORMS
from nexus_cli.ui.rich_renderer import RichRenderer
from nexus_cli.ui.shell_line import Shell, ShellLine
from nexus_cli.ui.status_line import status_line
from nexus_cli.ui.theme import Theme
from nexus_cli.ui.waiting import Message, Waiting, brief
from nexus_cli.ui.worker import Work, Worker

SOON = 0.5
"""Seconds after which what runs is worth a line."""


class Repl:
    """One interactive session after another. Implements `Hands`; commands reach it through its desk."""

    def __init__(self, session: Session, face: Face, renderer: RichRenderer, theme: Theme) -> None:
        self.session = session
        self.face = face
        self.renderer = renderer
        self.theme = theme
        self.desk: Desk | None = None
        """The `Desk` of the commands; set once by who puts the REPL together."""
        self.draft: Callable[[], str] = str
        """What stands in the input box."""
        self.waiting = Waiting()
        """What comes after the running turn, and with the next message."""
        self.shell = Shell(face, renderer.keep_output, self.waiting.attached.append)
        self.outcome: e.Outcome | None = None
        """How the newest turn ended."""
        self.worker = Worker(lambda text, role: self.note(text, role), self._ended, self._cancelled)
        self.goes_along()
        self._first = FirstLook(self.worker.beside, self.refresh)
        self._steering = asyncio.Lock()
        self._next: str | None = None
        self._status: Status | None = None
        self._branch = ""
        self._leaving = False
        self._begun = False
        """The words of the newest turn are in the session."""

    def goes_along(self) -> None:
        """Let the session count what the next message takes along."""
        self.session.goes_along(lambda: [one.text for one in self.waiting.attached])

    @property
    def commands(self) -> Mapping[str, Command]:
        """The slash commands."""
        return discover()

    @property
    def folder(self) -> Path:
        """The working folder of the session."""
        return self.session.folder

    # What the face shows

    @property
    def running(self) -> bool:
        """Something runs that Ctrl+C stops."""
        return self.worker.now is not None

    @property
    def moving(self) -> bool:
        """The spinner moves."""
        return self.renderer.moving or (self.worker.kind in ("busy", "shell", "command") and not self.worker.waits)

    def live(self, rows: int) -> list[str]:
        """See `Hands`."""
        output = self.shell.output
        if not output:
            return self.renderer.live(rows)
        width = max(4, self.face.width - 1)
        return [self.theme.paint("dim", line[:width]) for line in through(output).splitlines()[-rows:]]

    def spinner(self) -> str:
        """See `Hands`."""
        text, work = self.renderer.spinner(), self.worker.now
        if not text and work is not None and work.kind != "turn" and work.seconds > SOON and not self.worker.waits:
            text = f"{self.theme.signs.running} {brief(work.what)}  {work.seconds:.0f} s"
        return f"{text}  stopping" if text and work is not None and work.stopped else text

    def queued(self) -> list[str]:
        """See `Hands`."""
        return self.waiting.lines(self.session.waiting)

    def status(self, width: int) -> str:
        """See `Hands`."""
        if self._status is None:
            self.refresh()
        assert self._status is not None
        return status_line(self._status, self._branch, width, self.theme, str(Path.home()))

    def refresh(self) -> None:
        """Look at the session again for the status line."""
        self._status = self._first.of(self.session)
        self._branch = branch(self.folder)
        self.face.changed()

    # What the person does

    def entered(self, typed: Typed) -> None:
        """A line: a command, a shell line, or words for the model."""
        command = parse(typed.text)
        shell = ShellLine.of(typed.text)
        if command is not None:
            self._command(*command, typed)
        elif self.worker.now is not None and (shell or self.worker.kind != "turn"):
            self.waiting.later.append(typed)
        elif shell:
            self.worker.begin("shell", f"! {shell.command}", self._shell(shell))
        elif self.worker.now is not None:
            self.worker.beside(self._steer(typed))
        else:
            self.worker.begin("turn", "", self._say(typed))
        self.face.changed()

    def queue(self, typed: Typed) -> None:
        """For afterwards; at once when nothing runs."""
        if self.worker.now is None:
            self.entered(typed)
            return
        self.waiting.later.append(typed)
        self.face.changed()

    def take_back(self) -> str:
        """The newest of what waits: for afterwards, or for the running turn."""
        text = ""
        if self.waiting.later:
            text = self.waiting.newest()
        elif waiting := self.session.take_back():
            for words in waiting[:-1]:
                self.session.steer(words)
            text = self.waiting.back(waiting[-1])
        elif self.waiting.attached:
            self.note(f"taken back: {self.waiting.attached.pop().what}")
        self.refresh()
        return text

    def interrupt(self) -> None:
        """Stop what runs: first gently, then with every child process, then nexus itself."""
        work = self.worker.now
        if work is None:
            return
        work.stopped += 1
        if work.stopped == 1:
            # The turn would else take them with it: kept, but without an answer.
            self.waiting.hold_back(self.session.take_back())
            self.worker.stop()
        elif work.stopped == 2:
            kill_all()
            self.note("still stopping; Ctrl+C once more ends nexus")
        else:
            kill_all()
            self.face.leave()
        self.face.changed()

    def left(self) -> None:
        """Leave, after what runs has settled."""
        if self._leaving:
            return
        self._leaving = True
        for words in self.waiting.taken(self.session.take_back()):
            self.note(f"not sent: {brief(words)}", "warn")
        if self.worker.now is not None:
            self.worker.stop()
        else:
            self.face.leave()

    def thinking(self) -> None:
        """Show or hide thinking."""
        self.renderer.toggle_thinking()
        self.face.changed()

    def output(self) -> None:
        """Show the last tool output whole."""
        last = self.renderer.last_output
        if last is None:
            self.note("no tool has run yet")
            return
        title, text = last
        self.worker.beside(page(self.face, f"{title}\n{text}"))

    # What it becomes

    def then(self, text: str) -> None:
        """Begin a turn when the present work has ended; "" goes on with what is open."""
        self._next = text

    def note(self, text: str, role: str = "dim") -> None:
        """Tell the person something."""
        self.renderer.told(text, role)

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        """Show a report."""
        if form == "last":
            text = last_exchange(value, self.face.width, self.theme)
        else:
            text = through(FORMS[form](value, self.face.width)).rstrip("\n")
        self.face.put(f"\n{painted(text, self.theme) if form == 'diff' else text}\n")

    def _echo(self, text: str) -> None:
        """Put what was typed, where it does not stand already."""
        if not self.face.echoes:
            self.renderer.said(text)

    def _cancelled(self) -> bool:
        """Stop what the session does; False when it does nothing."""
        if not self.session.busy:
            return False
        self.session.cancel()
        return True

    def _ended(self, work: Work) -> None:
        """`work` is over: what comes next. After one that was stopped or failed, what waits goes on waiting."""
        self.refresh()
        for notice in self.session.take_notices():
            self.note(f"nexus: {notice}", "warn")
        failed = work.kind == "turn" and self.outcome is not None and not self.outcome.ok
        if self._leaving:
            self.face.leave()
        elif work.stopped or failed:
            self._next = None
            self.waiting.hold_back(self.session.take_back())
            if self.waiting.later:
                self.note("what is queued waits for your next message; Esc on an empty box takes it back")
        elif self._next is not None:
            words, self._next = self._next, None
            self.worker.begin("turn", "", self._say(Typed(words, words)) if words else self.follow(Trigger()))
        elif self.session.waiting:  # they came when the turn had already looked for the last time
            self.worker.begin("turn", "", self.follow(Trigger()))
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Begin with what waits."""
        while self.waiting.later and self.worker.now is None and not self._leaving:
            later = self.waiting.later.popleft()
            if isinstance(later, Typed):
                self.entered(later)
            else:
                self.worker.begin("turn", "", self._say(later.typed, later))

    def _command(self, name: str, rest: str, typed: Typed) -> None:
        try:
            command = find(name, self.commands)
        except NexusError as error:
            self._echo(typed.shown)
            self.note(error.line, "error")
            return
        if self.worker.now is not None and command.idle:
            self.waiting.later.append(typed)
        else:
            self._echo(typed.shown)
            work = self._run(command, rest)
            if self.worker.now is None:
                self.worker.begin("command", f"/{name}", work)
            else:
                self.worker.beside(work)

    async def _run(self, command: Command, rest: str) -> None:
        assert self.desk is not None, "commands come when the REPL is put together"
        await command.run(self.desk, rest)

    async def _steer(self, typed: Typed) -> None:
        """Give words to the running turn; images, and words that come too late for it, begin one of their own."""
        async with self._steering:
            message = await self._message(typed)
            if self.worker.now is None:
                self.worker.begin("turn", "", self._say(typed, message))
            elif message.trigger.parts or self.worker.kind != "turn":
                self.waiting.later.append(message)
            else:
                self.waiting.given[message.trigger.text] = message
                self.session.steer(message.trigger.text)
        self.face.changed()

    async def _say(self, typed: Typed, message: Message | None = None) -> None:
        self._echo(typed.shown)
        self._begun = False
        try:
            message = message or await self._message(typed)
            await self.follow(message.trigger)
        finally:
            if not self._begun:  # nothing of it is in the session
                self.waiting.attached[:0] = message.along if message else ()
                self.face.fill("\n".join(filter(None, [typed.text, self.draft()])))

    async def _message(self, typed: Typed) -> Message:
        return await self.waiting.message(typed, self.folder, self.note)

    async def follow(self, trigger: Trigger) -> None:
        """One turn of the session."""
        async for event in self.session.run(trigger):
            self.feed(event)

    def feed(self, event: e.Event) -> None:
        """Show what the engine tells."""
        if isinstance(event, e.TurnEnd):
            self.outcome = event.outcome
        elif isinstance(event, e.TurnStart):
            self._begun = True
        elif isinstance(event, e.Steered):
            shown = self.waiting.shown(event.text)
            self.waiting.given.pop(event.text, None)
            event = e.Steered(shown)
        self.renderer.feed(event)
        if isinstance(event, e.ContextPlan | e.StepEnd | e.Dropped | e.Recalled | e.CompactionDone):
            self._status = None
        self.face.changed()

    async def _shell(self, line: ShellLine) -> None:
        if not line.command:
            raise NexusError("usage", "!", "there is no command behind it", "!ls shares its output, !!ls does not")
        self._echo(("!!" if line.private else "!") + line.command)
        await self.shell.run(line, self.folder, self.session)

    # The whole of it

    async def run(self) -> None:
        """Until the person leaves, or the terminal is gone (`OSError`, `EOFError`); what runs has settled then."""
        try:
            await self.face.run(self)
        finally:
            self._leaving = True
            await self.worker.settle()
