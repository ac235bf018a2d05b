"""A session over a model that is a function: the real engine, tools and ledger, without a socket.

For what the provider's room has no part in. Bytes on the wire, and processes that die, are `laws`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core import approval
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.reports import context
from nexus_cli.reports.request_view import sent_view
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.tools.registry import discover_tools

MODEL = "openai/played"
Answer = str | list[tuple[str, dict[str, Any]]]
"""Text, or calls by name and arguments."""


def stream_answer(answer: Answer, number: int, usage: Usage) -> Iterator[Delta]:
    """Yield an answer to the request of this number, as a provider streams it."""
    if isinstance(answer, str):
        yield TextDelta(answer)
    else:
        for place, (name, arguments) in enumerate(answer):
            yield CallDelta(place, f"call_{number}_{place}", name, json.dumps(arguments))
    yield UsageDelta(usage)
    yield FinishDelta("stop" if isinstance(answer, str) else "tool_calls")


@dataclass
class Played:
    """A provider that answers as `script` says."""

    script: Callable[[Request], Answer]
    seen: list[list[Any]] = field(default_factory=list)
    """The messages of every request."""
    usage: Usage = field(default_factory=lambda: Usage(200, 10, cost_usd=0.25))
    """What it reports of each: less than a twentieth of our own count would not be believed."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        self.seen.append(json.loads(json.dumps(list(request.messages))))
        for delta in stream_answer(self.script(request), len(self.seen), self.usage):
            yield delta

    async def aclose(self) -> None:
        """Nothing to release."""


@dataclass
class Person:
    """An approver that gives one answer to every question, and keeps what was asked."""

    answer: approval.Answer = field(default_factory=approval.Allow)
    asked: list[approval.Question] = field(default_factory=list)

    async def ask(self, question: approval.Question) -> approval.Answer:
        """See `Approver`."""
        self.asked.append(question)
        return self.answer


def opened(provider: Played, folder: Path, session: str = "", **options: Any) -> Session:
    """A new session in `folder`, or the one of this id."""
    asked = Options(folder, MODEL, resume=session, allow="all", limits=Limits(max_steps=9), **options)
    settings = Settings(models={MODEL: {"window": 16_000}})
    return open_session(asked, settings, approver=None, provider=provider)


def run_turns(session: Session, *said: str | Trigger) -> list[Event]:
    """Run these turns one after the other, close the session, and return the events of all."""

    async def run() -> list[Event]:
        try:
            return [event for words in said for event in [event async for event in session.run(words)]]
        finally:
            await session.aclose()

    return asyncio.run(run())


def say(session: Session, words: str) -> tuple[list[Event], Outcome]:
    """One turn, and the session's end."""
    events = run_turns(session, words)
    end = events[-1]
    assert isinstance(end, TurnEnd)
    return events, end.outcome


def result_of(folder: Path, tool: str, arguments: dict[str, Any], approver: approval.Approver | None) -> str:
    """Return the result of one call in a new session in `folder`."""

    def script(request: Request) -> Answer:
        return "done" if request.messages[-1]["role"] == "tool" else [(tool, arguments)]

    session = open_session(Options(folder, MODEL), Settings(), approver=approver, provider=Played(script))
    assert say(session, "begin")
    return next(item.message.content for item in session.context.conversation.items if item.message.role == "tool")


def count_definitions() -> int:
    """About the tokens of the definitions in a request, for windows that must fit whichever tools there are."""
    sent = [tool for tool in discover_tools().values() if not tool.behind]
    return sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in sent) // 4


@contextmanager
def the_ledger() -> Iterator[Ledger]:
    """The person's ledger, as another process opens it."""
    ledger = Ledger.open(places().ledger)
    try:
        yield ledger
    finally:
        ledger.close()


def context_report(
    asked: Options, settings: Settings, session: str | None, step: int | None = None, *, services: ServiceMakers = ()
) -> context.ContextReport:
    """The report of a request of a session, as `nexus context --step` has it; of the next one without `step`."""
    if step is None or session is None:
        return context.context_report(asked, settings, session, services=services)
    with closing(Ledger.open_for_reading(ledger_place())) as ledger:
        return context.request_value(sent_view(ledger, ledger.find_session(session), settings, step))
