"""A compaction is taken back: the former head and everything since, over restarts, over several of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.played import Played, the_ledger
from session.summed import Summariser, done, ended, living, noted, turn, window_hash

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Epoch
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.check_replay import check
from nexus_cli.session.acts.compaction import uncompaction
from nexus_cli.session.session import Session

TURNS = tuple(f"TURN{number} make a list" for number in range(5))


def shown(session: Session) -> list[str]:
    return [item.message.content for item in session.context.conversation.items]


def assert_replays(session: str) -> None:
    with the_ledger() as ledger:
        assert check(ledger, session)["ok"]


@pytest.mark.matrix
async def test_undo_works_after_a_restart_and_back_over_several_compactions(tmp_path: Path) -> None:
    hashes = []
    async with living(tmp_path, Summariser(), *TURNS, window=40_000) as session:
        for number in range(2):
            hashes.append(shown(session))
            assert ended(await session.compact()).ok
            for more in range(4):
                await turn(session, f"MORE{number}{more} make a list")
    async with living(tmp_path, Summariser(), again=session.id, window=40_000) as again:
        tail = [item.message.content for item in again.context.conversation.tail]
        await done(again, uncompaction())
        assert shown(again) == hashes[1] + tail
        await turn(again, "BETWEEN make a list")
    async with living(tmp_path, Summariser(), again=session.id, window=40_000) as third:
        await done(third, uncompaction())
        assert shown(third)[: len(hashes[0])] == hashes[0]
        assert [t for t in shown(third) if t.startswith(("TURN", "MORE", "BETWEEN"))] == [
            *TURNS,
            *(f"MORE{a}{b} make a list" for a in range(2) for b in range(4)),
            "BETWEEN make a list",
        ]
        with pytest.raises(NexusError, match="nothing to undo"):
            await done(third, uncompaction())
        await turn(third, "go on")
    assert_replays(session.id)


@pytest.mark.matrix
async def test_undo_gives_back_the_system_text_and_the_tools_of_the_former_epoch(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as asked:
        before = asked.context.conversation.epoch
    async with living(tmp_path, Summariser(), again=asked.id, interactive=True) as session:
        assert ended(await session.compact()).ok
        assert session.context.conversation.epoch.tools == before.tools, "also where a person is there"
        await done(session, uncompaction())
        after = session.context.conversation.epoch
        assert (after.system, after.tools) == (before.system, before.tools)
        await turn(session, "go on")
        assert session.context.conversation.epoch.tools == before.tools
    assert_replays(session.id)


@pytest.mark.matrix
async def test_undo_gives_back_the_instructions_that_the_provider_has_cached(tmp_path: Path) -> None:
    provider = Played(Summariser())
    (tmp_path / "NEXUS.md").write_text("Always run the linter.\n")

    async with living(tmp_path, None, *TURNS, provider=provider) as session:
        before, sent = session.context.conversation.epoch, provider.seen[-1]
        (tmp_path / "NEXUS.md").write_text("Never run the linter.\n")
        assert ended(await session.compact()).ok
        await turn(session, "SINCE make a list")
        assert "Never run the linter." in session.context.conversation.epoch.system
        said = noted(await done(session, uncompaction()))
        assert (
            session.context.conversation.epoch.system == before.system
            and "prompt from before the compaction is back" in said
        )
        await turn(session, "go on")
        assert provider.seen[-1][: len(sent)] == sent, "the cached beginning"
    assert_replays(session.id)


@pytest.mark.matrix
async def test_what_no_longer_fits_is_refused_with_figures_and_nothing_changes(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS * 3, window=26_000) as session:
        assert ended(await session.compact()).ok
    async with living(tmp_path, Summariser(), again=session.id, window=9000) as small:
        before = window_hash(small)
        with pytest.raises(NexusError, match=r"the former messages need [\d,]+ tokens, but only [\d,]+ fit") as caught:
            await done(small, uncompaction())
        assert caught.value.kind == "overflow" and window_hash(small) == before
    assert_replays(session.id)


@pytest.mark.matrix
async def test_what_was_undone_is_not_summed_up_again_at_once(tmp_path: Path) -> None:
    script = Summariser()

    async with living(tmp_path, script, *TURNS * 2, window=26_000) as session:
        assert ended(await session.compact()).ok
        await done(session, uncompaction())
        engine = session.engine
        engine.settings = replace(engine.settings, compact=replace(engine.settings.compact, at=0.3))
        asked = len(script.asked)
        for number in range(3):
            await turn(session, f"AFTER{number} make a list")
        assert len(script.asked) == asked


@pytest.mark.matrix
async def test_an_undone_session_that_is_forked_replays_whole(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        assert ended(await session.compact()).ok
        await turn(session, "SINCE make a list")
        await done(session, uncompaction())
        await turn(session, "go on")
    with the_ledger() as ledger:
        fork = ledger.fork_session(session.id, at="2026-01-13T09:30:00Z").id
    async with living(tmp_path, Summariser(), "only here", again=fork) as forked:
        with pytest.raises(NexusError, match="nothing to undo"):
            await done(forked, uncompaction())
    for name in (session.id, fork):
        assert_replays(name)


def epochs(causes: list[str]) -> list[Epoch]:
    return [
        Epoch(number, number - 1 if number else None, cause, "m", "", (), "", (), number)
        for number, cause in enumerate(["start", *causes])
    ]


@given(st.lists(st.sampled_from(["compaction", "overflow", "truncation", "model", "undo"]), max_size=12))
def test_each_undo_takes_back_the_newest_compaction_in_force(causes: list[str]) -> None:
    """Beside a model that keeps a stack."""
    made = epochs(causes)
    stack: list[int] = []
    for epoch in made:
        if epoch.cause in ("compaction", "overflow"):
            stack.append(epoch.id)
        elif epoch.cause == "undo" and stack:
            stack.pop()
        elif epoch.cause == "undo":
            return  # nothing was there to undo: such an epoch is never made
    log = MemoryLog()
    for epoch in made:
        log.begin_epoch(epoch, ())
    conversation = Conversation(log, local_now, lambda message, preamble: 1)
    conversation.epoch = made[-1]
    found = conversation.compaction_in_force()
    assert (found.id if found else None) == (stack[-1] if stack else None)


@pytest.mark.matrix
async def test_a_window_shows_what_it_adds_to_a_message_also_when_it_is_restored(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        lane = session.context.conversation
        head = lane.restored_head(replace(lane.epoch, head=(), base=0))
        assert list(head) == lane.items and any(item.preamble for item in head)
