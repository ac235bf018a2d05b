"""Ledgers of former versions open, replay, and go on with the bytes that were sent.

`tests/ledger/schema_N.db.gz` was written by the last version with that schema: a session of seven turns with a
compaction, of schema 2 also with a truncation, from schema 8 on with a known price. A new step of the schema needs a
file of its own here.
"""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.wire_replay import check_wire
from laws.check import wire_sha256
from laws.model import Habits, Model
from laws.world import outcome, say, the_ledger, world
from search import sample
from session.played import context_report

from nexus_cli.commands.drops import session_drops
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Cause, Drop, Memo
from nexus_cli.core.json_value import to_json_value
from nexus_cli.ledger import Ledger, schema
from nexus_cli.reports.check_replay import check
from nexus_cli.session.options import Options

STORED = Path(__file__).parent.parent / "ledger"
VERSIONS = range(1, len(schema.STEPS) + 1)
MODEL = Model(5, "chat", Habits(calls=0.5, broken=0.0, retry=0.0, odd=0.0, repeat=0.0, lines=60))


def unpack(version: int) -> None:
    path = places().ledger
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(gzip.decompress((STORED / f"schema_{version}.db.gz").read_bytes()))
    path.chmod(0o600)


def read_tables(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return type, name and statement, without its blanks, of each table and index of a ledger in a file."""
    rows = ledger.db.all("SELECT type, name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name")
    return [(kind, name, "".join(sql.split())) for kind, name, sql in rows]


def begins_with(body: dict[str, Any], sha256: str) -> bool:
    """True if the first lines of a request are those with this hash."""
    messages = body["messages"]
    return any(wire_sha256({**body, "messages": messages[:end]}) == sha256 for end in range(len(messages)))


@pytest.mark.matrix
@pytest.mark.parametrize("version", sample(VERSIONS, 3))
def test_a_session_of_every_schema_opens_replays_and_goes_on_with_the_same_prefix(place: Path, version: int) -> None:
    with world(place, MODEL, window=9000, steps=12) as around:
        unpack(version)
        with sqlite3.connect(places().ledger) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        connection.close()
        with the_ledger() as ledger:
            (session,) = ledger.sessions()
            before = ledger.log(session.id).requests()
            assert check(ledger, session.id)["ok"] and len(before) >= 10
            assert session.front == ("chat" if version >= 5 else "ask"), "by its recipe where it was not recorded"

        async def live() -> None:
            opened = around.open(session.id)
            assert outcome(await say(opened, "go on where we were")).ok
            await opened.aclose()

        asyncio.run(live())
        with the_ledger() as ledger:
            after = ledger.log(session.id).requests()
            assert check(ledger, session.id)["ok"] and after[: len(before)] == before
        assert after[len(before)].manifest.epoch == before[-1].manifest.epoch
        assert begins_with(around.server.requests[0].body, before[-1].manifest.sha256)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_ledger_gets_the_tables_of_a_new_one(place: Path, version: int) -> None:
    with world(place, MODEL):
        unpack(version)
        with the_ledger() as ledger, closing(Ledger.open(None)) as new:
            assert read_tables(ledger) == read_tables(new)


@pytest.mark.parametrize(("version", "has_parts"), [(8, False), (9, True)])
def test_a_cost_without_parts_stays_so_and_one_with_parts_keeps_them(
    place: Path, version: int, has_parts: bool
) -> None:
    with world(place, MODEL):
        unpack(version)
        with the_ledger() as ledger:
            (session,) = ledger.sessions()
            used = [row.counted for log in ledger.logs(session.id) for row in log.requests()]
            assert to_json_value(ledger.usage(session.id))["cost_usd"] == session.cost_usd == 0.03294
            assert all(one.cost_usd and (one.known_cost is not None) == has_parts for one in used)
            assert (to_json_value(ledger.usage(session.id))["cost"] is not None) == has_parts
            assert (session.saved_usd > 0) == has_parts and session.saved_usd == ledger.usage(session.id).cost.saved


@pytest.mark.matrix
def test_what_an_older_ledger_lacked_is_kept_from_now_on(place: Path) -> None:
    with world(place, MODEL, window=7000, steps=12) as around:
        unpack(2)
        with the_ledger() as ledger:
            assert ledger.db.one("PRAGMA user_version") == (len(schema.STEPS),)
            (session,) = ledger.sessions()
            before: dict[str, Any] = check(ledger, session.id)
            assert before["ok"] and before["requests"] == 27
            assert {row.sent_body for row in ledger.log(session.id).requests()} == {""}
            assert asyncio.run(check_wire(ledger, session.id, Settings()))["equal"] == 0
            assert ledger.log(session.id).memos("pin") == []
            ledger.log(session.id).record_memo(Memo("pin", session.updated, session.entries, {"id": "p1"}))
            assert [memo.value for memo in ledger.log(session.id).memos("pin")] == [{"id": "p1"}]
            log = ledger.log(session.id)
            cut = Drop(log.next_drop(), "a result", 9, Cause.OUTPUT_CAP, session.updated, text="x" * 99)
            log.record_drop(cut)
            drops = session_drops(ledger, session.id)
            assert drops["left_out"] == len(drops["drops"]) > 1 and drops["drops"][-1]["id"] == cut.id
        for step in (3, None):
            shown = context_report(Options(around.folder, around.model), around.settings, session.id, step)
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
        shown = context_report(Options(around.folder, around.model), around.settings, session.id, 3)
        assert shown["sections"] and shown["request_sha256"]
