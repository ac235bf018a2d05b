"""Journals of sessions whose server cannot be reached, and writing them back.

A journal is a file of JSON lines: a head, then the calls of `LaneLog` methods that would have written, each synced to
the disk. Written back, the calls are made again on the server, in one transaction that also records how many they are,
so that each is written back once, however often a process is killed meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from nexus_cli.config.database_url import hash_address
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.ledger_place import shown_place
from nexus_cli.config.paths import places, private_dir
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Manifest, Memo, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, from_record, to_record
from nexus_cli.core.services import Calibration, FixedValues
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.ledger import lanes, sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_log import LaneLog, TransactionLog
from nexus_cli.ledger.sessions import SessionInfo

SPOOLED = "spooled"
"""Memo: `lines` of the journal `id` were written back; `lanes` are pairs of a lane in it and one of the server."""
_TYPES = {
    one.__name__: one for one in (Calibration, Cost, Drop, Entry, Epoch, FixedValues, Manifest, Memo, Usage, WindowItem)
}
_VERSION = 1
"""Of the journals that this version makes."""
_CALLS = (
    *("append", "begin_epoch", "next_drop", "note", "open_lane", "record_drop", "record_memo", "record_reply"),
    *("record_request", "record_start"),
)
"""The methods of `LaneLog` that a journal may call."""


def spool_folder() -> Path:
    """Return the folder of the journals."""
    return places().data / "spool"


class Spool:
    """The journal of one session, locked while this process appends to it."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self.unwritten: list[bytes] = []
        """Lines that could not be written yet."""
        self._is_empty = True
        self._size = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    @classmethod
    def create(cls, url: str, info: SessionInfo) -> Spool:
        """Create a journal for the session `info`; raise `OSError`."""
        path = private_dir(spool_folder()) / f"{info.id}-{os.urandom(4).hex()}.jsonl"
        lock = FileLock.take(path.with_suffix(".lock"))
        assert lock is not None, "its name is new"
        made = cls(path, lock)
        head = {"version": _VERSION, "ledger": shown_place(url), "place": hash_address(url), "session": asdict(info)}
        made._append(head)
        return made

    def add(self, lane: int, name: str, values: tuple[Any, ...], result: Any) -> None:
        """Append the call of a method of `LaneLog`, with its result if that is a name or a lane.

        Raises `OSError` if that fails; then the next call tries again, and meanwhile the line is in `unwritten`.
        """
        at = format_utc(local_now())
        result = result if isinstance(result, int | str) else None
        self._is_empty = False
        self._append({"lane": lane, "call": name, "values": _pack(values), "result": result, "at": at})

    def _append(self, value: Mapping[str, Any]) -> None:
        self.unwritten.append(json.dumps(value).encode() + b"\n")
        while self.unwritten:
            os.ftruncate(self._file, self._size)  # a failed write may have left a part of the line
            data = self.unwritten[0]
            while data:
                data = data[os.write(self._file, data) :]
            self._size += len(self.unwritten.pop(0))
        os.fsync(self._file)

    def write_back(self, db: Database) -> dict[int, int]:
        """Write the journal back and remove it; return and raise as `write_back`."""
        found = write_back(db, self.path, self.unwritten)
        with suppress(OSError):  # the next command finds that it was written back
            self.close(remove=True)
        return found

    def close(self, *, remove: bool = False) -> None:
        """Release the journal, for another process to write it back, or `remove` it; an empty one is removed."""
        os.close(self._file)
        if remove or self._is_empty:
            self.path.unlink(missing_ok=True)
        self._lock.release(remove=True)


