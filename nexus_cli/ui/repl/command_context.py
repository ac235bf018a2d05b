"""The REPL as the `CommandContext` of slash commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.commands.command import Choice, Command, Search
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Event
from nexus_cli.core.limits import name_level
from nexus_cli.reports.sessions import short_id
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.repl.clipboard import copy_to_clipboard
from nexus_cli.ui.repl.input_queue import Attachment
from nexus_cli.ui.repl.local_session import LocalSession
from nexus_cli.ui.repl.repl import Repl

Reopen = Callable[[Options, Settings, Session], Session]
"""Opens the session that follows another one; raises `NexusError` if it cannot."""


class TerminalContext:
    """The part of `CommandContext` that needs the person's terminal alone."""

    def __init__(self, repl: Repl, environ: Mapping[str, str], raw: Callable[[str], None]) -> None:
        """`raw` writes to the terminal without sanitizing (the clipboard's escape)."""
        self._repl = repl
        self._environ = environ
        self._raw = raw

    @property
    def commands(self) -> Mapping[str, Command]:
        return self._repl.backend.commands

    @property
    def last_answer(self) -> str:
        return self._repl.renderer.last_answer or self._repl.backend.last_answer

    def say(self, text: str) -> None:
        self._repl.show_note(text, "")

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        self._repl.show(form, value)

    def feed(self, event: Event) -> None:
        self._repl.feed(event)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        if not choices:
            return None
        with self._repl.jobs.wait_for_user():
            return await self._repl.view.choose(title, choices, search)

    async def ask_hidden(self, prompt: str) -> str | None:
        with self._repl.jobs.wait_for_user():
            return await self._repl.view.question(AskedQuestion(prompt, is_hidden=True))

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self._repl.start_next(text, typed=typed)

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        self._repl.view.invalidate()
        await self._repl.jobs.run_busy(what, work)

    def work_beside(self, work: Coroutine[Any, Any, None]) -> None:
        self._repl.jobs.start_background(work)

    def fill(self, text: str) -> None:
        self._repl.view.fill(text)

    def attach(self, block: str, what: str) -> None:
        self._repl.input_queue.attached.append(Attachment(block, what))
        self._repl.refresh_status()

    async def edit(self, text: str) -> str:
        with self._repl.jobs.wait_for_user():
            return await self._repl.view.outside(lambda: edit_text(text, self._environ))

    async def copy(self, text: str) -> str:
        return await copy_to_clipboard(text, self._environ, self._raw)

    def leave(self) -> None:
        self._repl.request_exit(asks=True)


class ReplCommandContext(TerminalContext):
    """Implements `CommandContext` for a REPL in front of a session of this process."""

    def __init__(
        self,
        repl: Repl,
        backend: LocalSession,
        options: Options,
        settings: Settings,
        environ: Mapping[str, str],
        reopen: Reopen,
        raw: Callable[[str], None],
    ) -> None:
        """`raw` as in `TerminalContext`."""
        super().__init__(repl, environ, raw)
        self._backend = backend
        self._options = self._begun = options
        self._settings = settings
        self._reopen = reopen
        self.leaves_unchosen = False
        """Leave if the person picks nothing from the next list: the program was started to pick from it."""

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        chosen = await super().choose(title, choices, search)
        if self.leaves_unchosen and chosen is None and choices:
            self.leave()
        self.leaves_unchosen = False
        return chosen

    @property
    def session(self) -> Session:
        return self._backend.session

    @property
    def options(self) -> Options:
        now = self.session.state.options or self._options
        where = replace(self._options, resume=self.session.id, newest=False)
        return replace(where, allow=now.allow, allow_from=now.allow_from)

    @property
    def settings(self) -> Settings:
        return self._settings

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self._backend.after_turn = after
        super().start(text, typed=typed)

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        settings = settings or self._settings
        before = self._backend.session
        copied = _is_copy(options.resume, before)
        if options.resume not in ("", before.id) and not copied:  # the level was not set for another session
            options = replace(options, allow=self._begun.allow, allow_from=self._begun.allow_from)
        stored = self._backend.store_attachments()
        if options.resume != before.id and (hooks := before.state.dispatcher.hooks):
            await hooks.end("resume" if options.resume and not copied else "clear")
        made = self._reopen(options, settings, before)
        self._options, self._settings = options, settings
        self._backend.session = made
        if made.id != before.id:
            self._left_behind(stored)
        self._backend.share_attachments()
        for notice in made.take_notices():
            self._repl.show_note(f"nexus: {notice}", "warn")
        state = made.status()
        if made.id != before.id:
            self._repl.renderer.forget()
            if options.resume and not copied:
                self._backend.show_conversation()
            elif not copied:  # the command that copied prints its own line
                level = name_level(state.allow)
                named = short_id(made.ledger, made.id)
                self._repl.show_note(f"session {named}, model {state.model}, permission level {level}", "")
        self._repl.refresh_status()

    def _left_behind(self, stored: bool) -> None:
        """Drop the attachments for the former session's next message."""
        what = "kept for when you resume the previous session" if stored else "not sent to the new session"
        for one in self._repl.input_queue.attached:
            self._repl.show_note(f"{what}: {one.what}", "" if stored else "warn")
        self._repl.input_queue.attached.clear()


def _is_copy(session_id: str, before: Session) -> bool:
    """True if the session with this id was forked from `before`."""
    return bool(session_id) and before.ledger is not None and before.ledger.session(session_id).parent == before.id
