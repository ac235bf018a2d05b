"""A disk that is full for a while: the laws hold for the whole session, and its file has all of it in the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.world import outcome, say, the_ledger, world
from ledger.test_return_to_file import Disk
from program.mistakes import FULL_DISK

from nexus_cli.conversation.compaction.pins import add_pin, list_pins
from nexus_cli.core.event import Notice
from nexus_cli.ledger import file_journal
from nexus_cli.reports.export import session_pieces

TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z")
"""A moment of the clock, which is looked at for what is told too; `tests/ledger` compares the times of each call."""
FULL = [False, True, True, False, True, False, True]
"""For each turn, whether the disk is full."""


def live(place: Path, is_full: list[bool]) -> list[str]:
    """Play turns, a pin and a compaction; return the lines of the exports, without what differs in any two sessions and
    what was told of the disk."""
    numbers = count(1)

    def answer(body: Any) -> dict[str, Any]:
        if "SUMMARY" in json.dumps(body["messages"][-1]):
            return {"text": "Goal: as said. Next: go on"}
        number = next(numbers)
        if number % 3 == 2:
            return {"calls": [{"name": "bash", "arguments": {"command": f"echo result {number}; seq 4000"}}]}
        return {"text": f"answer {number} " * 300}

    with world(place, answer, window=24_000) as around:

        async def play() -> tuple[str, list[str]]:
            session = around.open()
            assert session.ledger is not None
            disk: Any = Disk(session.ledger.db.connection)
            session.ledger.db.connection = disk
            told = list[str]()
            for number, disk.is_full in enumerate(is_full):
                session.record._journal._retry_at = 0.0  # type: ignore[attr-defined]
                shown = await say(session, f"words {number} " * 400)
                assert outcome(shown).ok, outcome(shown)
                if number == 2:
                    add_pin(session.engine.conversation, "words 2", len)
                    shown += await session.compact()
                told += [event.text for event in shown if isinstance(event, Notice) and "ledger" in event.text]
                assert session.saved is not disk.is_full
            disk.is_full = False
            await session.aclose()
            assert session.saved
            return session.id, told

        name, told = asyncio.run(play())
        assert ["memory only" in line for line in told] == [True, False, True, False, True] * any(is_full), told
        with the_ledger() as ledger:
            sent = assert_laws(ledger, name, around.server.requests)
            assert all(one.row.finish for one in sent) and len(sent) == len(around.server.requests)
            assert [pin.text for pin in list_pins(ledger.log(name))] == ["words 2"]
            assert len(ledger.logs(name)) >= 2 and ledger.log(name).next_epoch() >= 2
            info = ledger.session(name)
            text = "".join("".join(session_pieces(ledger.log(name), info, form)) for form in ("md", "jsonl"))
        text = TIME.sub("TIME", text.replace(name, "ID").replace(str(place), "PLACE"))
        return [line for line in text.splitlines() if line and "the ledger c" not in line]


def test_turns_and_a_compaction_on_a_full_disk_are_whole_in_the_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay and export are those of a session whose disk was never full."""
    monkeypatch.setattr(file_journal, "RETRY_SECONDS", 0.0)
    assert live(place / "full", FULL) == live(place / "free", [False] * len(FULL))


ON_TMPFS = (
    FULL_DISK.replace("size=64k", "size=2m").rpartition("open(")[0]
    + """
import json
from contextlib import closing
from ledger.conftest import new, user
from nexus_cli.config.paths import places
from nexus_cli.ledger import Ledger, SessionLog, file_journal
file_journal.RETRY_SECONDS = 0.0
ledger, said = Ledger.open(places().ledger), []
info = new(ledger)
log = SessionLog.for_session(ledger, info.id, require_save=False, warn=said.append)
states, number = [], 0

def add(count):
    global number
    for _ in range(count):
        number += 1
        log.append(user(number, os.urandom(4000).hex()))
    states.append(log.is_saving)

add(5)
with open(f"{home}/full", "wb", 0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
add(5)
side = log.open_lane("compact", 7)
side.append(user(8, "a side lane"))
add(5)
os.unlink(f"{home}/full")
log._journal._retry_at = 0.0  # a slow attempt, as on a full machine, puts off the next one
add(1)
log.close()
ledger.close()
with closing(Ledger.open(places().ledger)) as again:
    lanes = [[entry.id for entry in one.read(1, 99)] for one in again.logs(info.id)]
    print(json.dumps([states, said, lanes, again.db.find_damage()]))
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="a mount namespace")
def test_a_real_disk_that_is_full_for_a_while_takes_everything_afterwards(tmp_path: Path) -> None:
    environment = {**os.environ, "NEXUS_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", ON_TMPFS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if "assert libc" in done.stderr:
        pytest.skip("this kernel gives no mount namespace")
    assert done.returncode == 0, done.stderr
    states, said, lanes, damage = json.loads(done.stdout)
    assert states == [True, False, False, True] and damage == ""
    assert ["memory only" in line for line in said] == [True, False] and "disk is full" in said[0], said
    assert lanes == [[*range(1, 17)], [*range(1, 9)]]
