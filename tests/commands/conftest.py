"""A command context over a real session: engine, tools and ledger in this test's home, a model that is a function.

What a command shows is drawn with its text form at once, so that a value that its form cannot take is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played

from nexus_cli.commands import discover, find
from nexus_cli.commands.command import Choice, Command, Search
from nexus_cli.commands.forms import find_form
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Event, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.usage import Usage
from nexus_cli.reports.export import save_in
from nexus_cli.service_list import PLANS, WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.ui.render.drawn_report import folder_diff_lines
from nexus_cli.ui.render.theme import Theme

SERVICES = (WORKERS, PLANS)
SETTINGS = Settings(models={MODEL: {"window": 16_000}}, alias={"fast": "openai/quick"})


class FakeContext:
    """Implements `CommandContext`, and remembers what was asked of it."""

    can_choose = True

    def __init__(
        self, folder: Path, provider: Played, model: str = MODEL, settings: Settings = SETTINGS, **options: Any
    ) -> None:
        self.provider = provider
        self._options = Options(
            folder, model, recipe="chat", limits=Limits(max_steps=9), **{"front": "chat", **options}
        )
        self.settings = settings
        self.session = open_session(self._options, self.settings, approver=None, provider=provider, services=SERVICES)
        self.said: list[str] = []
        self.shown: list[tuple[str, Mapping[str, Any]]] = []
        self.fed: list[Event] = []
        self.offered: list[Choice] = []
        self.search: Search | None = None
        self.reported: Mapping[str, Any] | None = None
        self.attached: list[tuple[str, str]] = []
        self.beside: list[asyncio.Task[None]] = []
        self.started: list[str] = []
        self.asked: list[str] = []
        self.secrets: list[str] = []
        """What is typed unseen, one line after the other."""
        self.pick: Callable[[Sequence[Choice]], str | None] = lambda choices: None
        self.typed = "written in an editor"
        self.filled = self.copied = self.last_answer = ""
        self.left = False

    @property
    def options(self) -> Options:
        """See `CommandContext`."""
        now = self._options if self.session.has_no_ledger else self.session.options
        where = replace(self._options, resume=self.session.id, newest=False)
        return replace(where, allow=now.allow, allow_from=now.allow_from)

    @property
    def commands(self) -> Mapping[str, Command]:
        """See `CommandContext`."""
        return discover()

    def say(self, text: str) -> None:
        """See `CommandContext`."""
        assert text.strip() and len(text) < 1000
        self.said.append(text)

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        """See `CommandContext`."""
        for width in (20, 80):
            [*folder_diff_lines(value, width, Theme())] if form == "diff" else find_form(form)(value, width)
        self.shown.append((form, value))

    def feed(self, event: Event) -> None:
        """See `CommandContext`."""
        self.fed.append(event)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        """See `CommandContext`."""
        assert title and choices
        self.offered, self.search = list(choices), search
        return self.pick(choices)

    async def ask_hidden(self, prompt: str) -> str | None:
        """See `CommandContext`."""
        assert prompt
        self.asked.append(prompt)
        return self.secrets.pop(0) if self.secrets else None

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        """See `CommandContext`."""
        settings = settings or self.settings
        self.session = open_session(
            options,
            settings,
            approver=None,
            provider=self.provider,
            earlier=self.session,
            services=SERVICES,
        )
        self._options, self.settings = options, settings

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """See `CommandContext`."""
        self.started.append(text)

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """See `CommandContext`."""
        assert what
        await work

    def note_act(self, line: str) -> None: ...

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """See `CommandContext`."""
        self.beside.append(asyncio.get_running_loop().create_task(work))

    def fill(self, text: str) -> None:
        """See `CommandContext`."""
        self.filled = text

    def attach(self, block: str, what: str) -> None:
        """See `CommandContext`."""
        self.attached.append((block, what))

    async def edit(self, text: str) -> str:
        """See `CommandContext`."""
        return text + self.typed

    async def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        """See `CommandContext`."""
        path = save_in(self.session.folder, name, default, pieces)
        self.say(f"Written to {path}")
        return str(path)

    async def copy(self, text: str) -> str:
        """See `CommandContext`."""
        self.copied = text
        return "copied"

    def leave(self) -> None:
        """See `CommandContext`."""
        self.left = True

    # What a test does

    def run(self, line: str) -> FakeContext:
        """Type a slash command, without its slash."""
        name, _, rest = line.partition(" ")

        async def work() -> None:
            await find(name, self.commands).invoke(self, rest.strip())

        asyncio.run(work())
        return self

    def turn(self, words: str) -> TurnEnd:
        """One turn of the session."""

        async def follow() -> list[Event]:
            return [event async for event in self.session.run(words)]

        end = asyncio.run(follow())[-1]
        assert isinstance(end, TurnEnd)
        return end


def answering(request: Any) -> str:
    """Answers with what the person said last."""
    words = next(m["content"] for m in reversed(request.messages) if m["role"] == "user")
    return f"heard: {words.splitlines()[-1][-200:]}"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeContext]:
    """A context over a new session in an empty folder, with a key that nobody asks for."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    made = FakeContext(tmp_path, Played(answering, usage=Usage(5000, 10, cost_usd=0.25)))
    yield made
    asyncio.run(made.session.aclose())
