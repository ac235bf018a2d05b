"""A session that continues in memory: what one thread records is not lost where another one makes the copy."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import new, user

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.ledger import Ledger, SessionLog, memory_copy


def test_a_copy_of_another_thread_does_not_cut_off_an_entry_that_is_not_counted_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread fails to record while this one is between the commit of its entry and the count."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
    side: Any = log.open_lane("compact")
    journal: Any = log._journal
    recorder, real = threading.Thread(target=side.append, args=(user(1),)), journal.record

    def held_up(*values: Any) -> None:
        real(*values)
        if values[0] is log and not recorder.ident:
            monkeypatch.setattr(ledger.db, "connection", Full(ledger.db.connection))
            recorder.start()
            recorder.join(0.3)

    monkeypatch.setattr(journal, "record", held_up)
    log.append(user(1))
    recorder.join()
    log.append(user(2))
    assert [entry.id for entry in log.read(1, 2)] == [1, 2]
    log.close()
    ledger.close()


def test_what_a_thread_records_while_another_copies_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is held up until another thread has tried to record."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    info: Any = new(ledger)
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
    side: Any = log.open_lane("compact")
    log.append(user(1))
    recorder, real = threading.Thread(target=log.append, args=(user(2),)), memory_copy.copy_session

    def held_up(*values: Any) -> None:
        recorder.start()
        recorder.join(0.3)
        real(*values)

    monkeypatch.setattr(memory_copy, "copy_session", held_up)
    monkeypatch.setattr(ledger.db, "connection", Full(ledger.db.connection))
    side.append(user(1))
    recorder.join()
    saved = SessionLog.for_session(ledger, info.id, require_save=False, warn=lambda line: None)
    assert saved.last_id() == 1 and log.last_id() == 2 and log.files() == []
    assert [row[0] for row in log.db.all("SELECT id FROM entries WHERE lane = ? ORDER BY id", log.lane)] == [1, 2]
    log.close()
    ledger.close()


@pytest.mark.matrix
def test_the_seen_files_of_a_resumed_session_are_those_that_anybody_has_noted(
    ledger: Ledger, place: LedgerPlace
) -> None:
    """An undo notes them by a log of its own, in this process or in another one."""
    info: Any = new(ledger)
    ledger.log(info.id).note("/p/a", "first", "changed")
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)

    def seen() -> dict[str, str]:
        return {one.path: one.digest for one in log.seen_files()}

    assert seen() == {"/p/a": "first"}
    ledger.log(info.id).note("/p/a", "", "read")
    assert seen() == {"/p/a": ""}
    log = SessionLog.for_session(ledger, info.id, require_save=False, warn=print)
    with closing(Ledger.open(place)) as other:
        other.log(info.id).note("/p/b", "second", "read")
    for _ in range(2):  # a server is asked from the second turn on
        log.defer(True)
        log.defer(False)
    assert seen() == {"/p/a": "", "/p/b": "second"}
    log.close()


class Full:
    """A connection whose disk is full."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if sql.startswith("BEGIN IMMEDIATE"):
            raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(sql, *values)
