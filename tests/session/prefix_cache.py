"""A provider with a prompt cache as OpenAI's: beginnings of requests, in steps of 128 tokens, for a while after use.

It sees requests as a provider does, and knows nothing of epochs and entries; what it reports is what there was.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from session.played import Answer, Played

from nexus_cli.config.settings import Settings
from nexus_cli.core.event import CacheExpectation, CacheResult, Event
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Delta, FinishDelta, Request, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

MODEL, OTHER = "openai/played", "openai/another"
STEP, LEAST, LIFE = 128, 1024, timedelta(minutes=10)
PRICES = {"window": 128_000, "input_price": 2.0, "output_price": 8.0, "cache_read_price": 0.5}
SETTINGS = Settings(models={MODEL: PRICES, OTHER: PRICES})


@dataclass
class Clock:
    """A clock that goes on when it is told to."""

    now: datetime = datetime(2026, 1, 13, 9, 30, tzinfo=timezone(timedelta(hours=1)))

    def __call__(self) -> datetime:
        """The time."""
        return self.now

    def forward(self, **by: float) -> None:
        """Let time pass; backwards where it is negative."""
        self.now += timedelta(**by)


@dataclass
class Remembering(Played):
    """Answers as `script` says, and reports what its cache held of the request."""

    clock: Clock = field(default_factory=Clock)
    forgets: Callable[[int], bool] = lambda number: False
    """Whether it has lost everything before request `number`, for no reason that anybody could name."""
    count: Callable[[str], int] = lambda part: len(part) // 4 + 1
    """Tokens of a part of a request, as this provider counts."""
    kept: dict[str, tuple[list[str], datetime]] = field(default_factory=dict)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, with what it used."""
        async for delta in super().stream(request):
            if isinstance(delta, UsageDelta):
                break
            yield delta
        prompt, read = self._read(request)
        yield UsageDelta(Usage(prompt, 20, read, cost_usd=0.25))
        yield FinishDelta("stop")

    def _read(self, request: Request) -> tuple[int, int]:
        """Tokens of the request, and of its longest beginning that is kept."""
        if self.forgets(len(self.seen)):
            self.kept.clear()
        parts = [request.model, *map(json.dumps, request.tools), *map(json.dumps, request.messages)]
        known = [lines for lines, used in self.kept.values() if timedelta(0) <= self.clock() - used <= LIFE]
        tokens = list(map(self.count, parts))
        common = max((_common(parts, lines) for lines in known), default=0)
        read = sum(tokens[:common])
        self.kept["\n".join(parts)] = (parts, self.clock())
        return sum(tokens), read - read % STEP if read >= LEAST else 0


def _common(one: list[str], other: list[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def opened(
    provider: Remembering,
    folder: Path,
    again: str = "",
    model: str = MODEL,
    settings: Settings = SETTINGS,
    steps: int = 80,
) -> Session:
    """A session with this provider, at its time."""
    options = Options(folder, model, allow="all", limits=Limits(max_steps=steps), resume=again)
    return open_session(options, settings, approver=None, provider=provider, clock=provider.clock)


async def lived(session: Session, *said: str) -> list[Event]:
    """The events of these turns."""
    return [event for words in said for event in [event async for event in session.run(words)]]


def results(events: list[Event]) -> list[CacheResult]:
    """What the session told of the cache, request by request."""
    return [event for event in events if isinstance(event, CacheResult)]


def expectations(events: list[Event]) -> list[int]:
    """What it expected before each request."""
    return [event.tokens for event in events if isinstance(event, CacheExpectation)]


def working(answer: Callable[[Request, int], Answer], clock: Clock | None = None) -> Remembering:
    """A model that answers as it is told; steps count from 1."""
    step = 0

    def script(request: Request) -> Answer:
        nonlocal step
        step += 1
        return answer(request, step)

    return Remembering(script, clock=clock or Clock())
