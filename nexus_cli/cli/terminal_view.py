"""The terminal of a REPL or a space: a screen with an input box, or lines in a dumb terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Question
from nexus_cli.text.diff_lines import looks_like_diff
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.render.question_text import question_text
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl.clipboard import save_clipboard_image
from nexus_cli.ui.repl.personal_command import run_personal_command
from nexus_cli.ui.repl.repl import Repl
from nexus_cli.ui.repl.view import ReplView
from nexus_cli.ui.screen.screen import Screen

if TYPE_CHECKING:
    from nexus_cli.ui.repl.local_session import LocalSession
    from nexus_cli.ui.repl.remote_agent import RemoteAgent


class TerminalView:
    """The view of this terminal, with its theme and input box."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        commands: Callable[[], Mapping[str, Command]] = dict,
        desk: Callable[[], CommandContext | None] = lambda: None,
        *,
        save: bool = True,
        names: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Initialize; see `InputBox` for the arguments."""
        self.is_dumb = os.environ.get("TERM", "") in ("", "dumb")
        self.theme = choose_theme(settings.ui.theme, Stream(1).colour, screen=not self.is_dumb)
        self.box: InputBox | None = None
        self.view: ReplView
        self._repl: Repl | None = None
        self._keys: Sequence[tuple[str, str]] = ()
        self._folder, self._settings = folder, settings
        self.draft: Callable[[], str] = str
        """Returns the text in the input box."""
        if self.is_dumb:
            from nexus_cli.ui.screen.line_view import LineView  # noqa: PLC0415  (for few terminals only)

            line = self.view = LineView()
            self.draft = lambda: line.draft
            return
        box = self.box = InputBox(
            folder=folder,
            project=project_root(folder),
            commands=commands,
            desk=desk,
            history=places().data / "history",
            vi=settings.ui.keys == "vi",
            save=save,
            names=names,
        )
        self.view = Screen(box, self.theme)
        self.apply(settings)
        self.draft = lambda: box.text
        box.outside = self.view.outside

    def apply(self, settings: Settings) -> None:
        """Apply settings of the screen, also while it is open."""
        self._settings = settings
        self.theme.name = choose_theme(settings.ui.theme, colour=False).name
        if self.box is not None:
            self.box.set_keys(vi=settings.ui.keys == "vi")
        if self._repl is not None:
            self._repl.status_command = settings.ui.status_command
        if isinstance(self.view, Screen):
            self.view.notifier.enabled = settings.ui.notify
            command = settings.ui.notify_command
            self.view.notifier.run = partial(self._run_notify_command, command) if command else None
            problem = self.view.bind_keys(settings.bindings)
            if self._repl is not None:
                self._repl.keys = (*self._keys, *settings.bindings.items())
                if problem:
                    self._repl.show_note(f"nexus: {problem}", "warn")

    def _run_notify_command(self, command: str, text: str) -> None:
        """Run the person's command for the notification `text` beside the loop."""
        payload = {"hook_event_name": "Notification", "title": "nexus", "message": text, "cwd": str(self._folder)}
        if self._repl is not None:
            work = run_personal_command("ui.notify_command", command, self._folder, payload)
            self._repl.jobs.start_background(work)

    def make_approver(self) -> PersonApprover:
        """Return the approver that asks in this view."""
        return PersonApprover(self.view, self._describe)

    def _describe(self, question: Question, number: int) -> str:
        """Return the text of a question; Ctrl+O shows a change whole that is asked about alone."""
        is_single = number == 0
        if self._repl is not None and is_single and looks_like_diff(question.detail):
            self._repl.renderer.keep_output(question.what, question.detail)
        height = self.view.height if is_single and not self.is_dumb else 0
        return question_text(question, self.view.width, self.theme, number, height)

    def make_repl(self, backend: LocalSession | RemoteAgent, folder: Path | None = None) -> Repl:
        """Return the REPL of this terminal in front of `backend`; paths in `folder` become links."""
        renderer = RichRenderer(
            self.view.put, lambda: self.view.width, self.theme, drawn=not self.is_dumb, folder=folder
        )
        repl = Repl(backend, self.view, renderer, self.theme)
        backend.connect(repl)
        self.connect(repl)
        return repl

    def connect(self, repl: Repl) -> None:
        """Give `repl` the draft, and show the notices of the box in it."""
        self._repl, self._keys = repl, repl.keys
        self.apply(self._settings)
        repl.draft = self.draft
        if self.box is not None:
            self.box.clipboard_image = lambda: save_clipboard_image(places().cache / "pasted")
            repl.offer_commands = partial(self.box.offer_again, "command")
            self.box.notice = lambda text: repl.show_note(f"nexus: {text}", "warn")

    def remember(self, prompt: str) -> None:
        """Add a prompt that was given as an argument to the history."""
        if self.box is not None:
            self.box.remember(prompt)

    def close(self) -> None:
        """Close the input box."""
        if self.box is not None:
            self.box.close()
