"""Importing 1,000 sessions of Claude Code with 50 records each, wall time, beside plain SQLite: one commit for each
session, one row for each record. Then the same import again, which finds nothing new.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Scene, scene
from benchmarks.row import Benchmark, Row
from imports.claude_home import Session

from nexus_cli.imports.store_sessions import import_sessions
from nexus_cli.ledger import Ledger

SESSIONS, RECORDS = 1000, 50


def write(folder: Path, number: int) -> None:
    """Write one session: each turn a message, a call, its result and an answer."""
    talk = Session(f"{number:08d}-aaaa", "/srv/project", 1 + number % 28)
    while len(talk.records) < RECORDS - 3:
        step = len(talk.records)
        talk.user(f"Do thing {step} of {number}. " + "Please look at the file. " * 10)
        talk.reply("I will look.", (f"t{number}_{step}", "Bash", {"command": f"sed -n {step},99p shop.py"}))
        talk.result(f"t{number}_{step}", f"{number} {step} def discount(price): return price\n" * 20)
        talk.reply("It is done. " * 20)
    talk.user("Thanks").reply("You are welcome.").write(folder)


def stored(folder: Path, file: Path) -> float:
    """Seconds of the baseline: every file read and parsed, every line a row."""
    since = time.perf_counter()
    with sqlite3.connect(file, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS lines (id INTEGER PRIMARY KEY, text TEXT)")
        for path in sorted(folder.glob("projects/*/*.jsonl")):
            connection.execute("BEGIN")
            for line in path.read_text().splitlines():
                connection.execute("INSERT INTO lines (text) VALUES (?)", (json.dumps(json.loads(line)),))
            connection.execute("COMMIT")
    connection.close()
    return time.perf_counter() - since


def imported(place: Scene, folder: Path, new: int) -> float:
    """Seconds of an import that finds so many new sessions."""
    ledger = Ledger.open(Path(place.environment["NEXUS_HOME"]) / "data" / "ledger.db")
    since = time.perf_counter()
    done = import_sessions(ledger, "claude", folder, "openai/gpt-5")
    took = time.perf_counter() - since
    ledger.close()
    assert (done.new, done.entries, done.new + done.same) == (new, new * RECORDS, SESSIONS), done
    return took


def rows(times: int) -> Iterator[Row]:
    """Once: a run takes as long as many of other benchmarks."""
    with scene() as place:
        folder = place.folder / ".claude"
        for number in range(SESSIONS):
            write(folder, number)
        imported_in, base = imported(place, folder, SESSIONS), stored(folder, place.folder / "lines.db")
        what = f"import of {SESSIONS:,} sessions of {RECORDS} records"
        yield Row(what, imported_in, "s", base, "plain SQLite, a row a record", 8.0)
        yield Row("the same again", imported(place, folder, 0), "s", imported_in, "the first time", 0.05)


BENCHMARK = Benchmark("sessions of another program are imported", rows)
