"""The session of the tour on one screen: it plays scenes; in a terminal the person sets the pace."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from string import Template

from nexus_cli.cli.tour.scripted_model import MODEL, Script, ScriptedModel
from nexus_cli.commands.context import context_summary
from nexus_cli.commands.forms import find_form
from nexus_cli.config.load_settings import own_settings
from nexus_cli.core.approval import Allow, Answer, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, TurnEnd
from nexus_cli.core.limits import ASK
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.cells import PROSE, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover, describe_calls
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.screen.terminal_questions import TerminalQuestions

INDENT = "  "
SECONDS_PER_WORD = 0.012
"""Seconds between two words of the model where a person reads along."""


class TourAborted(Exception):
    """The person chose to leave."""


class TourQuestions(TerminalQuestions):
    """Questions at which Enter alone continues: it means yes."""

    async def question(self, question: AskedQuestion) -> str | None:
        """See `AnswerSource`."""
        line = await super().question(replace(question, default="y"))
        return "y" if line == "" else line


class TourScreen:
    """The screen of a tour. With `asks`, a person at a terminal answers and reads along."""

    def __init__(self, stream: Stream, theme: str, *, asks: bool) -> None:
        self.asks = asks
        self._stream = stream
        self._theme = choose_theme(theme, stream.colour)
        self._renderer = RichRenderer(stream.write, lambda: stream.width, self._theme, asks=asks)

    async def play(self, script: Script, project: Path) -> None:
        """Play all scenes in one session, which is closed at the end. Raises `TourAborted` if the person leaves."""
        model = ScriptedModel(script["summary"], pace=SECONDS_PER_WORD if self.asks else 0.0)
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
                await self.wait("Enter to continue, q to quit:")
                self.begin_scene(scene["text"])
                await self._play_scene(session, model, scene)
        finally:
            await session.aclose()

    async def _play_scene(self, session: Session, model: ScriptedModel, scene: Script) -> None:
        self._renderer.show_user_message(scene["words"])
        await self.wait("Enter to send, q to quit:", status_line(session.status(), self._stream.width, self._theme))
        if scene["words"] == "/context":
            value = context_summary(session)
            self._stream.write(f"\n{find_form('context_summary')(value, self._stream.width, self._theme.look)}\n")
            return
        model.begin(scene)
        is_compacted = False
        async for event in session.run(Trigger(scene["words"])):
            self._renderer.feed(event)
            is_compacted = is_compacted or (isinstance(event, CompactionDone) and event.ok)
            if isinstance(event, TurnEnd) and (error := event.outcome.error):
                raise NexusError("internal", "the tour has stopped", error["message"], error["hint"])
        if (model.has_stopped and not self.asks) or ("after" in scene and not is_compacted):
            hint = "`nexus doctor` checks the setup; if it finds nothing, report a bug in nexus"
            raise NexusError("internal", "the tour has stopped", "a scene of the tour ended unexpectedly", hint)
        if is_compacted:
            self._stream.write("\n")
            self._renderer.show_note(scene["after"])
            self._show_summary(session, model.summary)

    def _show_summary(self, session: Session, summary: str) -> None:
        """Print what the window holds instead of the older messages."""
        texts = [message.content for message in session.context.messages]
        text = next(text for text in texts if summary.strip() in text).partition("\n\n")[2]
        pieces = wrap(sanitize(text), min(self._stream.width, PROSE) - len(INDENT))
        self._renderer.add_lines([f"{INDENT}{piece}".rstrip() for piece in pieces])

    async def ask(self, question: Question) -> Answer:
        """Allow everything, and print that nobody is asked. Implements `Approver`."""
        self._renderer.show_note(f"Allow {question.what}? Allowed automatically in the tour.")
        return Allow()

    def begin_scene(self, text: str, **values: object) -> None:
        """Print a rule, the title, and the text, with each `$name` substituted."""
        title, _, body = Template(text).safe_substitute(values).strip().partition("\n\n")
        rule = self._theme.signs.rule * min(self._stream.width, PROSE)
        self._stream.write(f"\n{self._theme.paint('dim', rule)}\n")
        self._renderer.show_note(title, "bold")
        self._stream.write("\n")
        self._renderer.show_note(body)

    async def wait(self, prompt: str, above: str = "") -> None:
        """Wait for Enter in a terminal. Raises `TourAborted` if the person leaves."""
        if not self.asks:
            return
        self._stream.write("\n")
        line = await TerminalQuestions(self._stream).question(AskedQuestion(prompt, text=above, words=""))
        if line is None or line.strip().lower() in ("q", "quit", "exit"):
            raise TourAborted
