"""All laws at once over random sessions: what the server received beside what the ledger has.

Every session ends with every check of `laws.check`; what happened in all of them together is looked at too, so that a
generator that has become tame is noticed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from laws.check import assert_laws
from laws.elsewhere import run_elsewhere
from laws.play import Person, random_world
from laws.world import World, the_ledger, world
from search import SEARCHES

from nexus_cli.core.event import CompactionDone, ContextDrop

CHUNK = 12
FEW = 5
"""So many of a chunk the gate plays."""
FIRST = 19
"""The cheapest in which everything happens."""
SESSIONS = 1000 if SEARCHES else CHUNK
ELSEWHERE = 16
"""One session in so many goes on in another process for a while."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + SESSIONS, CHUNK))
def test_every_law_holds_over_random_sessions(first: int, place: Path, in_gate: bool) -> None:
    happened: Counter[str] = Counter()

    def elsewhere(world: World, session: str, words: list[str]) -> None:
        status, _ = run_elsewhere(world, words, session=session)
        assert status == 0
        world.clock.moment += timedelta(hours=1)

    for seed in range(first, first + (FEW if in_gate else CHUNK)):
        chosen = random_world(seed)
        with world(place / str(seed), chosen.pop("script"), **chosen) as around:  # type: ignore[arg-type]
            played = asyncio.run(Person(around, seed).live(elsewhere if seed % ELSEWHERE == 3 else None))
            refused = sum(request.fault == "overflow" for request in around.server.requests)
            with the_ledger() as ledger:
                assert_laws(ledger, played.session, around.server.requests)
        # A window that the person's own settings name is believed again whenever the session is opened.
        most = played.openings if chosen["refuse_above"] != chosen["window"] else 1
        assert refused <= most, f"seed {seed}: {refused} requests were too long for the server"
        assert "internal" not in played.kinds, f"seed {seed}"
        happened.update(refused=refused, elsewhere=played.elsewhere, interrupts=played.interrupts)
        happened.update(f"compacted {e.ok}" for e in played.events if isinstance(e, CompactionDone))
        happened.update(str(e.drop.cause) for e in played.events if isinstance(e, ContextDrop))
        happened.update(retries=sum(request.status in (429, 500, 503) for request in around.server.requests))
    wanted = ("elsewhere", "interrupts", "retries", "compacted True", "compacted False", "truncation", "output_cap")
    tame = [what for what in (*wanted, "input_cap") if not happened[what]]
    assert in_gate or not tame, f"none of {tame} in {CHUNK} sessions"
