"""Law 2: what is sent fits. Measured by the server, with a counter of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conversation.tokens.held_estimate import HeldEstimate
from hypothesis import given
from hypothesis import strategies as st
from laws.check import assert_laws
from laws.model import FORK, TRANSCRIPT, Habits, Model
from laws.play import Person
from laws.world import World, exact, outcome, say, the_ledger, world
from search import sample, some
from server.blocks import content
from server.meter import Meter

from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.services import Calibration

SEEDS = range(1000, 1002)


@pytest.mark.parametrize("window", sample([7000, 12_000], 2))
def test_every_request_fits_the_budget_by_the_same_counter(window: int, place: Path) -> None:
    for seed in SEEDS:
        script = Model(seed, "chat", Habits(calls=0.75, lines=900, odd=0.0))
        with world(place / str(seed), script, window=window, meter=Meter(exact)) as around:
            played = asyncio.run(Person(around, seed).live())
            with the_ledger() as ledger:
                sent = assert_laws(ledger, played.session, around.server.requests)
                main = ledger.session(played.session).main_lane
        budget = TokenBudget.of(window)
        for one in sent:
            if not one.tries:
                continue
            tokens, lane = one.tries[0].tokens.input, one.row.lane
            if lane == main:
                assert tokens <= budget.available, f"seed {seed}, step {one.row.manifest.step}: {tokens}"
            assert tokens + one.row.manifest.arguments["max_output"] <= window, f"seed {seed}, lane {lane}: {tokens}"


class Eager:
    """A model that asks for as much as it may, several turns long."""

    def __init__(self) -> None:
        self.turns = 0

    def __call__(self, body: Any) -> dict[str, Any]:
        """Lists, and now and then a word."""
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": "Goal: as said. Next: go on. SUMMARY: lists were made. " + "what they held " * 30}
        self.turns += 1
        if self.turns % 6 == 0:
            return {"text": "that is all"}
        lists = [f"seq {self.turns} 3000", "yes 漢字かな交じり文 | head -n 900", "yes '{\"a\": [1, 2]}' | head -n 900"]
        return {"calls": [{"name": "bash", "arguments": {"command": lists[(self.turns + n) % 3]}} for n in range(3)]}


COUNTERS: list[tuple[float, dict[str, float]]] = [
    (2.0, {}),
    (0.6, {}),
    (1.0, {"json": 2.0, "tool": 0.7}),
    (1.0, {"tool": 2.0}),
    (0.7, {"tools": 2.0, "system": 2.0}),
    (0.6, {"user": 2.0}),
    (1.0, {"cjk": 2.0}),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("factor", "factors"), sample(some(COUNTERS, 2), 4), ids=lambda given: str(given))
def test_a_server_with_a_counter_of_its_own_refuses_at_most_one_request(
    factor: float, factors: Mapping[str, float], place: Path
) -> None:
    window = 14_000

    async def live(around: World) -> str:
        session = around.open()
        try:
            for number in range(2):
                words = "とても長い文章です。" * 200 if number else "words " * 40
                ended = outcome(await say(session, f"TURN{number} {words}"))
                assert ended.ok, ended.error
        finally:
            await session.aclose()
        return session.id

    meter = Meter(exact, factor=factor, factors=factors)
    with world(place, Eager(), window=window, meter=meter, refuse_above=window, steps=20) as around:
        session = asyncio.run(live(around))
        refused = [request.number for request in around.server.requests if request.fault == "overflow"]
        with the_ledger() as ledger:
            assert_laws(ledger, session, around.server.requests)
    assert len(refused) <= 1, f"requests {refused} were refused"


@given(
    st.floats(0.5, 2.5),
    st.integers(0, 9),
    st.floats(0.0, 0.5),
    st.integers(1000, 1_000_000),
    st.integers(0, 1_000_000),
)
def test_what_counts_as_fitting_never_exceeds_the_budget_by_the_known_error(
    factor: float, reports: int, worst: float, budget: int, counted: int
) -> None:
    meter = HeldEstimate(Calibration(factor, reports, (worst,)))
    assert counted > meter.countable(budget) or meter.upper(counted) <= budget + 1
    assert meter.upper(counted) >= meter.estimate(counted)
    assert meter.upper(counted) <= meter.upper(counted + 1)


@pytest.mark.matrix
def test_files_that_come_whole_in_a_large_window_never_push_a_request_over_the_budget(place: Path) -> None:
    window, turns = 128_000, 3

    def model(body: Any) -> dict[str, Any]:
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": "Goal: as said. Next: go on. SUMMARY: files were read. " * 9}
        reads = [{"name": "read_file", "arguments": {"path": f"{number}.txt"}} for number in range(6)]
        return {"calls": reads} if last.role == "user" else {"text": "read"}

    async def live(around: World) -> str:
        session = around.open()
        try:
            for number in range(turns):
                ended = outcome(await say(session, f"TURN{number} read the files"))
                assert ended.ok, ended.error
        finally:
            await session.aclose()
        return session.id

    with world(place, model, window=window, meter=Meter(exact)) as around:
        for number in range(6):
            text = "".join(f"file {number}, row {row}: some words of it\n" for row in range(1000))
            (around.folder / f"{number}.txt").write_text(text)
        session = asyncio.run(live(around))
        with the_ledger() as ledger:
            sent = assert_laws(ledger, session, around.server.requests)
            main = ledger.session(session).main_lane
    budget = TokenBudget.of(window)
    results = [one["content"] for one in around.server.requests[1].body["messages"] if one["role"] == "tool"]
    assert sum(exact(one) > budget.output_cap for one in results) >= 3, "some came whole"
    tokens = [one.tries[0].tokens.input for one in sent if one.tries and one.row.lane == main]
    assert max(tokens) <= budget.available
