"""Runs over a model that is a function of what it was sent, in a ledger of their own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from session.played import run_turns, stream_answer

from nexus_cli.config.paths import places
from nexus_cli.config.settings import RunSettings, Settings
from nexus_cli.core.event import Event, Notice, Outcome, TurnEnd
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.run import Run
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.database import Database
from nexus_cli.runs import resume_trigger
from nexus_cli.runs.runner import Runner
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

MODEL = "openai/played"
SETTINGS = Settings(
    models={MODEL: {"window": 64_000, "input_price": 1.0, "output_price": 1.0}},
    runs=RunSettings(allow="all", max_cost=1e6, max_cost_day=1e9),
)
AT = "2026-02-18T15:06:55.000Z"
Reply = str | list[tuple[str, dict[str, Any]]]
"""Text, or calls by name and arguments."""


@dataclass
class Played:
    """A provider that answers by a function of the request."""

    reply: Callable[[Request], Reply]
    seen: list[Request] = field(default_factory=list)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        self.seen.append(request)
        for delta in stream_answer(self.reply(request), len(self.seen), Usage(2000, 10, cost_usd=0.25)):
            yield delta

    async def aclose(self) -> None:
        """Nothing to release."""


def sent(request: Request) -> str:
    """All that the model was sent but the system text."""
    return "\n".join(str(one.get("content") or "") for one in request.messages)


def last(request: Request) -> str:
    """The last message."""
    return str(request.messages[-1].get("content") or "")


def waiting(*calls: tuple[str, dict[str, Any]], then: str = "all is done") -> Callable[[Request], Reply]:
    """A model that makes these calls at first, and answers when it was resumed."""

    def reply(request: Request) -> Reply:
        return then if "RESUME" in sent(request) or "goes on" in last(request) else list(calls)

    return reply


def opened(provider: Any, folder: Path, session: str = "", **more: Any) -> Session:
    """A plain session in the person's ledger."""
    options = Options(folder, MODEL, resume=session, **{"allow": "all", **more})
    return open_session(options, SETTINGS, approver=None, provider=provider)


def say(session: Session, *words: str) -> Outcome:
    """Turns of a session, which is closed then; how the last one ended."""
    return [event.outcome for event in run_turns(session, *words) if isinstance(event, TurnEnd)][-1]


def show(run: Run, event: Event) -> None:
    """Let a test that fails say why."""
    if isinstance(event, Notice):
        print(run.id, event.text)


def run_due(provider: Any, **more: Any) -> list[Run]:
    """One pass of a runner over the person's ledger."""

    async def once() -> list[Run]:
        ledger = Ledger.open(places().ledger)
        runner = Runner(ledger, provider=provider, **{"settings": SETTINGS, "show": show, **more})
        try:
            return await runner.run_due()
        finally:
            await runner.aclose()
            ledger.close()

    return asyncio.run(once())


def put_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Put the clock of the ledger, by which runs wait, so far ahead."""
    monkeypatch.setattr(Database, "now_sql", f"({Database.now_sql} + {seconds:f})")


def end_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every wait be too long for the provider's cache, so that a resumed run begins with a recap."""
    monkeypatch.setattr(resume_trigger, "WARM_SECONDS", -math.inf)


def queue(title: str, folder: Path, **options: Any) -> Run:
    """A queued run of a service."""
    ledger = Ledger.open(places().ledger)
    facts = {"type": "service", "service": "ci", "instruction": title, "payload": {}}
    said = {"folder": str(folder), "model": MODEL, "allow": "all", **options}
    key = ledger.runs.queue("service", title, facts, said, AT)
    assert key is not None
    run = ledger.runs.get(key)
    ledger.close()
    return run


def stored(key: int) -> Run:
    """A run as it is in the ledger."""
    ledger = Ledger.open(places().ledger)
    try:
        return ledger.runs.get(key)
    finally:
        ledger.close()
