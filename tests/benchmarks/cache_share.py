"""What nexus sends cold over long coding sessions, beside a window that slides and a summariser without anything else.

All three are given the same entries, in the provider's tokens; nexus is the real session over a provider that keeps a
prefix cache. The sliding window is cut to the budget at each step; the summariser sums up at 85 % with nexus' own
summary length and kept tail. The lower bound sends every token once, and per rewrite what law 6 must keep.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.coding import Model, wishes, write_project
from benchmarks.row import Benchmark, Row
from ledger.conftest import on

from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.event import CompactionDone, Notice, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

WINDOW = 200_000
SESSIONS = 20
PROCESSES = 2
NAME = "openai/measured"
PRICES = {
    "3.00 / 0.30 / 3.75 / 15": (3.0, 0.3, 3.75, 15.0),
    "1.25 / 0.125 / - / 10": (1.25, 0.125, 1.25, 10.0),
    "0.28 / 0.028 / - / 0.42": (0.28, 0.028, 0.28, 0.42),
}
"""Dollars per million tokens: input, cache read, cache write, output."""


@dataclass
class Flow:
    """What one way of keeping a window sent, in tokens."""

    prompt: int = 0
    repeated: int = 0
    output: int = 0
    rewrites: int = 0

    @property
    def cold(self) -> int:
        """Tokens that the provider had not been sent before."""
        return self.prompt - self.repeated

    def send(self, total: int, repeated: int) -> None:
        """One request."""
        self.prompt += total
        self.repeated += repeated

    def add(self, other: Flow) -> None:
        """Another session's."""
        self.prompt += other.prompt
        self.repeated += other.repeated
        self.output += other.output
        self.rewrites += other.rewrites

    def dollars(self, prices: tuple[float, float, float, float]) -> float:
        """What it cost."""
        _, read, write, output = prices
        return (self.cold * write + self.repeated * read + self.output * output) / 1e6


@dataclass
class Lived:
    """One session: what nexus sent, and the same entries for the others."""

    nexus: Flow
    fixed: int
    """Tokens of tools and system text."""
    steps: list[list[int]]
    """Tokens of the entries that came new with each request of the main lane."""
    kept: list[int]
    """Tokens of the messages after each rewrite."""
    outputs: list[int]
    failed: list[str] = field(default_factory=list)
    preambles: int = 0
    turns: int = 0
    prunes: int = 0


@dataclass
class Passing:
    """A clock that goes on by two seconds whenever it is looked at: a step takes some, a turn minutes."""

    moment: datetime = datetime(2026, 1, 13, 9, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=2)
        return self.moment


