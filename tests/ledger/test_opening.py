"""Opening: private files, a broken one set aside, a newer or foreign one refused, an older one brought forward."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger.conftest import on

from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger, schema

NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_private_whatever_the_umask(tmp_path: Path, make: SimpleNamespace) -> None:
    before = os.umask(0)
    try:
        path = tmp_path / "home" / "data" / "ledger.db"
        ledger = Ledger.open(path)
        info = make.new(ledger)
        ledger.lock(info.id)
        names = {part.name: mode(part) for part in path.parent.iterdir()}
        assert names == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600, "locks": 0o700}
        assert mode(path.parent) == mode(path.parent.parent) == 0o700
        assert [mode(lock) for lock in (path.parent / "locks").iterdir()] == [0o600, 0o600]
        ledger.close()
        path.chmod(0o644)
        Ledger.open(path).close()
        assert mode(path) == 0o600
    finally:
        os.umask(before)


def test_a_new_ledger_has_the_settings_that_keep_it_safe(ledger: Ledger, path: Path) -> None:
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1, "auto_vacuum": 2}
    assert {name: ledger.db.all(f"PRAGMA {name}")[0][0] for name in wanted} == wanted
    assert ledger.notices == []


@pytest.mark.parametrize(
    "garbage", [b"not a database at all " * 99, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_garbage_is_set_aside_with_all_that_belongs_to_it(path: Path, make: SimpleNamespace, garbage: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(garbage)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).write_bytes(b"junk" + suffix.encode())
    ledger = Ledger.open(path)
    (aside,) = (part for part in path.parent.glob("ledger.db.broken-*") if not part.name.endswith(("-wal", "-shm")))
    assert re.fullmatch(r"ledger\.db\.broken-\d{8}-\d{6}", aside.name)
    assert aside.read_bytes() == garbage
    assert str(aside) in ledger.notices[0] and len(ledger.notices) == 1
    make.new(ledger)
    ledger.close()
    again = Ledger.open(path)
    assert again.notices == [] and len(again.sessions()) == 1
    again.close()


def test_what_was_set_aside_before_is_never_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import datetime

    from nexus_cli.ledger import open_database

    monkeypatch.setattr(open_database, "local_now", lambda: datetime(2026, 1, 13, 14, 30))
    path.parent.mkdir(parents=True)
    for number in range(3):
        path.write_bytes(b"garbage %d " % number * 999)
        Ledger.open(path).close()
    kept = {part.name: part.read_bytes()[:9] for part in path.parent.glob("*.broken-*")}
    base = "ledger.db.broken-20260113-143000"
    assert kept == {base: b"garbage 0", f"{base}-2": b"garbage 1", f"{base}-3": b"garbage 2"}


def test_a_ledger_that_lost_its_end_is_set_aside(path: Path, make: SimpleNamespace) -> None:
    ledger = Ledger.open(path)
    info = make.new(ledger)
    for number in range(1, 60):
        ledger.log(info.id).append(make.user(number, os.urandom(2000).hex()))
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    again = Ledger.open(path)
    assert "damaged" in again.notices[0] and again.sessions() == []
    again.close()


def test_a_ledger_whose_schema_is_no_text_is_set_aside(path: Path) -> None:
    Ledger.open(path).close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE " + 5 * b"\xee"))
    again = Ledger.open(path)
    assert "damaged" in again.notices[0] and again.sessions() == []
    again.close()


@pytest.mark.matrix
def test_damage_that_is_found_later_is_an_error_of_the_ledger(path: Path, make: SimpleNamespace) -> None:
    ledger = Ledger.open(path)
    info = make.new(ledger)
    for number in range(1, 200):
        ledger.log(info.id).append(make.user(number, os.urandom(2000).hex()))
    ledger.close()
    data = bytearray(path.read_bytes())
    page = 8192
    for start in range(60 * page, len(data) - 20 * page, page):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)
    again = Ledger.open(path)
    with pytest.raises(NexusError) as caught:
        lane = again.sessions()[0].main_lane
        on(again, lane).read(1, 199)
    assert caught.value.kind == "ledger"
    again.close()


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    Ledger.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NexusError, match="a newer nexus wrote the ledger") as caught:
        Ledger.open(path)
    assert caught.value.kind == "ledger" and "Upgrade" in caught.value.hint
    assert path.read_bytes() == before and not list(path.parent.glob("*.broken-*"))


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE precious (thing)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NexusError, match="another program"):
        Ledger.open(path)
    assert path.read_bytes() == before


def test_places_that_cannot_hold_a_ledger_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "fifo.db")
    for bad in (tmp_path / "file" / "ledger.db", tmp_path / "folder.db", tmp_path / "fifo.db", Path("/proc/ledger.db")):
        with pytest.raises(NexusError) as caught:
            Ledger.open(bad)
        assert caught.value.kind == "ledger" and str(bad) in caught.value.message


@pytest.mark.matrix
def test_a_ledger_that_may_not_be_written_is_one_clear_error(make: SimpleNamespace) -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to another user
    path = folder / "data" / "ledger.db"
    Ledger.open(path).close()
    path.chmod(0o400)

    def work(say: object) -> None:
        if os.geteuid() == 0:
            for part in (path, path.parent, path.parent / "locks", folder):
                os.chown(part, NOBODY, NOBODY)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        for where in ("file", "folder"):
            if where == "folder":
                path.chmod(0o600)
                path.parent.chmod(0o500)
            try:
                Ledger.open(path)
            except NexusError as error:
                say(error.line)  # type: ignore[operator]
        path.parent.chmod(0o700)

    status, lines = make.in_child(work)
    assert status == 0 and len(lines) == 2
    assert all(line.startswith(f"nexus: the ledger {path} cannot be opened: ") for line in lines)
    assert not list(path.parent.glob("*.broken-*"))
    assert path.stat().st_size > 0
    shutil.rmtree(folder)


def test_an_older_ledger_is_brought_forward_by_all_steps_or_none(
    path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Ledger.open(path)
    info = make.new(first)
    first.log(info.id).append(make.user(1))
    first.close()
    steps = len(schema.STEPS)
    bad = ("CREATE TABLE novelties (text TEXT) STRICT", "INSERT INTO nowhere VALUES (1)")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ("ALTER TABLE sessions ADD COLUMN mood TEXT",), bad))
    with pytest.raises(NexusError):
        Ledger.open(path)
    with sqlite3.connect(path) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert schema.version(connection) == steps and "novelties" not in tables
    connection.close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS[: steps + 1], bad[:1]))
    ledger = Ledger.open(path)
    assert ledger.db.one("PRAGMA user_version") == (steps + 2,)
    assert ledger.db.all("SELECT mood FROM sessions") == [(None,)]
    assert [entry.id for entry in ledger.log(info.id).read(1, 9)] == [1]
    ledger.close()
