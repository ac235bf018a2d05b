"""What is printed and what a person answers to it: chapters, events, lines from the terminal.

In a terminal it goes on when the person says so, elsewhere straight through. What happens is told by the chapters.
"""

from __future__ import annotations

import os
import termios
from string import Template

from nexus_cli.core.approval import Allow, Answer, Approver, Question
from nexus_cli.core.event import Event
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.print.terminal_line import read_terminal_line
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl.repl_approver import ReplApprover
from nexus_cli.ui.reports.lines import filled
from nexus_cli.ui.terminal_sanitizer import sanitize

MOST_COLUMNS = 88
"""Our own words are no wider."""
PACE = 0.012
"""Seconds between two words of the model, where somebody watches."""
GO_ON = "Enter goes on, q leaves: "


class Left(Exception):
    """The person has seen enough."""


class Show:
    """The screen of one walk."""

    def __init__(self, stream: Stream, *, asks: bool, slow: bool) -> None:
        """With `asks` a person sits at a terminal and answers. `slow` is for reading along."""
        self.asks = asks
        self.pace = PACE if slow else 0.0
        """Seconds between two words of the model."""
        self._stream = stream
        self._theme = choose_theme("auto", os.environ, stream.colour)
        self._renderer = self._new_renderer()
        self._chapters = 0

    @property
    def width(self) -> int:
        """Columns."""
        return self._stream.width

    @property
    def approver(self) -> Approver:
        """Who is asked for permission."""
        return ReplApprover(self, self._theme) if self.asks else _Yes(self)

    def chapter(self, title: str, text: str, **values: object) -> None:
        """Begin a chapter: its number, its title, a few lines about what comes."""
        self._chapters += 1
        line = f"{self._chapters}. {title}"
        rule = self._theme.signs.rule * min(self.width, MOST_COLUMNS)
        self.put(f"\n{self._theme.paint('dim', rule)}")
        self.put(self._theme.paint("bold", self._wrapped(line)))
        self.say(text, **values)

    def say(self, text: str, **values: object) -> None:
        """Our own words, in paragraphs; `$name` in them is filled in."""
        said = Template(text).safe_substitute({name: sanitize(str(value)) for name, value in values.items()})
        for paragraph in said.strip().split("\n\n"):
            self.put("\n" + "\n".join(map(self._wrapped, paragraph.splitlines())))

    def begin(self, words: str) -> None:
        """A turn begins, with the person's words; "" goes on with what is open."""
        self.put("")
        self._renderer = self._new_renderer()
        if words:
            self._renderer.show_user_message(words)

    def told(self, text: str) -> None:
        """A note of our own within a turn."""
        self._renderer.show_note(text)

    def quote(self, text: str) -> None:
        """Text from the session, set off from ours."""
        for line in sanitize(text).splitlines():
            self.put("\n".join(filled(line, min(self.width, MOST_COLUMNS), "  ")))

    def report(self, text: str) -> None:
        """A report in its text form."""
        self.put("\n" + sanitize(text))

    def feed(self, event: Event) -> None:
        """One event of a session."""
        self._renderer.feed(event)

    def put(self, text: str) -> None:
        """Finished lines."""
        self._stream.write(text + "\n")

    async def question(self, text: str, prompt: str) -> str | None:
        """Show `text` and read one line behind `prompt`; None at the end of input. Follows `Face.question`."""
        if text:
            self.put(text)
        # What stands in the terminal's queue was typed before the question could be read.
        termios.tcflush(0, termios.TCIFLUSH)
        return await self._answer("\n".join(filled(prompt, self.width - 1)) + " ")

    async def on(self) -> None:
        """Wait until the person wants to go on; `Left` when not."""
        if not self.asks:
            return
        self.put("")
        line = await self._answer(self._theme.paint("dim", GO_ON))
        if line is None or line.strip().lower() in ("q", "quit", "exit"):
            raise Left

    async def _answer(self, prompt: str) -> str | None:
        self._stream.write(prompt)
        line = await read_terminal_line()
        if not line.endswith("\n"):
            self.put("")
        return line or None

    def _new_renderer(self) -> RichRenderer:
        return RichRenderer(self._stream.write, lambda: self._stream.width, self._theme, asks=self.asks)

    def _wrapped(self, line: str) -> str:
        indent = line[: len(line) - len(line.lstrip())]
        return "\n".join(filled(line, min(self.width, MOST_COLUMNS), indent))


class _Yes:
    """Allows everything in the person's name, and says so."""

    def __init__(self, show: Show) -> None:
        self._show = show

    async def ask(self, question: Question) -> Answer:
        """Yes."""
        self._show.told(f"Allow {question.what}? allowed, nobody is asked here")
        return Allow()
