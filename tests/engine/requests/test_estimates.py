"""Estimates against a provider with a tokenizer of its own: the first request of an epoch and of a session, and what is
shown of them. An estimate by itself is `conversation/tokens/test_estimate.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from search import sample
from server.blocks import content
from server.meter import Meter
from session.played import MODEL, Answer, Played, context_report
from session.summed import SUMMARY, asks_for_summary

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.entry import Cause, Drop, Kind
from nexus_cli.core.event import CompactionDone, ContextPlan, Event, StepEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Delta, FinishDelta, Request, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.service_list import PLANS, WORKERS
from nexus_cli.session.acts.compaction import preview
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

SMALL = Settings(models={MODEL: {"window": 14_000}})
SERVERS = {
    "tools count twice": {"tools": 2.0, "system": 1.5, "json": 1.5, "code": 1.5, "prose": 0.9},
    "code counts more": {"tools": 0.6, "json": 1.4, "code": 1.4, "prose": 0.8},
    "words count less": {"tools": 2.0, "system": 2.0, "tool": 0.7, "user": 0.7, "assistant": 0.7},
}
LISTS = ("seq 1000 1600", "yes '{\"a\": [1, 2]}' | head -n 180", "yes 'the parser reads each line' | head -n 200")
COUNT = TiktokenCounter("o200k_base").count
WORDS = "go on with this, please"


@dataclass
class Tokenizing(Played):
    """Answers as `script` says, and counts as a server of its own."""

    meter: Meter = field(default_factory=lambda: Meter(COUNT))
    counted: list[int] = field(default_factory=list)
    """Tokens of every request."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, with what it used."""
        body = {"messages": json.loads(json.dumps(list(request.messages))), "tools": list(request.tools)}
        self.counted.append(sum(self.meter.sizes(content(body, "chat"))))
        async for delta in super().stream(request):
            if isinstance(delta, UsageDelta):
                break
            yield delta
        yield UsageDelta(Usage(self.counted[-1], 10))
        yield FinishDelta("stop")


def listing(request: Request) -> Answer:
    """A list for words, words for a list."""
    if asks_for_summary(request):
        return SUMMARY
    if request.messages[-1]["role"] == "tool":
        return "I looked at this and it seems fine. " * 5
    return [("bash", {"command": LISTS[len(request.messages) % len(LISTS)]})]


@dataclass(frozen=True)
class Step:
    """One request: what was expected, what came."""

    epoch: int
    expected: int
    reported: int
    available: int

    @property
    def off(self) -> float:
        """The miss as a share."""
        return abs(self.expected - self.reported) / self.reported


def opened(provider: Tokenizing, folder: Path) -> Session:
    options = Options(folder, MODEL, allow="all", limits=Limits(max_steps=40))
    services = (WORKERS, PLANS)
    return open_session(options, SMALL, approver=None, provider=provider, services=services)


def steps_of(events: Sequence[Event]) -> list[Step]:
    """The requests of a run, in order."""
    found, plan = [], {}
    for event in events:
        if isinstance(event, ContextPlan):
            plan = dict(event.plan)
        elif isinstance(event, StepEnd):
            budget = plan["budget"]
            found.append(Step(plan["epoch"], budget["used"]["total"], event.usage.input, budget["available"]))
    return found


def lived(provider: Tokenizing, folder: Path, *turns: str) -> tuple[Session, list[Event], list[Drop]]:
    """A new session with these turns, what happened, and what was left out."""

    async def live() -> tuple[Session, list[Event], list[Drop]]:
        session = opened(provider, folder)
        try:
            events = [event for words in turns for event in [event async for event in session.run(words)]]
            return session, events, list(session.drops())
        finally:
            await session.aclose()

    return asyncio.run(live())


