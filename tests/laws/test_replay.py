"""Law 8: every request is rebuilt from the ledger alone, and a single flipped byte is noticed."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from laws.check import assert_laws
from laws.model import FORK, Habits, Model
from laws.play import Person
from laws.world import World, outcome, say, the_ledger, world
from search import sample, some

import nexus_cli
from nexus_cli.config.paths import defaults_dir
from nexus_cli.core.clock import format_utc
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone
from nexus_cli.ledger import Ledger
from nexus_cli.reports.check_replay import check
from nexus_cli.undo.undo_files import fork_before

PACKAGE = Path(nexus_cli.__file__).parent
ALONE = """\
import json, os, pathlib, sys
here = pathlib.Path.cwd()
import nexus_cli
assert nexus_cli.__file__.startswith(sys.argv[1]), nexus_cli.__file__
from nexus_cli.core.event import CompactionDone
from nexus_cli.config.paths import defaults_dir
assert not defaults_dir().exists()
here.rmdir()
from nexus_cli.ledger import Ledger
from nexus_cli.reports.check_replay import check
ledger = Ledger.open(pathlib.Path(sys.argv[2]))
print(json.dumps([check(ledger, session.id) for session in ledger.sessions()]))
"""


def lived(place: Path, seed: int = 2001) -> tuple[World, str]:
    """A session with everything in it."""
    script = Model(seed, "chat", Habits(calls=0.8, lines=900, bad_summary=0.3))
    with world(place, script, window=8000) as around:
        (around.folder / "NEXUS.md").write_text("Be brief.\n")
        return around, asyncio.run(Person(around, seed).live()).session


def test_replay_needs_neither_the_defaults_nor_the_working_folder(place: Path) -> None:
    around, session = lived(place)
    copy = place / "elsewhere"
    shutil.copytree(PACKAGE, copy / "nexus_cli", ignore=shutil.ignore_patterns("_defaults", "__pycache__"))
    assert defaults_dir().exists()
    shutil.rmtree(around.folder)
    gone = place / "gone"
    gone.mkdir()
    ledger = str(place / "home" / "data" / "ledger.db")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(copy), ledger],
        cwd=gone,
        env={"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers = json.loads(done.stdout)
    assert [answer["ok"] for answer in answers] == [True] and answers[0]["requests"] >= 5
    with the_ledger(place) as opened:
        assert len(opened.log(session).requests()) <= answers[0]["requests"]


def test_one_flipped_byte_in_any_text_of_a_session_is_noticed(place: Path, in_gate: bool) -> None:
    _, session = lived(place)
    path = place / "home" / "data" / "ledger.db"
    with the_ledger(place) as ledger:
        assert check(ledger, session)["ok"]
    raw = sqlite3.connect(path)
    blobs = raw.execute("SELECT id, data FROM blobs WHERE length(data) > 0").fetchall()
    unseen = []
    for blob, data in some(blobs, 16 if in_gate else 4):
        raw.execute("UPDATE blobs SET data = ? WHERE id = ?", (flip_one_bit(data), blob))
        raw.commit()
        if passes(path, session):
            unseen.append(blob)
        raw.execute("UPDATE blobs SET data = ? WHERE id = ?", (data, blob))
        raw.commit()
    raw.close()
    assert len(blobs) > 20 and not unseen, f"{len(unseen)} of {len(blobs)} texts could be changed unseen"
    assert passes(path, session)


def flip_one_bit(data: bytes) -> bytes:
    """Flip a bit near the middle that changes the text: some flips name another copy of the same bytes to zlib."""
    for place in range(len(data) // 2, len(data)):
        broken = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            if zlib.decompress(broken) == zlib.decompress(data):
                continue
        except zlib.error:
            pass
        return broken
    raise AssertionError("no bit of this text matters")


def passes(path: Path, session: str) -> bool:
    """Whether replay finds nothing; an error that names the damage is a finding."""
    ledger = Ledger.open(path)
    try:
        return bool(check(ledger, session)["ok"])
    except NexusError as error:
        assert error.kind == "ledger" and "damaged" in error.message
        return False
    finally:
        ledger.close()


@pytest.mark.matrix
def test_a_changed_row_is_named_by_its_request_and_line(place: Path) -> None:
    _, session = lived(place)
    path = place / "home" / "data" / "ledger.db"
    whole = path.read_bytes()
    for table, column, value in (
        ("entries", "preamble", "preamble || ' '"),
        ("requests", "sha256", "zeroblob(32)"),
        ("requests", "last_entry", "last_entry - 1"),
        ("slots", "preamble", "preamble || ' '"),
        ("slots", "line", "zeroblob(32)"),
    ):
        path.write_bytes(whole)
        raw = sqlite3.connect(path)
        sent = {"entries": "line IS NOT NULL", "slots": "line IS NOT NULL", "requests": "step > 1"}[table]
        raw.execute(f"UPDATE {table} SET {column} = {value} WHERE {sent}")
        assert raw.total_changes > 0
        raw.commit()
        raw.close()
        with the_ledger(place) as ledger:
            answer = check(ledger, session)
        told = answer["first_difference"]
        assert not answer["ok"] and "request" in told and "\n" not in told, f"{table}.{column}: {told}"


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(["chat", "anthropic", "gemini"], 3))
def test_what_is_sent_first_under_an_epoch_by_a_resumed_session_replays(form: str, place: Path) -> None:
    summary = {"when": {"contains": FORK}, "then": {"text": "Goal: as said. Next: go on. SUMMARY: lists " * 9}}
    listing = {"calls": [{"name": "bash", "arguments": {"command": "seq 1 400"}}]}
    script = {"rules": [summary, {"when": {"last_role": "tool"}, "then": "listed"}], "default": listing}
    with world(place, script, window=12_000, form=form) as around:

        async def live() -> str:
            session = around.open()
            for number in range(5):
                assert outcome(await say(session, f"TURN{number} list")).ok
            assert any(isinstance(event, CompactionDone) and event.ok for event in await session.compact())
            await session.aclose()
            session = around.open(session.id)
            await session.compact()
            assert outcome(await say(session, "TURN8 list")).ok
            await session.aclose()
            return session.id

        session = asyncio.run(live())
        with the_ledger() as ledger:
            assert_laws(ledger, session, around.server.requests)


def test_one_request_of_the_main_lane_can_be_replayed_alone(place: Path) -> None:
    with world(place, ["one", "two"]) as around:

        async def live() -> str:
            session = around.open()
            for words in ("FIRST", "SECOND"):
                assert outcome(await say(session, words)).ok
            await session.aclose()
            return session.id

        session = asyncio.run(live())
        with the_ledger() as ledger:
            assert check(ledger, session, 2) == {"version": 1, "ok": True, "requests": 1, "first_difference": None}
            with pytest.raises(NexusError, match="has sent 2 requests"):
                check(ledger, session, 3)


def test_a_forked_session_replays_and_goes_on_with_the_bytes_of_its_source(place: Path) -> None:
    script = Model(2002, "chat", Habits(calls=0.8, lines=900, bad_summary=0.0, broken=0.0))
    with world(place, script, window=8000) as around:

        async def go_on(session: str, words: str) -> None:
            opened = around.open(session)
            try:
                await say(opened, words)
            finally:
                await opened.aclose()

        source = asyncio.run(Person(around, 2002).live()).session
        with the_ledger() as ledger:
            fork = ledger.fork_session(source, at=format_utc(around.clock())).id
        asyncio.run(go_on(source, "SOURCE goes on"))
        asyncio.run(go_on(fork, "FORK goes on"))
        with the_ledger() as ledger:
            for session in (source, fork):
                answer = check(ledger, session)
                assert answer["ok"], answer["first_difference"]
            assert ledger.log(fork).requests()


@pytest.mark.matrix
@pytest.mark.parametrize("seed", sample([2003, 2010], 2, 1))
def test_a_session_that_goes_back_to_any_message_replays_and_keeps_its_prefix_and_drops(seed: int, place: Path) -> None:
    script = Model(seed, "chat", Habits(calls=0.8, lines=900, bad_summary=0.0, broken=0.0))
    with world(place, script, window=8000) as around:
        source = asyncio.run(Person(around, seed).live()).session
        with the_ledger() as ledger:
            log = ledger.log(source)
            starts = [one.id for one in log.read(1, log.last_id()) if one.kind is Kind.USER]
            record, drops = log.read(1, log.last_id()), log.drops()
        assert drops

        async def go_on(session: str) -> None:
            opened = around.open(session)
            try:
                await say(opened, "OTHERWISE now")
            finally:
                await opened.aclose()

        for entry in starts[1:]:
            with the_ledger() as ledger:
                fork = fork_before(ledger, source, entry).id
                kept = {drop.id for drop in ledger.log(fork).drops()}
            asyncio.run(go_on(fork))
            with the_ledger() as ledger:
                answer = check(ledger, fork)
                assert answer["ok"], answer["first_difference"]
                own = ledger.log(fork)
                said = [one for one in own.read(1, own.last_id()) if one.kind is Kind.USER]
                assert [one.id for one in said][: starts.index(entry)] == starts[: starts.index(entry)]
                assert said[starts.index(entry)].message.content.endswith("OTHERWISE now")
                assert all(own.original(name) == ledger.log(source).original(name) for name in kept)
        with the_ledger() as ledger:  # the source has lost nothing
            log = ledger.log(source)
            assert (log.read(1, log.last_id()), log.drops()) == (record, drops)
