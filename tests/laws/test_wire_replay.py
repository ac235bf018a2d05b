"""Law 8 down to the bytes: the same version of litellm makes of a stored request the body that was sent."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from benchmarks.wire_replay import check_wire
from laws.model import Habits, Model
from laws.world import MODELS, World, outcome, say, the_ledger, world
from ledger.conftest import on
from search import sample

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.compaction.make_room import draft_truncation

QUIET = Habits(calls=0.7, broken=0.0, retry=0.0, odd=0.0, repeat=0.0, lines=60)


def lived(around: World) -> str:
    """Two turns, the second in a session that was opened anew."""

    async def live() -> str:
        session = ""
        for words in ("first words", "then: ümläute, 上下文 and \x1b[31m"):
            opened = around.open(session)
            assert outcome(await say(opened, words)).error is None
            session = opened.id
            await opened.aclose()
        return session

    return asyncio.run(live())


def checked(session: str, step: int | None = None) -> dict[str, Any]:
    with the_ledger() as ledger:
        return asyncio.run(check_wire(ledger, session, Settings(), step))


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(list(MODELS), 2))
def test_the_bodies_made_again_are_what_the_server_received(place: Path, form: str) -> None:
    with world(place, Model(3, form, QUIET), form=form, steps=30) as around:
        session = lived(around)
        with the_ledger() as ledger:
            rows = ledger.log(session).requests()
        received = {hashlib.sha256(request.raw).hexdigest() for request in around.server.requests}
        assert len(rows) >= 3
        assert {row.sent_body.rpartition(" ")[2] for row in rows} == received
        found = checked(session)
        assert found["differ"] == [] and found["skipped"] == {}
        assert found["equal"] == len(rows)
        assert checked(session, 1)["equal"] == 1
        assert len(around.server.requests) == len(received), "nothing was sent to the provider again"
        with pytest.raises(NexusError, match="has sent"):
            checked(session, 99)


@pytest.mark.matrix
def test_another_body_and_another_version_are_told_apart(place: Path) -> None:
    with world(place, Model(4, "chat", QUIET), steps=30) as around:
        session = lived(around)
        with the_ledger() as ledger:
            lane = ledger.session(session).main_lane
            library = on(ledger, lane).requests()[0].sent_body.rpartition(" ")[0]
            for step, sent in ((1, f"{library} {'0' * 64}"), (2, f"litellm 0.0.1 {'0' * 64}"), (3, "")):
                with ledger.db.write():
                    ledger.db.run("UPDATE requests SET sent = ? WHERE lane = ? AND step = ?", sent, lane, step)
        found = checked(session)
        assert found["differ"] == [1]
        assert found["skipped"] == {
            f"it was made by litellm 0.0.1, here is {library}": [2],
            "its body was not recorded": [3],
        }


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(["chat", "anthropic"], 2))
def test_the_first_bodies_of_new_epochs_and_of_forks_are_the_same_too(place: Path, form: str) -> None:
    """Claude's cache marks say how much of a request was sent before: after a rewrite that is what both begin with."""
    with world(place, Model(6, form, QUIET), form=form, steps=30) as around:

        async def live() -> tuple[str, list[str]]:
            opened = around.open()
            for words in ("first words", "second words", "third words"):
                assert outcome(await say(opened, words)).error is None
            opened.reload()
            (around.folder / "NEXUS.md").write_text("Be brief.\n")
            assert outcome(await say(opened, "after a reload")).error is None
            engine = opened.engine
            engine.begin_epoch(await draft_truncation(engine))
            assert outcome(await say(opened, "after a cut")).error is None
            await opened.aclose()
            with the_ledger() as ledger:
                fork = ledger.fork_session(opened.id, at="2026-01-13T10:00:00Z").id
            again = around.open(fork)
            assert outcome(await say(again, "in the fork")).error is None
            await again.aclose()
            return opened.id, [opened.id, fork]

        first, both = asyncio.run(live())
        with the_ledger() as ledger:
            rows = ledger.log(first).requests()
            assert len({row.manifest.epoch for row in rows}) >= 3
        for session in both:
            found = checked(session)
            assert found["differ"] == [] and found["skipped"] == {} and found["equal"]