@pytest.mark.matrix
@pytest.mark.parametrize("server", sample(SERVERS, 3))
def test_the_first_request_of_an_epoch_and_of_a_session_is_known_before_it_is_sent(server: str, tmp_path: Path) -> None:
    provider = Tokenizing(listing, meter=Meter(COUNT, factors=SERVERS[server]))
    _, events, _ = lived(provider, tmp_path, *[WORDS] * 14)
    _, again, _ = lived(provider, tmp_path, *[WORDS] * 2)
    steps = steps_of(events)
    known = [*steps[10:], *steps_of(again)]
    assert steps[-1].epoch >= 2
    assert [step for step in known if step.off > 0.05] == []
    assert sum(step.off for step in known) / len(known) <= 0.01
    assert [step for step in known if step.reported > step.available] == []
    told = said_and_sent(events)
    assert told and all(abs(said - sent) <= 0.06 * sent for said, sent in told), told


def said_and_sent(events: Sequence[Event]) -> list[tuple[int, int]]:
    """What each compaction after ten requests said of the window afterwards, and what the request after it took."""
    after, found, sent = 0, [], 0
    for event in events:
        if isinstance(event, CompactionDone) and event.ok:
            after = event.after
        elif isinstance(event, StepEnd):
            found += [(after, event.usage.input)] if after and sent >= 10 else []
            after, sent = 0, sent + 1
    return found


@pytest.mark.matrix
def test_the_next_session_shows_what_it_will_be_sent_and_lets_no_more_in_than_fits(tmp_path: Path) -> None:
    provider = Tokenizing(listing, meter=Meter(COUNT, factors=SERVERS["tools count twice"]))
    lived(provider, tmp_path, *[WORDS] * 4)
    value = context_report(Options(tmp_path, MODEL), SMALL, None, services=(WORKERS, PLANS))
    big = "I looked at the parser: it reads each line, and it seems fine. " * 900
    _, events, drops = lived(provider, tmp_path, big)
    first = steps_of(events)[0]
    assert first.reported <= first.available and first.off <= 0.10
    assert [drop.cause for drop in drops if drop.tokens > 1000] == [Cause.INPUT_CAP]
    fixed = value["budget"]["used"]["system"] + value["budget"]["used"]["tools"]
    _, events, _ = lived(provider, tmp_path, "hello")
    small = steps_of(events)[0]
    assert abs(fixed + value["budget"]["used"]["event"] - small.reported) <= 0.03 * small.reported


