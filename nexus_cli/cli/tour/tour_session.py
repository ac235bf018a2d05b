"""One session of the tour on one screen: opened, prompted, printed; in a terminal the person sets the pace.

Lays out the texts and asks the questions. `chapters` has the turns and the checks of their results.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import Template
from typing import Any, TypeVar

from nexus_cli.cli.tour.sandbox import Sandbox, sandbox_settings
from nexus_cli.cli.tour.scripted_model import MODEL, ScriptedModel, load_script
from nexus_cli.config.paths import defaults_dir
from nexus_cli.core.approval import Allow, Answer, Approver, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Event, TurnEnd
from nexus_cli.core.limits import ASK
from nexus_cli.reports.forms import draw_report
from nexus_cli.reports.text.lines import filled
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover, describe_calls
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.print.terminal_questions import TerminalQuestions
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import choose_theme

Texts = Mapping[str, Mapping[str, str]]
E = TypeVar("E")

MAX_COLUMNS = 88
WORD_SECONDS = 0.012
"""Seconds between two words of the model where a person reads along."""


class LeftTour(Exception):
    """The person chose to leave."""


class TourSession:
    """The screen of a tour, and its session while one is open."""

    def __init__(self, stream: Stream, texts: Texts, *, theme: str, asks: bool) -> None:
        """Initialize; `theme` is the setting. With `asks`, a person at a terminal answers and reads along."""
        self.asks = asks
        self.sandbox: Sandbox
        """Set before a session is opened."""
        self.drop = ""
        """The id of the drop of an earlier chapter."""
        self._stream = stream
        self._texts = texts
        self._theme = choose_theme(theme, os.environ, stream.colour)
        self._renderer = self._new_renderer()
        self._chapters = 0
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        assert self._session is not None, "a chapter opens one first"
        return self._session

    @property
    def width(self) -> int:
        return self._stream.width

    # The session

    def open(self) -> None:
        """Open a new session."""
        options = Options(
            cwd=self.sandbox.project,
            model=MODEL,
            recipe="chat",
            allow=ASK,
            require_save=True,
            interactive=self.asks,
        )
        approver: Approver = self
        if self.asks:
            approver = PersonApprover(self, describe_calls(self, self._theme), stops=False)
        script = load_script(defaults_dir() / "tour" / "script.toml")
        provider = ScriptedModel(script, pace=WORD_SECONDS if self.asks else 0.0)
        self._session = open_session(options, sandbox_settings(), approver=approver, provider=provider)

    async def aclose(self) -> None:
        """Close the session, if one is open."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()

    async def run_turn(self, words: str, **values: str) -> list[Event]:
        """Run and print one turn; return its events. Raises `NexusError` if it failed."""
        words = Template(words).safe_substitute(values)
        await self.send(words)
        happened = []
        async for event in self.session.run(Trigger(words)):
            self._renderer.feed(event)
            happened.append(event)
        if select(happened, CompactionDone):
            accepted_compaction(happened)  # raises if it was rejected, the cause of what follows
        end = happened[-1]
        if isinstance(end, TurnEnd) and end.outcome.error:
            raise tour_error(end.outcome.error["message"], end.outcome.error["hint"])
        return happened

    async def ask(self, question: Question) -> Answer:
        """Allow everything, and print that nobody is asked. Implements `Approver`."""
        self._renderer.show_note(f"Allow {question.what}? allowed, nobody is asked here")
        return Allow()

    # The screen

    def begin_chapter(self, chapter: str, key: str = "text", *, numbered: bool = True, **values: object) -> None:
        """Print the number and title of a chapter and its introduction."""
        self._chapters += numbered
        rule = self._theme.signs.rule * min(self.width, MAX_COLUMNS)
        number = f"{self._chapters}. " if numbered else ""
        title = self._wrap_line(f"{number}{self._texts[chapter]['title']}")
        self.put(f"\n{self._theme.paint('dim', rule)}\n{self._theme.paint('bold', title)}")
        self.say(chapter, key, **values)

    def say(self, chapter: str, key: str, **values: object) -> None:
        """Print a text of the tour in paragraphs, with each `$name` substituted."""
        shown = {name: sanitize(str(value)) for name, value in values.items()}
        for paragraph in Template(self._texts[chapter][key]).safe_substitute(shown).strip().split("\n\n"):
            self.put("\n" + "\n".join(map(self._wrap_line, paragraph.splitlines())))

    def words(self, chapter: str) -> str:
        """Return the person's message in a chapter."""
        return self._texts[chapter]["words"]

    async def send(self, words: str) -> None:
        """Print the person's message; in a terminal, first show it at the prompt until Enter.

        Raises `LeftTour` if the person leaves.
        """
        if self.asks:
            await self._show_prompt(words)
        self.put("")
        self._renderer = self._new_renderer()
        self._renderer.show_user_message(words)

    async def _show_prompt(self, words: str) -> None:
        """Show the message and the status line as a session does, until Enter. Raises `LeftTour`."""
        rows = filled(words, self.width - 1, "  ", "> ")
        rows.append(status_line(self.session.status(), self.width, self._theme))
        self.put("\n" + "\n".join(rows))
        await self._wait_for_enter("Enter to send, q to leave:")
        if self._stream.colour:
            self._stream.write(f"\x1b[{len(rows) + 2}A\x1b[J")

    def quote(self, text: str) -> None:
        """Print text of the session, indented."""
        for line in sanitize(text).splitlines():
            self.put("\n".join(filled(line, min(self.width, MAX_COLUMNS), "  ")))

    def report(self, form: str, value: Mapping[str, Any]) -> None:
        """Print a report in its text form."""
        self.put("\n" + draw_report(form, value, self.width, self._theme.look))

    def put(self, text: str) -> None:
        """Print finished lines."""
        self._stream.write(text + "\n")

    async def question(self, asked: AskedQuestion) -> str | None:
        """See `AnswerSource`. Enter alone continues everywhere in the tour: here it means yes."""
        questions = TerminalQuestions(self._stream, stop=lambda: signal.raise_signal(signal.SIGINT))
        line = await questions.question(replace(asked, default="y"))
        return line or "y" if line is not None else None

    async def wait(self) -> None:
        """Wait for Enter in a terminal. Raises `LeftTour` if the person leaves."""
        if self.asks:
            self.put("")
            await self._wait_for_enter("Enter to continue, q to leave:")

    async def _wait_for_enter(self, prompt: str) -> None:
        line = await TerminalQuestions(self._stream).question(AskedQuestion(prompt, words=""))
        if line is None or line.strip().lower() in ("q", "quit", "exit"):
            raise LeftTour

    def _new_renderer(self) -> RichRenderer:
        return RichRenderer(self._stream.write, lambda: self._stream.width, self._theme, asks=self.asks)

    def _wrap_line(self, line: str) -> str:
        indent = line[: len(line) - len(line.lstrip())]
        return "\n".join(filled(line, min(self.width, MAX_COLUMNS), indent))


def select(happened: Sequence[Event], kind: type[E], fits: Callable[[E], bool] = lambda one: True) -> list[E]:
    """Return the events of type `kind` that satisfy `fits`, in order."""
    return [one for one in happened if isinstance(one, kind) and fits(one)]


def accepted_compaction(happened: Sequence[Event]) -> CompactionDone:
    """Return the last compaction; raise `NexusError` with the reason if there is none or it was rejected."""
    ends = select(happened, CompactionDone)
    if not ends or not ends[-1].ok:
        raise tour_error(f"the window was not compacted{f': {ends[-1].why}' if ends else ''}")
    return ends[-1]


def tour_error(why: str, hint: str = "This is a bug in nexus: `nexus doctor` shows what works here") -> NexusError:
    """Return the error of a chapter whose claim does not hold."""
    return NexusError("internal", "the tour has stopped", why, hint)
