"""All laws over random sessions that go on in a fresh invocation again and again, at whatever point they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from laws.check import assert_laws
from laws.play import Person, random_world
from laws.world import World, say, the_ledger, world
from search import SEARCHES, sample

from nexus_cli.conversation.compaction.recap import SHARE
from nexus_cli.core.attachment import Trigger
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.session.session import Session

SESSIONS = 400 if SEARCHES else 4


class Sleeper(Person):
    """Lets the session sleep and go on between turns, in this process or as another one finds it."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.resumed = 0

    async def _between(self, session: Session, number: int) -> Session:
        session = await super()._between(session, number)
        if number and self.rng.random() < 0.8:
            if self.rng.random() < 0.5:
                await session.aclose()
                session = self.world.open(session.id)
                self.played.openings += 1
            came = ("[2026-01-13T09:30:00Z] nexus: a.txt has changed",)
            trigger = Trigger(self._words(0.1), source="resume", actor="nexus", fresh=True, came=came)
            self._note(await say(session, trigger, self._acting(session)))
            self.resumed += 1
        return session


def fresh_heads(ledger: Ledger, session: str) -> list[tuple[LaneLog, int]]:
    """The epochs that a resume began."""
    log = ledger.log(session)
    return [(log, number) for number in range(log.next_epoch()) if log.epoch(number).cause == "resume"]


@pytest.mark.matrix
@pytest.mark.parametrize("seed", sample(range(1000, 1000 + SESSIONS), 4, 1))
def test_every_law_holds_when_a_run_sleeps_and_goes_on_at_any_point(seed: int, place: Path) -> None:
    chosen = random_world(seed)
    with world(place / str(seed), chosen.pop("script"), **chosen) as around:  # type: ignore[arg-type]
        sleeper = Sleeper(around, seed)
        played = asyncio.run(sleeper.live())
        with the_ledger() as ledger:
            assert_laws(ledger, played.session, around.server.requests)
            begun = fresh_heads(ledger, played.session)
            for log, number in begun:
                (recap,) = log.epoch(number).head
                text = recap.message.content
                assert text.endswith("a.txt has changed  <- RESUME") and text.count("<- RESUME") == 1
                assert recap.tokens <= SHARE * around.window
    assert "internal" not in played.kinds
    assert len(begun) >= min(1, sleeper.resumed)
