"""Processes that are killed outright, around each kind of commit and inside a tool: nothing confirmed is lost, and the
next process goes on with the same bytes."""

from __future__ import annotations

import asyncio
import re
import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws, matched
from laws.elsewhere import run_elsewhere
from laws.model import FORK, TRANSCRIPT
from laws.world import World, outcome, say, the_ledger, world
from ledger.conftest import on
from program.nursery import run_born
from search import sample, some
from server.blocks import content

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import UNKNOWN_OUTCOME
from nexus_cli.engine.calls.dispatch import NOT_RUN
from nexus_cli.ledger import Ledger

WINDOW = 8000
KILLS = [
    ("append user", 1),
    ("append user", 2),
    ("append tool", 1),
    ("append tool", 3),
    ("append instruction", 1),
    ("sending", 1),
    ("sending", 3),
    ("replied", 1),
    ("replied", 3),
    ("started", 1),
    ("started", 3),
    ("drop", 1),
    ("begin_epoch", 1),
    ("begin_epoch", 2),
]


@dataclass
class Worker:
    """A model that runs three long commands a turn, each of which leaves a line of its own in `ran.txt`."""

    number: int = 0
    kill: bool = False
    """Its next command kills the process that runs it."""

    def __call__(self, body: Any) -> dict[str, Any]:
        """Commands for words, words for results, a summary when asked for one."""
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": "Goal: as said. Next: go on. SUMMARY: " + "work was done. " * 10}
        if last.role == "tool" or "go on" in last.text:
            return {"text": f"done {self.number}"}
        calls = []
        for place in range(3):
            self.number += 1
            command = f"echo {self.number} >> ran.txt; seq 1 1500"
            if self.kill and place == 1:
                command = f"echo {self.number} >> ran.txt; kill -9 $(cat pid); sleep 1"
                self.kill = False
            calls.append({"name": "bash", "arguments": {"command": command}})
        return {"calls": calls}


def ran(around: World) -> list[str]:
    """The commands that ran, by number."""
    file = around.folder / "ran.txt"
    return file.read_text().split() if file.exists() else []


def assert_confirmed(ledger: Ledger, confirmed: list[str]) -> None:
    """Every commit that had returned before the kill is in the ledger."""
    for said in confirmed:
        *kind, lane, key = said.split()
        where = int(lane)
        match kind:
            case ["append", name]:
                entries = on(ledger, where).read(int(key), int(key))
                assert entries and entries[0].kind == name, said
            case ["sending"]:
                assert any(row.manifest.step == int(key) for row in on(ledger, where).requests()), said
            case ["replied"]:
                assert any(row.manifest.step == int(key) and row.finish for row in on(ledger, where).requests()), said
            case ["begin_epoch"]:
                assert on(ledger, where).epoch(int(key)).id == int(key)
            case ["started"]:
                assert on(ledger, where).was_started(key), said
            case ["drop"]:
                assert any(ledger.log(info.id).original(key) for info in ledger.sessions(None, 9)), said
            case other:
                raise AssertionError(f"an unknown kind: {other}")


def assert_sound(ledger: Ledger, confirmed: list[str]) -> None:
    """The file is whole."""
    if ledger.path is not None:
        assert ledger.db.all("PRAGMA integrity_check") == [("ok",)]
        assert ledger.db.all("PRAGMA foreign_key_check") == []
    assert_confirmed(ledger, confirmed[1:])
    for info in ledger.sessions(None, 9):
        for row in (row for log in ledger.logs(info.id) for row in log.requests()):
            after = on(ledger, row.lane).read(row.manifest.last + 1, row.manifest.last + 1)
            answered = [entry.id for entry in after if entry.kind is Kind.ASSISTANT]
            assert bool(answered) == (row.usage is not None), "a reply without what it used, or the reverse"


def results(ledger: Ledger, session: str) -> dict[str, Entry]:
    """Call id to its result in the main lane."""
    main = ledger.session(session).main_lane
    entries = on(ledger, main).read(1, on(ledger, main).last_id())
    return {entry.message.tool_call_id or "": entry for entry in entries if entry.kind is Kind.TOOL}


async def go_on(around: World, words: str) -> str:
    """Resume the newest session of the folder here, for one turn; its id."""
    around.clock.moment += timedelta(hours=1)
    session = around.open(newest=True)
    try:
        ended = outcome(await say(session, words))
        assert ended.ok, ended.error
    finally:
        await session.aclose()
    return session.id


@pytest.mark.parametrize(
    ("kind", "nth", "when"),
    sample([*((*kill, "after") for kill in KILLS), *((*kill, "before") for kill in some(KILLS, 3, 2))], 9, 3),
)
def test_a_kill_around_any_commit_loses_nothing_and_resuming_goes_on(
    kind: str, nth: int, when: str, place: Path
) -> None:
    with world(place, Worker(), window=WINDOW) as around:
        status, confirmed = run_elsewhere(around, ["first", "second", "third"], kind=kind, nth=nth, when=when)
        assert status == -signal.SIGKILL, "the commit was never reached"
        with the_ledger() as ledger:
            assert_sound(ledger, confirmed)
        session = asyncio.run(go_on(around, "go on"))
        assert confirmed[0] == f"session {session}"
        with the_ledger() as ledger:
            assert_confirmed(ledger, confirmed[1:])
            assert_laws(ledger, session, around.server.requests)
            main = ledger.session(session).main_lane
            for call, entry in results(ledger, session).items():
                assert entry.message.content != UNKNOWN_OUTCOME or on(ledger, main).was_started(call)
        assert len(set(ran(around))) == len(ran(around)), "a command ran twice"


@pytest.mark.parametrize("words", sample(["go on", ""], 2))
def test_a_call_whose_process_died_is_answered_as_unknown_and_not_run_again(words: str, place: Path) -> None:
    with world(place, Worker(kill=True), window=WINDOW) as around:
        status, confirmed = run_elsewhere(around, ["first"])
        assert status == -signal.SIGKILL
        session = asyncio.run(go_on(around, words))
        with the_ledger() as ledger:
            assert_sound(ledger, confirmed)
            assert_laws(ledger, session, around.server.requests)
            answers = [entry.message.content for entry in results(ledger, session).values()]
        assert "1500" in answers[0] and answers[1] == UNKNOWN_OUTCOME
        # With new words the rest is not run; without any the turn goes on where it was.
        assert answers[2] == NOT_RUN if words else "1500" in answers[2]
        assert ran(around) == (["1", "2"] if words else ["1", "2", "3"])


@pytest.mark.matrix
def test_the_program_itself_goes_on_after_a_kill_with_the_same_bytes(place: Path) -> None:
    with world(place, Worker(kill=True), window=WINDOW) as around:
        status, _ = run_elsewhere(around, ["first"])
        assert status == -signal.SIGKILL
        before = len(around.server.requests)
        done = run_born(["ask", "-c", "--allow", "all", "go on"], cwd=around.folder)
        assert (done.returncode, done.stdout) == (0, b"done 3\n"), done.stderr
        last = around.server.requests[-1]
        assert len(around.server.requests) == before + 1
        with the_ledger() as ledger:
            session = ledger.sessions()[0].id
            assert_laws(ledger, session, around.server.requests)
            sent = matched(ledger, session, around.server.requests)
        assert {one.row.manifest.epoch for one in sent} == {0}
        told = [message["content"] for message in last.body["messages"] if message["role"] == "tool"]
        assert [bool(re.search(UNKNOWN_OUTCOME, text)) for text in told] == [False, True, False]
        assert ran(around) == ["1", "2"]
