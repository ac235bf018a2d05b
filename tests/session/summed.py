"""A session over a model that is a function, with turns to sum up, and the things that are done to it by hand.

What the summariser answers is the test's; the rest of the model lists numbers for words and words for a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochs import prefix_sha256
from session.played import MODEL, Answer, Played

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.conversation.groups import flatten
from nexus_cli.core.event import CompactionDone, Event, Notice
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.session.base_session import Act
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

FORK = "about to be replaced by your summary"
TRANSCRIPT = "Sum up the conversation below"
SUMMARY = "Goal: as said. Next: go on. SUMMARY: the person wants lists. " + "what was done " * 20


def asks_for_summary(request: Request) -> bool:
    """Whether a request is for a summary."""
    said = request.messages[-1]["content"]
    return isinstance(said, str) and (FORK in said or TRANSCRIPT in said)


@dataclass
class Summariser:
    """A script: `summary` answers requests for one, `work` the others."""

    summary: Callable[[Request], Answer] | str = SUMMARY
    work: Callable[[Request], Answer] | None = None
    asked: list[str] = field(default_factory=list)
    """The last message of every request for a summary."""
    listed: int = 0

    def __call__(self, request: Request) -> Answer:
        """One answer."""
        if asks_for_summary(request):
            self.asked.append(str(request.messages[-1]["content"]))
            return self.summary if isinstance(self.summary, str) else self.summary(request)
        if self.work is not None:
            return self.work(request)
        if request.messages[-1]["role"] == "tool":
            return "listed"
        self.listed += 1
        return [("bash", {"command": f"seq {self.listed}000 {self.listed}300"})]


@asynccontextmanager
async def living(
    folder: Path,
    script: Any,
    *said: str,
    window: int = 24_000,
    compact: CompactSettings | None = None,
    again: str = "",
    models: dict[str, dict[str, float | int | bool]] | None = None,
    provider: Any = None,
    steps: int = 80,
    model: str = MODEL,
    interactive: bool = False,
) -> AsyncIterator[Session]:
    """A session after these turns, each of which is said to a model that `script` plays; `again` resumes one."""
    limits = Limits(max_steps=steps)
    asked = Options(folder, model, allow="all", limits=limits, resume=again, interactive=interactive)
    settings = Settings(models={MODEL: {"window": window}, **(models or {})}, compact=compact or CompactSettings())
    session = open_session(asked, settings, approver=None, provider=provider or Played(script))
    try:
        for words in said:
            await turn(session, words)
        yield session
    finally:
        await session.aclose()


async def turn(session: Session, words: str) -> list[Event]:
    """One turn."""
    return [event async for event in session.run(words)]


async def done(session: Session, act: Act) -> list[Event]:
    """What the events of an act were."""
    return [event async for event in session.act(act)]


def ended(events: Sequence[Event]) -> CompactionDone:
    """How the last compaction went."""
    return [event for event in events if isinstance(event, CompactionDone)][-1]


def noted(events: Sequence[Event]) -> str:
    """All notices, one to a line."""
    return "\n".join(event.text for event in events if isinstance(event, Notice))


def window_hash(session: Session) -> tuple[int, str]:
    """What the next request of the main lane would begin with."""
    lane = session.context.conversation
    return lane.epoch.id, prefix_sha256(lane.epoch, flatten(lane.groups()))


def summary_of(session: Session) -> str:
    """The message that carries the window's summary."""
    return next(s.message.content for s in session.context.conversation.items if s.form == "summary")


def live(work: Any) -> Any:
    """Run a coroutine."""
    return asyncio.run(work)