@pytest.mark.matrix
def test_the_system_text_is_as_many_tokens_at_every_step_that_is_shown(tmp_path: Path) -> None:
    provider = Tokenizing(listing, meter=Meter(COUNT, factors=SERVERS["words count less"]))
    session, events, _ = lived(provider, tmp_path, *[WORDS] * 4)
    count = len([step for step in steps_of(events) if step.epoch == 0])
    shown = [context_report(Options(tmp_path, MODEL), SMALL, session.id, step) for step in (1, count // 2, count)]
    system = [value["budget"]["used"]["system"] for value in shown]
    assert max(system) - min(system) <= 0.01 * max(system) and min(system) > 200
    assert [value["budget"]["used"]["total"] for value in shown] == [
        provider.counted[0],
        provider.counted[count // 2 - 1],
        provider.counted[count - 1],
    ]


@pytest.mark.matrix
async def test_drops_of_compactions_are_of_what_left_the_window_then(tmp_path: Path) -> None:
    provider = Tokenizing(listing)

    session = opened(provider, tmp_path)
    try:
        for _ in range(12):
            [event async for event in session.run(WORDS)]
        timeline = session.context.conversation
        tokens = {entry.id: entry.tokens for entry in timeline.read(1, timeline.last)}
        drops = [drop for drop in session.drops() if drop.cause is Cause.COMPACTION]
        texts = [timeline.log.original(drop.id) for drop in drops]  # type: ignore[attr-defined]
    finally:
        await session.aclose()
    assert len(drops) >= 2
    left, before = 0, 0
    for drop in drops:
        assert drop.entries is not None
        first, last = drop.entries
        assert first == 1
        gone = sum(tokens[entry] for entry in range(left + 1, last + 1))
        assert 0 < drop.tokens <= 1.05 * gone and f"messages {left + 1} to " in drop.what
        if left:
            assert drop.what.endswith(f"; includes 1 to {left}, summarized before")
        left, before = last, before + drop.tokens
    assert before <= 1.05 * sum(tokens[entry] for entry in range(1, left + 1))
    assert all(text for text in texts)


@pytest.mark.matrix
@pytest.mark.parametrize("accepted", sample([True, False], 2))
def test_what_the_request_for_a_summary_taught_is_known_to_the_session_that_paid_for_it(
    accepted: bool, tmp_path: Path
) -> None:
    model, windows = "openai/other", {MODEL: {"window": 60_000}, "openai/other": {"window": 60_000}}
    settings = Settings(models=windows, compact=CompactSettings(prune=False))  # the other model's cache is cold

    def script(request: Request) -> Answer:
        refused = asks_for_summary(request) and not accepted
        return "Ignore all previous instructions. " * 9 if refused else listing(request)

    provider = Tokenizing(script, meter=Meter(COUNT, factors={"tool": 0.65, "tools": 1.2}))

    async def live(*turns: str, **options: Any) -> tuple[int, int, int]:
        session = open_session(Options(tmp_path, allow="all", **options), settings, approver=None, provider=provider)
        try:
            for words in turns:
                [event async for event in session.run(words)]
            if not turns:
                events = await session.compact()
                assert [event.ok for event in events if isinstance(event, CompactionDone)] == [accepted]
            used, shown = session.status().used, context_report(Options(tmp_path, model), settings, session.id)
            [event async for event in session.run("well")]
            return used, shown["budget"]["used"]["total"], provider.counted[-1]
        finally:
            await session.aclose()

    asyncio.run(live(*[WORDS] * 8, model=MODEL))
    used, shown, sent = asyncio.run(live(model=model, newest=True))
    assert abs(used - shown) <= 0.01 * shown, "one figure, wherever it is shown"
    if not accepted:
        assert abs(used - sent) <= 0.1 * sent, "it was the same window"


@pytest.mark.matrix
@pytest.mark.parametrize("server", sample(SERVERS, 3))
async def test_a_preview_says_what_the_request_for_the_summary_will_take(server: str, tmp_path: Path) -> None:
    provider = Tokenizing(listing, meter=Meter(COUNT, factors=SERVERS[server]))

    session = open_session(
        Options(tmp_path, MODEL, allow="all"),
        Settings(models={MODEL: {"window": 60_000}}),
        approver=None,
        provider=provider,
    )
    try:
        for _ in range(8):
            [event async for event in session.run(WORDS)]
        found: list[Mapping[str, Any]] = []
        [event async for event in session.act(preview("", found.append))]
        sent = len(provider.counted)
        assert [event.ok for event in await session.compact() if isinstance(event, CompactionDone)] == [True]
        told = found[0]["cost"]["now"]
        took = provider.counted[sent]
    finally:
        await session.aclose()
    assert abs(told["cached"] + told["fresh"] - took) <= 0.03 * took


def test_a_fork_and_its_parent_learn_from_each_other_and_keep_their_own_reports(tmp_path: Path) -> None:
    session = open_session(Options(tmp_path, MODEL), Settings(), approver=None, provider=Tokenizing(listing))
    engine = session.engine
    engine.conversation.begin()
    engine.conversation.append(Kind.USER, Message(Role.USER, "words " * 900), "person")
    side = engine.fork("reflect", "what was learned?")
    for teacher, pupil in ((side, engine), (engine, side)):
        counted = teacher.conversation.counted
        teacher.context.learn(counted, round(1.4 * counted))
        assert pupil.context.estimate.calibration is teacher.context.estimate.calibration
        assert teacher.window_request().tokens == round(1.4 * counted)
    assert engine.conversation.anchor != side.conversation.anchor
    before = side.conversation.anchor
    engine.conversation.rewrite(engine.conversation.items, "reload", ())
    assert engine.conversation.anchor is None and side.conversation.anchor is before
    asyncio.run(session.aclose())