@contextmanager
def home() -> Iterator[Path]:
    """A folder to work in."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


async def live(folder: Path, seed: int, steps: int, prices: tuple[float, float, float, float]) -> Lived:
    """One session of so many steps."""
    write_project(folder, seed)
    model = Model(seed, folder)
    of = dict(zip(("input_price", "cache_read_price", "cache_write_price", "output_price"), prices, strict=True))
    settings = Settings(models={NAME: {"window": WINDOW, "max_output": 8000, **of}})
    options = Options(folder, NAME, recipe="chat", allow="all", save=False, limits=Limits(max_steps=500))
    session = open_session(options, settings, approver=None, provider=model, clock=Passing())
    failed, rewrites, turns, prunes = [], 0, 0, 0
    for words, size in wishes(seed, steps):
        model.left, turns = size - 1, turns + 1
        async for event in session.run(words):
            match event:
                case TurnEnd(outcome) if outcome.error:
                    failed.append(f"turn: {outcome.error}")
                case CompactionDone(ok=False, why=why):
                    failed.append(f"compaction: {why}")
                case CompactionDone():
                    rewrites += 1
                case Notice(text) if "stale result" in text:
                    prunes += 1
                case Notice(text):
                    failed.append(text)
                case _:
                    pass
    lived = _lived(session, model, failed, turns)
    lived.nexus.rewrites, lived.prunes = rewrites, prunes
    await session.aclose()
    return lived


def _lived(session: object, model: Model, failed: list[str], turns: int) -> Lived:
    """What was sent, from the provider's side; the entries by the ratio of its count to ours."""
    from nexus_cli.session.session import Session

    assert isinstance(session, Session) and session.ledger is not None
    ledger, lane = session.ledger, session.ledger.session(session.id).main_lane
    rows = on(ledger, lane).requests()
    flow = Flow()
    for sent in model.sent:
        flow.send(sent.input, sent.read)
        flow.output += sent.output
    main = [sent for sent in model.sent if sent.main]
    entries = [WindowItem.of(entry) for entry in on(ledger, lane).read(1, on(ledger, lane).last_id())]
    steps: list[list[int]] = []
    reached = 0
    first = on(ledger, lane).epoch(rows[0].manifest.epoch)
    scale = main[-1].input / max(1, session.context.conversation.counted)
    for row in rows:
        steps.append([round(item.tokens * scale) for item in entries[reached : row.manifest.last]])
        reached = row.manifest.last
    epochs = [on(ledger, lane).epoch(number) for number in dict.fromkeys(row.manifest.epoch for row in rows)]
    heads = [sum(item.tokens for item in e.head) for e in epochs if e.cause in ("compaction", "overflow")]
    return Lived(
        flow,
        round((first.system_tokens + first.tools_tokens) * scale),
        steps,
        [round(head * scale) for head in heads],
        [sent.output for sent in main],
        failed,
        sum(len(item.preamble) // 4 for item in entries),
        turns,
    )


def budget() -> int:
    """Tokens that a request may take."""
    return WINDOW - 16_000


def sliding(lived: Lived) -> Flow:
    """The oldest entries go as soon as the budget is reached, at each step."""
    flow, window, total = Flow(output=sum(lived.outputs)), list[int](), lived.fixed
    for fresh in lived.steps:
        before = total
        window.extend(fresh)
        total += sum(fresh)
        cut = False
        while total > budget() and len(window) > 2:
            total -= window.pop(0)
            cut = True
        flow.rewrites += cut
        flow.send(total, lived.fixed if cut else before if len(window) > len(fresh) else 0)
    return flow


def summarising(lived: Lived) -> Flow:
    """Everything becomes a summary and a kept tail at 85 %; the summary is asked for warm."""
    flow, total = Flow(output=sum(lived.outputs)), lived.fixed
    kept = sum(lived.kept) // len(lived.kept) if lived.kept else 0
    sent = 0
    for fresh in lived.steps:
        total += sum(fresh)
        if total > 0.85 * budget() and kept:
            flow.send(total + 400, sent)
            flow.output += 5000
            total, sent = lived.fixed + kept, lived.fixed
            flow.rewrites += 1
        flow.send(total, sent)
        sent = total
    return flow


def least(lived: Lived) -> int:
    """Every token once, and per rewrite what has to be kept."""
    return lived.fixed + sum(map(sum, lived.steps)) + sum(lived.kept)


def lengths() -> Sequence[int]:
    """Steps of each session: from 200 to 2,000."""
    dice = random.Random("lengths")
    return [200, 2000, *(dice.randint(200, 2000) for _ in range(SESSIONS - 2))]


def _live_apart(seed: int, length: int) -> Lived:
    """Live a session in a process of its own, at the first prices."""
    with home() as folder:
        return asyncio.run(live(folder, seed, length, next(iter(PRICES.values()))))


def rows(times: int) -> Iterator[Row]:
    """Shares, cold tokens and dollars; every session is played once for the first price list."""
    totals = {name: Flow() for name in ("nexus", "sliding", "summariser")}
    bound = preambles = turns = steps = prunes = 0
    worst = 1.0
    with ProcessPoolExecutor(PROCESSES) as pool:
        sessions = list(pool.map(_live_apart, *zip(*enumerate(lengths()), strict=True)))
    for seed, lived in enumerate(sessions):
        totals["nexus"].add(lived.nexus)
        totals["sliding"].add(sliding(lived))
        totals["summariser"].add(summarising(lived))
        bound += least(lived)
        preambles, turns, steps = preambles + lived.preambles, turns + lived.turns, steps + len(lived.steps)
        prunes += lived.prunes
        worst = min(worst, lived.nexus.repeated / lived.nexus.prompt)
        for line in dict.fromkeys(lived.failed):
            print(f"session {seed}: {line}")
    nexus, slide, summary = totals.values()
    told = f"{nexus.rewrites} compactions, {prunes} prunes; the summariser's compactions: {summary.rewrites}"
    print(f"{SESSIONS} sessions, {steps} requests; {told}")
    yield Row("prompt tokens not repeated", 100 * (1 - nexus.repeated / nexus.prompt), "%", most=3.0)
    yield Row("the same, worst session", 100 * (1 - worst), "%")
    yield Row("the same, sliding window", 100 * (1 - slide.repeated / slide.prompt), "%")
    yield Row("the same, summariser", 100 * (1 - summary.repeated / summary.prompt), "%")
    yield Row("sent cold", nexus.cold / 1e6, "M tokens", slide.cold / 1e6, "sliding window", 1.0)
    yield Row("sent cold", nexus.cold / 1e6, "M tokens", summary.cold / 1e6, "summariser", 1.1)
    yield Row("sent cold", nexus.cold / 1e6, "M tokens", bound / 1e6, "lower bound")
    for name, prices in PRICES.items():
        paid, base = nexus.dollars(prices), summary.dollars(prices)
        yield Row(f"dollars at {name}", paid, "$", base, "summariser", 0.95)
        yield Row(f"dollars at {name}", paid, "$", slide.dollars(prices), "sliding window")
    yield Row("event layer", preambles / max(1, turns), "tokens a turn", most=150)


BENCHMARK = Benchmark("long coding sessions: the cache, beside two other ways to keep a window", rows)
