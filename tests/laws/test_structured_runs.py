"""The laws for conversations that begin with the history of a space and have the blocks of a structured run."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.model import Habits, Model
from laws.play import furnish
from laws.world import World, say, the_ledger, world
from search import sample, some

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.run import AGENT, HUMAN, TRIGGER_MARK, Run
from nexus_cli.core.services import RunFacts
from nexus_cli.ledger import Ledger
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session import Session
from nexus_cli.spaces.run_facts import LedgerRunFacts
from nexus_cli.spaces.space_history import begin_space_run

AT = "2026-01-13T08:00:00.000Z"


def talk(ledger: Ledger, rng: random.Random) -> Run:
    """A space with a few messages of everybody, and the run that the last one starts."""
    spaces = ledger.spaces
    everybody = [
        spaces.entity(name, kind)
        for name, kind in (("Husam", HUMAN), ("Ahmad", HUMAN), ("Designer", AGENT), ("Nexus", AGENT))
    ]
    space = spaces.create("Project Alpha", AT, members=everybody)
    for number in range(rng.randint(0, 60)):
        size = rng.choice([3, 3, 20, 2000]) if rng.random() < 0.3 else 8
        spaces.post(space, rng.choice(everybody), f"message {number} " + "some words\n" * size, AT)
    posted = spaces.post(space, everybody[0], "@Nexus list the files, " + "please " * rng.choice([1, 1, 3000]), AT)
    return ledger.runs.get(posted.triggered[0][1])


async def live(around: World, ledger: Ledger, run: Run, rng: random.Random) -> str:
    """The turns of a run: its trigger, a kill in between, going on, a compaction, and what came meanwhile."""

    def opened(session: str = "") -> Session:
        facts = ServiceMaker(RunFacts, lambda session: LedgerRunFacts(ledger, run))
        return around.open(session, services=(facts,), recipe="tick_event", require_save=True)

    session = opened()
    try:
        trigger = await begin_space_run(session, run)
        stop_at = rng.choice([-1, rng.randint(3, 12)])
        await say(session, trigger, lambda event, number: session.cancel("person") if number == stop_at else None)
        for number in range(3):
            if rng.random() < 0.6:
                await session.aclose()
                session = opened(session.id)
                assert not (await begin_space_run(session, run)).text, "the trigger is there"
            if rng.random() < 0.4:
                await session.compact()
            facts = {"type": "resume", "waitedFor": "a reply of Husam", "reply": f"answer {number}"}
            await say(session, Trigger(f"The wait is over: {number}. " + "words " * 50, "resume", facts=facts))
    finally:
        await session.aclose()
    return session.id


@pytest.mark.parametrize("seed", sample(some([0, 1, 3, 4, 2, 5], 2), 3))
def test_every_law_holds_for_a_run_in_a_space(seed: int, place: Path) -> None:
    rng = random.Random(f"structured {seed}")
    form = ("chat", "chat", "anthropic", "gemini")[seed % 4]
    habits = Habits(broken=0.0) if form != "chat" else Habits()
    window = rng.choice([9000, 16_000, 40_000])
    more: dict[str, Any] = {"window": window, "form": form, "refuse_above": window}
    with world(place, Model(seed, form, habits), **more) as around:
        furnish(around.folder)
        with the_ledger() as ledger:
            run = talk(ledger, rng)
            session = asyncio.run(live(around, ledger, run, rng))
        with the_ledger() as ledger:
            sent = assert_laws(ledger, session, around.server.requests)
    assert sent and all(request.tokens.input <= window for request in around.server.requests)
    for one in (one for one in sent if one.tries and "tools" in one.tries[0].body and form == "chat"):
        messages = one.tries[0].body["messages"]
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
        assert "INSTRUCTIONS:\n  - " in messages[0]["content"]
        text = "\n".join(str(message.get("content")) for message in messages)
        assert text.count(TRIGGER_MARK) <= 1, "it may have gone into a summary"
