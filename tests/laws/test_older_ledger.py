"""A ledger of version 0.1 as it was before memos, facts and bodies were kept: brought forward, and still replayable.

`tests/ledger/before_memos.db.gz` was written by that version: 27 requests, a truncation, a compaction, seven turns.
"""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

from laws.model import Habits, Model
from laws.world import outcome, say, the_ledger, world

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Cause, Drop, Memo
from nexus_cli.ledger import schema
from nexus_cli.session.options import Options
from nexus_cli.session.replay import check
from nexus_cli.session.replay_wire import check_wire
from nexus_cli.session.reports.context import report
from nexus_cli.session.reports.drops import of_session

OLD = Path(__file__).parent.parent / "ledger" / "before_memos.db.gz"
MODEL = Model(5, "chat", Habits(calls=0.5, broken=0.0, retry=0.0, odd=0.0, repeat=0.0, lines=60))


def unpacked() -> None:
    path = places().ledger
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    path.chmod(0o600)


def test_a_ledger_from_before_is_brought_forward_and_replays(place: Path) -> None:
    with world(place, MODEL, window=7000, steps=12) as around:
        unpacked()
        with the_ledger() as ledger:
            assert ledger._db.one("PRAGMA user_version") == (len(schema.STEPS),)
            (session,) = ledger.sessions()
            before: dict[str, Any] = check(ledger, session.id)
            assert before["ok"] and before["requests"] == 27
            assert {row.sent for row in ledger.manifests(session.main_lane)} == {""}
            assert asyncio.run(check_wire(ledger, session.id, Settings()))["equal"] == 0
            assert ledger.memos(session.main_lane, "pin") == []
            ledger.record_memo(session.main_lane, Memo("pin", session.updated, session.entries, {"id": "p1"}))
            assert [memo.value for memo in ledger.memos(session.main_lane, "pin")] == [{"id": "p1"}]
            cut = Drop(ledger.next_drop(session.id), "a result", 9, Cause.OUTPUT_CAP, session.updated, text="x" * 99)
            ledger.record_drop(session.main_lane, cut)
            drops = of_session(ledger, session.id)
            assert drops["left_out"] == len(drops["drops"]) > 1 and drops["drops"][-1]["id"] == cut.id
        for step in (3, None):
            shown = report(Options(around.folder, around.model), around.settings, session.id, step)
            assert shown["sections"] and bool(shown["drops"]) == (step is None)

        async def live() -> None:
            opened = around.open(session.id)
            for words in ("go on where we were", "and once more"):
                assert outcome(await say(opened, words)).error is None
            await opened.aclose()

        asyncio.run(live())
        with the_ledger() as ledger:
            after = check(ledger, session.id)
            assert after["ok"] and after["requests"] >= 29
        shown = report(Options(around.folder, around.model), around.settings, session.id, 3)
        assert shown["sections"] and shown["request_sha256"]
