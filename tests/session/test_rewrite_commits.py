"""An epoch is recorded together with what is noted of it: whatever ends the process, there is never one without."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from session.played import the_ledger
from session.summed import Summariser, done, ended, living, turn

from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.memo_kinds import COMPACTION, REWRITE, UNDONE_COMPACTION
from nexus_cli.core.request import Request
from nexus_cli.ledger import LaneLog, Ledger, database
from nexus_cli.session.acts.compaction import uncompaction

WANTED = {
    "compaction": {REWRITE, COMPACTION},
    "undo": {REWRITE, COMPACTION},
    "truncation": {REWRITE},
    "reload": {REWRITE},
}


def missing(ledger: Ledger) -> list[tuple[int, set[str]]]:
    """The epochs of which something is not noted, and what."""
    lane = ledger.session(ledger.sessions()[0].id).main_lane
    found = []
    for number in range(1, on(ledger, lane).next_epoch()):
        cause = on(ledger, lane).epoch(number).cause
        there = {memo.kind for memo in on(ledger, lane).memos() if memo.value.get("epoch") == number}
        found.append((number, WANTED[cause] - there))
    undos = sum(on(ledger, lane).epoch(number).cause == "undo" for number in range(1, on(ledger, lane).next_epoch()))
    if len(on(ledger, lane).memos(UNDONE_COMPACTION)) < undos:
        found.append((-1, {UNDONE_COMPACTION}))
    return [(number, kinds) for number, kinds in found if kinds]


@pytest.mark.matrix
async def test_at_no_commit_is_there_an_epoch_without_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen, looking = database.commit, [0], False
    lacking: list[tuple[int, set[str]]] = []

    def commit(connection: sqlite3.Connection) -> None:
        nonlocal looking
        real(connection)
        if looking or not seen[0]:
            return
        looking = True
        with the_ledger() as ledger:
            lacking.extend(missing(ledger))
        looking = False

    monkeypatch.setattr(database, "commit", commit)
    async with living(tmp_path, Summariser(), *(f"TURN{number} make a list" for number in range(5))) as session:
        seen[0] = 1
        assert ended(await session.compact()).ok
        await done(session, uncompaction())
        session.reload()
        (tmp_path / "NEXUS.md").write_text("Say moin.\n")
        await turn(session, "and now")
    assert lacking == []
    with the_ledger() as ledger:
        lane = ledger.session(ledger.sessions()[0].id).main_lane
        causes = [on(ledger, lane).epoch(number).cause for number in range(1, on(ledger, lane).next_epoch())]
    assert {"compaction", "undo", "reload"} <= set(causes)


@pytest.mark.matrix
async def test_a_truncation_is_priced_in_the_same_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[set[str]] = []
    begin = LaneLog.begin_epoch

    def begun(self: LaneLog, epoch: Any, left_out: Any, noted: Any = ()) -> None:
        if epoch.cause == "truncation":
            epochs.append({memo.kind for memo in noted})
        begin(self, epoch, left_out, noted)

    def nothing(request: Request) -> str:
        return ""

    monkeypatch.setattr(LaneLog, "begin_epoch", begun)
    words = (f"TURN{number} make a list" for number in range(4))
    long = Summariser(nothing, lambda request: "listed " * 2000)
    async with living(tmp_path, long, *words, window=12_000):
        pass
    assert epochs and all(kinds == {REWRITE} for kinds in epochs)


@pytest.mark.matrix
async def test_a_rewrite_that_cannot_be_recorded_leaves_the_window_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, Summariser(), "TURN0 make a list", "TURN1 make a list") as session:
        lane = session.context.conversation
        before = (lane.epoch.id, lane.items, lane.counted, lane.last_sent)

        def failing(*_: Any) -> None:
            raise UsageError("not today", "a test")

        monkeypatch.setattr(lane.log, "begin_epoch", failing)
        with pytest.raises(NexusError, match="not today"):
            lane.rewrite(lane.items[-2:], "truncation", ())
        assert (lane.epoch.id, lane.items, lane.counted, lane.last_sent) == before
