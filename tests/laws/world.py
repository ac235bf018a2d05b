"""One person's machine in small: a folder, a ledger of its own, a scripted model behind a socket, a clock.

Owns what it takes to open a `Session` again and again over the same ledger. What the model says is `laws.model`, what a
random person does is `laws.play`, what must hold afterwards is `laws.check`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from ledger.conftest import on
from server.meter import Meter
from server.play import ScriptedServer

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import CompactSettings, ProviderSettings, Settings, TruncationSettings
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Entry
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.ledger import Ledger
from nexus_cli.provider import retry
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session

MODELS = {"chat": "openai/law", "anthropic": "anthropic/claude-sonnet-4-5", "gemini": "gemini/gemini-2.5-flash"}
"""Wire form to the model that is asked in it."""
ZONE = timezone(timedelta(hours=1))
MORNING = datetime(2026, 1, 13, 9, 30, tzinfo=ZONE)

exact = lru_cache(4096)(TiktokenCounter("o200k_base").count)
"""Tokens by the table that we count with ourselves; a request repeats the texts of the one before."""

Act = Callable[[Event, int], None]
"""What a person does when event number n is shown."""


@dataclass
class Ticking:
    """A clock that goes on by 20 ms whenever it is looked at, so that times tell the order of things."""

    moment: datetime = MORNING

    def __call__(self) -> datetime:
        self.moment += timedelta(milliseconds=20)
        return self.moment

    def to_midnight(self) -> None:
        """A few moments before the next day begins."""
        self.moment = (self.moment + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        self.moment -= timedelta(milliseconds=50)


@dataclass
class World:
    """Everything around a session."""

    server: ScriptedServer
    folder: Path
    form: str = "chat"
    window: int = 16_000
    steps: int = 8
    clock: Ticking = field(default_factory=Ticking)
    compact: CompactSettings = field(default_factory=CompactSettings)
    truncation: TruncationSettings = field(default_factory=TruncationSettings)
    provider: ProviderSettings = field(default_factory=ProviderSettings)
    limits: Limits = field(default_factory=Limits)

    @property
    def model(self) -> str:
        """The model's name."""
        return MODELS[self.form]

    @property
    def settings(self) -> Settings:
        """What the person's configuration says."""
        return Settings(
            models={self.model: {"window": self.window}},
            compact=self.compact,
            truncation=self.truncation,
            provider=self.provider,
        )

    def open(self, session: str = "", *, services: ServiceMakers = (), **options: Any) -> Session:
        """A new session, or the one of this id."""
        limits = replace(self.limits, max_steps=self.limits.max_steps or self.steps)
        asked = Options(self.folder, self.model, resume=session, allow="all", limits=limits)
        asked = replace(asked, **options)
        return open_session(asked, self.settings, approver=None, clock=self.clock, services=services)

    def environment(self) -> dict[str, str]:
        """The variables that lead litellm to the server."""
        return {
            "OPENAI_API_KEY": "x",
            "OPENAI_API_BASE": self.server.base("chat"),
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_API_BASE": self.server.base("anthropic"),
            "GEMINI_API_KEY": "x",
            "GEMINI_API_BASE": self.server.base("gemini"),
            "NO_PROXY": "127.0.0.1",
        }


@contextmanager
def world(
    folder: Path,
    script: Any,
    *,
    refuse_above: int | None = None,
    factor: float = 1.0,
    meter: Meter | None = None,
    ledger_url: str = "",
    **more: Any,
) -> Iterator[World]:
    """A world whose ledger lies in `folder/home`, or on the server of `ledger_url`; the environment leads to its model
    while it lasts."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    served = ScriptedServer(script, refuse_above=refuse_above, meter=meter or Meter(factor=factor))
    with served as server, pytest.MonkeyPatch.context() as patch:
        made = World(server, project, **more)
        for name, value in made.environment().items():
            patch.setenv(name, value)
        patch.setenv("NEXUS_HOME", str(folder / "home"))
        patch.setattr(retry, "FIRST_WAIT", 0.002)
        if ledger_url:
            file = folder / "home" / "config" / "config.toml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"[ledger]\nurl = {json.dumps(ledger_url)}\n")
        yield made


async def say(session: Session, words: Trigger | str, act: Act | None = None) -> list[Event]:
    """One turn; `act` is called for each event as it is shown."""
    shown: list[Event] = []
    async for event in session.run(words):
        if act is not None:
            act(event, len(shown))
        shown.append(event)
    return shown


def outcome(events: list[Event]) -> Outcome:
    """How a turn ended."""
    end = events[-1]
    assert isinstance(end, TurnEnd), f"a turn ended with {end!r}"
    return end.outcome


@contextmanager
def the_ledger(folder: Path | None = None) -> Iterator[Ledger]:
    """The person's ledger, as another process would open it: of this world, or of one in `folder` that has ended."""
    ledger = Ledger.open(folder / "home" / "data" / "ledger.db" if folder else ledger_place())
    try:
        assert ledger.notices == []
        yield ledger
    finally:
        ledger.close()


@asynccontextmanager
async def checked(place: Path, steps: list[Any], **more: Any) -> AsyncIterator[tuple[World, Session, list[Entry]]]:
    """A session over scripted `steps`; afterwards every law is checked, and the list has the entries."""
    entries: list[Entry] = []
    with world(place, steps, **more) as around:
        session = around.open()
        try:
            yield around, session, entries
        finally:
            await session.aclose()
        with the_ledger() as ledger:
            assert_laws(ledger, session.id, around.server.requests)
            main = on(ledger, ledger.session(session.id).main_lane)
            entries += main.read(1, main.last_id())


def now() -> datetime:
    """The real time, for processes that have no clock of ours."""
    return datetime.now(UTC)


def home() -> Path:
    """The folder of this world's ledger and settings."""
    return Path(os.environ["NEXUS_HOME"])
