"""The terminal of a REPL as the context of slash commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from nexus_cli.commands.command import YES_OR_NO, Choice, Command, Search
from nexus_cli.core.event import Event
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import TakeText
from nexus_cli.reports.export import save_in
from nexus_cli.ui.asked_question import AskedQuestion, ask
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.input.paste import Attachment
from nexus_cli.ui.repl.clipboard import copy_to_clipboard
from nexus_cli.ui.repl.repl import Repl


class TerminalContext:
    """The part of `CommandContext` that needs the person's terminal alone."""

    repl: Repl
    """The REPL in that terminal; set once it is made."""
    can_choose = True
    reported: JsonObject | None = None
    earlier_answer: str
    """The newest answer from before this REPL, "" for none."""

    def __init__(self, raw: TakeText) -> None:
        """`raw` writes to the terminal without sanitizing (the clipboard's escape)."""
        self._raw = raw
        self._own_commands: Mapping[str, Command] = {}
        """The commands of the person and the project."""
        self._reading: asyncio.Task[None] | None = None

    @property
    def reading_commands(self) -> asyncio.Task[None] | None:
        """The task that still reads own commands, None if they are known."""
        return self._reading if self._reading is not None and not self._reading.done() else None

    @property
    def last_answer(self) -> str:
        return self.repl.renderer.last_answer or self.earlier_answer

    def say(self, text: str) -> None:
        self.repl.show_note(text, "")

    def show(self, form: str, value: JsonObject) -> None:
        self.repl.show(form, value)

    def feed(self, event: Event) -> None:
        self.repl.feed(event)

    def note_act(self, line: str) -> None:
        """Tell nobody: the person has seen it."""

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        if not choices:
            return None
        with self.repl.jobs.wait_for_user():
            if tuple(choices) == YES_OR_NO:
                reply = await ask(self.repl.view, AskedQuestion.yes_or_no(title, escape="Esc cancel"))
                return YES_OR_NO[reply.meaning].key if reply else None
            return await self.repl.view.choose(title, choices, search)

    async def ask_hidden(self, prompt: str) -> str | None:
        with self.repl.jobs.wait_for_user():
            return await self.repl.view.question(AskedQuestion(prompt, is_hidden=True))

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self.repl.start_next(text, typed=typed)

    async def busy(self, title: str, work: Coroutine[Any, Any, Any]) -> None:
        self.repl.view.invalidate()
        await self.repl.jobs.run_busy(title, work)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self.repl.jobs.start_background(work)

    def fill(self, text: str) -> None:
        self.repl.view.fill(text)

    def attach(self, block: str, what: str) -> None:
        self.repl.input_queue.attached.append(Attachment(block, what))
        self.repl.backend.store_queue()
        self.repl.refresh_status()

    async def edit(self, text: str) -> str:
        with self.repl.jobs.wait_for_user():
            return await self.repl.view.outside(lambda: edit_text(text))

    async def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        path = await asyncio.to_thread(save_in, self.repl.backend.folder, name, default, pieces)
        self.say(f"Written to {path}")
        return str(path)

    async def copy(self, text: str) -> str:
        return await copy_to_clipboard(text, self._raw)

    def leave(self) -> None:
        self.repl.request_exit(asks=True)
