"""A session with workers over a model that is a function of what it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from session.played import MODEL, Answer, run_turns, stream_answer

from nexus_cli.config.settings import Settings
from nexus_cli.core import approval
from nexus_cli.core.approval import Approver, Question
from nexus_cli.core.event import AgentEvent, Event, Outcome, ToolResultEvent, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.usage import Usage
from nexus_cli.service_list import WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

SETTINGS = Settings(models={MODEL: {"window": 64_000, "input_price": 1.0, "output_price": 1.0}})
Reply = Answer


def content(request: Request) -> str:
    """The last message, without what was added to it."""
    return str(request.messages[-1].get("content") or "")


def calls_made(request: Request) -> int:
    """Steps with calls since the beginning."""
    return sum(bool(message.get("tool_calls")) for message in request.messages)


@dataclass
class Crew:
    """A provider that answers each session by a function: the first whose word its first message has."""

    roles: Mapping[str, Callable[[Request], Reply | Awaitable[Reply]]]
    usage: Usage = field(default_factory=lambda: Usage(2000, 10, cost_usd=0.25))
    seen: list[tuple[str, Request]] = field(default_factory=list)
    """Role and request, in the order in which they came."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        request.sending.is_sent = True
        first = next(str(one["content"]) for one in request.messages if one["role"] == "user")
        role = next(name for name in self.roles if name in first)
        self.seen.append((role, request))
        made = self.roles[role](request)
        reply = made if isinstance(made, str | list) else await made
        for delta in stream_answer(reply, len(self.seen), self.usage):
            yield delta

    async def aclose(self) -> None:
        """Nothing to release."""


@dataclass
class Person:
    """An approver that answers with a function, and remembers what it was asked."""

    answer: Callable[[Question], approval.Answer]
    asked: list[Question] = field(default_factory=list)

    async def ask(self, question: Question) -> approval.Answer:
        self.asked.append(question)
        return self.answer(question)


def handing(*tasks: str | dict[str, Any], then: str = "all is done") -> Callable[[Request], Reply]:
    """The parent: hands over in its first step and answers in its second."""

    def reply(request: Request) -> Reply:
        wanted = [{"task": one} if isinstance(one, str) else one for one in tasks]
        return then if calls_made(request) else [("agent", one) for one in wanted]

    return reply


def doing(*steps: Reply) -> Callable[[Request], Reply]:
    """A run that does these steps in order."""
    return lambda request: steps[min(calls_made(request), len(steps) - 1)]


def crewed(
    crew: Crew,
    folder: Path,
    session: str = "",
    *,
    approver: Approver | None = None,
    settings: Settings = SETTINGS,
    limits: Limits | None = None,
    **more: Any,
) -> Session:
    """A session that may have workers."""
    options = Options(folder, MODEL, resume=session, limits=limits or Limits(max_steps=40), **{"allow": "all", **more})
    return open_session(options, settings, approver=approver, provider=crew, services=(WORKERS,))


def run(session: Session, *said: str) -> tuple[list[Event], Outcome]:
    """Turns one after the other, and the session's end; the events of all, the outcome of the last."""
    events = run_turns(session, *said)
    ends = [event.outcome for event in events if isinstance(event, TurnEnd)]
    return events, ends[-1]


def results(session_events: Sequence[Event], tool: str = "agent") -> list[str]:
    """Texts of the results of a tool in the session itself."""
    found = [one for one in session_events if isinstance(one, ToolResultEvent) and one.call.name == tool]
    return [one.result.text for one in sorted(found, key=lambda one: one.call.id)]


def of_worker(session_events: Sequence[Event], worker: str) -> list[Event]:
    """The events of a worker."""
    return [one.event for one in session_events if isinstance(one, AgentEvent) and one.agent == worker]