def _pack(value: Any) -> Any:
    """Return JSON data for the argument of a method; inside plain data, which values hold, nothing is converted."""
    if isinstance(value, Message):
        return {"Message": to_record(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: {one.name: _pack(getattr(value, one.name)) for one in fields(value)}}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        return {"plain": dict(value)}
    return [_pack(one) for one in value] if isinstance(value, list | tuple) else value


def _unpack(value: Any) -> Any:
    """Reverse `_pack`, except that tuples become lists; fields of a newer version are left out."""
    if isinstance(value, list):
        return [_unpack(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, data),) = value.items()
    if kind in ("Message", "bytes", "plain"):
        return from_record(data) if kind == "Message" else bytes.fromhex(data) if kind == "bytes" else data
    known = {one.name for one in fields(_TYPES[kind])}
    return _TYPES[kind](**{name: _unpack(one) for name, one in data.items() if name in known})


class _Replay(TransactionLog):
    """A log inside the transaction that writes a journal back."""

    def has(self, name: str, values: list[Any], result: Any) -> bool:
        """True if the outcome of this call, the first of a journal, was recorded: its commit was interrupted."""
        if name in ("append", "record_reply") and values[0] is not None and values[0].id <= self.last_id():
            return bool(self.read(values[0].id, values[0].id)[0].message == values[0].message)
        if name == "record_request":
            last = self.last_request()
            return last is not None and (last.manifest.step, last.manifest.sha256) == (values[0].step, values[0].sha256)
        if name == "record_memo":
            return values[0] in self.memos(values[0].kind, own=True)
        if name == "begin_epoch":
            return bool(values[0].id < self.next_epoch())
        if name == "record_start":
            return self.was_started(values[0])
        if name == "next_drop":
            return int(result[1:]) <= self.last_drop()
        return name == "record_drop" and any(one.id == values[0].id for one in self.drops())


def write_back(db: Database, path: Path, unwritten: Sequence[bytes] = ()) -> dict[int, int]:
    """Write a journal, and its lines that are not in the file, back in one transaction; return the lanes of the server
    for those that it names otherwise.

    Raises `NexusError("ledger", ...)` if the server cannot be reached or the session was continued elsewhere, `OSError`
    if the file cannot be read, and any error of Python for one that is no journal; then nothing was written.
    """
    lines = [*_read_lines(path), *map(json.loads, unwritten)]
    head = lines.pop(0)
    info = SessionInfo(**head["session"])
    if not path.name.startswith(f"{info.id}-"):
        raise ValueError("it is of another session")
    with db.write():
        row = db.one("SELECT main FROM sessions WHERE id = ?", info.id)
        main = int(row[0]) if row else _create_session(db, info)
        found = {info.main_lane: main}
        log = _Replay(db, info.id, main)
        done = 0
        for memo in log.memos(SPOOLED, own=True):
            if memo.value["id"] == path.stem:
                done, found = memo.value["lines"], dict(memo.value["lanes"])
        if done >= len(lines):
            return found
        of_session = "SELECT l.id FROM lanes l JOIN sessions s ON s.key = l.session WHERE s.id = ?"
        own = {row[0] for row in db.all(of_session, info.id)}
        for number, line in enumerate(lines[done:], done):
            at = datetime.fromisoformat(line["at"])
            lane = found.get(line["lane"], line["lane"])
            log = _Replay(db, info.id, lane, partial(_same, at))
            name, values, result = line["call"], _unpack(line["values"]), line["result"]
            if lane not in own or name not in _CALLS:
                raise ValueError(f"line {number + 2} is no record of it")
            if number == 0 and log.has(name, values, result):
                continue
            made = getattr(log, name)(*values)
            if isinstance(made, LaneLog):
                found[result] = made.lane
                own.add(made.lane)
            elif isinstance(made, str) and made != result:
                raise NexusError("ledger", f"session {info.id}", "another process continued it", "See nexus drops")
        written = {"id": path.stem, "lines": len(lines), "lanes": list(found.items())}
        lanes.record_note(db, main, Memo(SPOOLED, format_utc(local_now()), log.last_id(), written))
    return found


def _same(at: datetime) -> datetime:
    return at


def _create_session(db: Database, info: SessionInfo) -> int:
    """Create a session that the server never had, or had without content, and return its main lane."""
    if info.entries:
        raise NexusError("ledger", f"session {info.id}", "it was deleted by another process", "Start a new one")
    known = {name: getattr(info, name) for name in ("folder", "project", "model", "recipe", "front", "worktree")}
    key, _ = sessions.create(db, **known, name="", at=info.created, spawner=info.spawner, id_=info.id)
    return sessions.open_main(db, key, info.recipe)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a journal; a kill may have cut the last one, whose call had not returned."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def write_back_all(db: Database, url: str) -> list[str]:
    """Write back the journals that no living process has, and return a line for the person.

    A journal that does not fit, because the session was continued elsewhere, is set aside.
    """
    done, told = 0, list[str]()
    for path in sorted(spool_folder().glob("*.jsonl")) if spool_folder().is_dir() else ():
        with suppress(OSError):
            if (lock := FileLock.take(path.with_suffix(".lock"))) is not None:
                try:
                    done += path.exists() and _write_back_one(db, url, path, told)
                finally:
                    lock.release(remove=True)
    if done:
        told.append(f"{done} session{'s' * (done > 1)} of an outage written back to the ledger {shown_place(url)}")
    return told


def _write_back_one(db: Database, url: str, path: Path, told: list[str]) -> bool:
    """Write back one journal and remove it; False if that has to wait or cannot be done."""
    session = path.name.partition("-")[0]
    try:
        begun = list(islice(_read_lines(path), 2))
        if len(begun) < 2:
            path.unlink()  # killed before its first call
            return False
        if begun[0].get("place", begun[0]["ledger"]) not in (hash_address(url), shown_place(url)):
            return False  # older ones have no `place`
        if begun[0]["version"] > _VERSION:
            told.append(f"session {session} of an outage was kept by a newer nexus: upgrade to write it back")
            return False
        if not db.lock_session(session):
            return False  # open elsewhere: its process may still end
        try:
            write_back(db, path)
        finally:
            db.unlock_session(session)
    except OSError:
        raise
    except Exception as error:  # whatever a bad line leads to
        if isinstance(error, NexusError) and db.is_outage(error):
            return False
        aside = path.rename(path.with_suffix(".refused"))
        told.append(f"session {session} of an outage cannot be written back ({error}): see {aside}")
        return False
    path.unlink()
    return True
