"""The session of the tour on one screen: it plays scenes; in a terminal the person sets the pace."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from string import Template

from nexus_cli.cli.tour.scripted_model import MODEL, Script, ScriptedModel
from nexus_cli.config.load_settings import own_settings
from nexus_cli.conversation.compaction.summary_message import SUMMARY_PREFIX
from nexus_cli.core.approval import Allow, Answer, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, TurnEnd
from nexus_cli.core.limits import ASK
from nexus_cli.reports.context_summary import context_summary
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.cells import PROSE, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover, describe_calls
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.print.terminal_questions import TerminalQuestions
from nexus_cli.ui.render.drawn_report import draw_in_theme
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import Theme

INDENT = "  "
WORD_SECONDS = 0.012
"""Seconds between two words of the model where a person reads along."""


class LeftTour(Exception):
    """The person chose to leave."""


class TourQuestions(TerminalQuestions):
    """Questions at which Enter alone continues: it means yes."""

    async def question(self, asked: AskedQuestion) -> str | None:
        """See `AnswerSource`."""
        line = await super().question(replace(asked, default="y"))
        return "y" if line == "" else line


class TourScreen:
    """The screen of a tour. With `asks`, a person at a terminal answers and reads along."""

    def __init__(self, stream: Stream, theme: Theme, *, asks: bool) -> None:
        self.asks = asks
        self._stream = stream
        self._theme = theme
        self._renderer = self._new_renderer()

    async def play(self, script: Script, project: Path) -> None:
        """Play all scenes in one session, which is closed at the end. Raises `LeftTour` if the person leaves."""
        model = ScriptedModel(script["summary"], pace=WORD_SECONDS if self.asks else 0.0)
        questions = TourQuestions(self._stream, stop=lambda: signal.raise_signal(signal.SIGINT))
        approver = PersonApprover(questions, describe_calls(questions, self._theme), stops=False)
        session = open_session(
            Options(cwd=project, model=MODEL, recipe="chat", allow=ASK, require_save=True, interactive=self.asks),
            own_settings(),
            approver=approver if self.asks else self,
            provider=model,
        )
        try:
            for scene in script["scenes"]:
                await self.wait("Enter to continue, q to leave:")
                self.say(scene["text"])
                await self._play_scene(session, model, scene)
        finally:
            await session.aclose()

    async def _play_scene(self, session: Session, model: ScriptedModel, scene: Script) -> None:
        self._renderer = self._new_renderer()
        self._stream.write("\n")
        self._renderer.show_user_message(scene["words"])
        await self.wait("Enter to send, q to leave:", status_line(session.status(), self._stream.width, self._theme))
        if scene["words"] == "/context":
            value = context_summary(session.state)
            self._stream.write(f"\n{draw_in_theme('context_summary', value, self._stream.width, self._theme)}\n")
            return
        model.begin(scene)
        is_compacted = False
        async for event in session.run(Trigger(scene["words"])):
            self._renderer.feed(event)
            is_compacted = is_compacted or (isinstance(event, CompactionDone) and event.ok)
            if isinstance(event, TurnEnd) and (error := event.outcome.error):
                raise NexusError("internal", "the tour has stopped", error["message"], error["hint"])
        if is_compacted:
            self.say(scene["after"])
            self._show_summary(session)

    def _show_summary(self, session: Session) -> None:
        """Print the summary and the record that the window holds."""
        said = [message.content for message in session.context.messages]
        summary = next(text for text in said if text.startswith(SUMMARY_PREFIX)).partition("\n\n")[2]
        width = min(self._stream.width, PROSE) - len(INDENT)
        self._stream.write("".join(f"{INDENT}{line}\n" for line in wrap(sanitize(summary), width)))

    async def ask(self, question: Question) -> Answer:
        """Allow everything, and print that nobody is asked. Implements `Approver`."""
        self._renderer.show_note(f"Allow {question.what}? allowed, nobody is asked here")
        return Allow()

    def say(self, text: str, **values: object) -> None:
        """Print Markdown, with each `$name` substituted."""
        prose = Markdown(self._stream.width, colour=self._theme.colour, theme=self._theme)
        self._stream.write("\n" + prose.feed(Template(text).safe_substitute(values)) + prose.flush())

    async def wait(self, prompt: str, above: str = "") -> None:
        """Wait for Enter in a terminal. Raises `LeftTour` if the person leaves."""
        if not self.asks:
            return
        self._stream.write("\n")
        line = await TerminalQuestions(self._stream).question(AskedQuestion(prompt, text=above, words=""))
        if line is None or line.strip().lower() in ("q", "quit", "exit"):
            raise LeftTour

    def _new_renderer(self) -> RichRenderer:
        return RichRenderer(self._stream.write, lambda: self._stream.width, self._theme, asks=self.asks)
