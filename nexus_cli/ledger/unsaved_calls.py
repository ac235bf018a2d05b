"""What the server of a ledger could not be told while it was away: one synced file for each session.

A file has a head, then a line for each call of a method of `LaneLog` that was not committed. The next command that
reaches the same server in the same role makes the calls again in one transaction, without those that were recorded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from nexus_cli.config.database_url import hash_address
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places, private_dir
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Manifest, Memo, WindowItem
from nexus_cli.core.errors import LedgerAwayError
from nexus_cli.core.message import Message, from_record, to_record
from nexus_cli.core.services import Calibration, FixedValues
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_log import TransactionLog, Write

_VERSION = 1
"""Of the files that this version makes."""
_TYPES = {
    one.__name__: one for one in (Calibration, Cost, Drop, Entry, Epoch, FixedValues, Manifest, Memo, Usage, WindowItem)
}
_CALLS = frozenset("append begin_epoch note record_drop record_memo record_reply record_request record_start".split())
"""The methods of `LaneLog` that a file may call."""


def unsaved_folder() -> Path:
    """Return the folder of the files."""
    return places().data / "unsaved"


@dataclass(frozen=True, slots=True, eq=False)
class UnsavedCall:
    """A call of a method of `LaneLog` that is not committed yet."""

    lane: int
    name: str
    values: tuple[Any, ...]
    write: Write

    @property
    def memos(self) -> Iterable[Memo]:
        """The notes among its values."""
        for value in self.values:
            yield from (one for one in (value if isinstance(value, list | tuple) else [value]) if isinstance(one, Memo))


@dataclass(eq=False)
class UnsavedCalls:
    """The file of one session, which the process that has locked the session appends to while the server is away.

    If it cannot be written, the person is told, and it is removed.
    """

    url: str
    session: str
    warn: Callable[[str], None]
    is_there = False
    """True if there is a file, which has every call that was added."""

    _lock: FileLock | None = None
    """Held while the file is open."""

    def add(self, calls: Iterable[UnsavedCall], *, creates: bool = False) -> None:
        """Append calls, if there is a file; with `creates` it is created first, locked for this process."""
        try:
            if creates:
                self._create()
            for call in calls if self._lock else ():
                if call.name != "record_start":  # what is not saved does not run
                    at = format_utc(local_now())
                    self._write({"lane": call.lane, "call": call.name, "values": _pack(call.values), "at": at})
        except OSError as error:
            self.close(removes=True)
            why = error.strerror or error
            self.warn(f"unsaved entries cannot be kept on this machine ({why}): they are lost if nexus exits")

    def _create(self) -> None:
        self._path = private_dir(unsaved_folder()) / f"{self.session}-{os.urandom(4).hex()}.jsonl"
        self._lock = FileLock.take(self._path.with_suffix(".lock"))
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.is_there = True
        self._write({"version": _VERSION, "place": hash_address(self.url)})

    def _write(self, value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def close(self, *, removes: bool = False) -> None:
        """Leave the file, if there is one, to the next command, or remove it: all of it was committed. May be called
        twice."""
        if self._lock:
            if self.is_there:
                os.close(self._file)
            self.is_there = not removes
            if removes:
                self._path.unlink(missing_ok=True)
            self._lock.release(remove=True)
            self._lock = None


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


def was_recorded(db: Database, session: str, lane: int, name: str, values: tuple[Any, ...]) -> bool:
    """True if a call of a commit whose outcome is unknown was recorded; inside a transaction."""
    log, first = TransactionLog(db, session, lane), values[0]
    if name in ("append", "record_reply") and first is not None and first.id <= log.last_id():
        return bool(log.read(first.id, first.id)[0].message == first.message)
    if name == "record_request":
        last = log.last_request()
        return last is not None and last.manifest.step >= first.step
    if name == "record_memo":
        return first in log.memos(first.kind, own=True)
    if name == "begin_epoch":
        return bool(first.id < log.next_epoch())
    if name == "record_start":
        return log.was_started(first)
    return name == "record_drop" and any(one.id == first.id for one in log.drops())


def save_kept_calls(db: Database, url: str, locked: str = "") -> list[str]:
    """Make the calls that earlier processes kept for the server at `url`, or of the session `locked` alone, which this
    process has locked; return lines for the person.

    A file that does not fit, because the session was continued elsewhere, is set aside.
    """
    told: list[str] = []
    old = places().data / "spool"
    if not locked and old.is_dir() and any(old.glob("*.jsonl")):
        told.append(f"an older nexus kept sessions of an outage in {old}: only that version can save them")
    for path in sorted(unsaved_folder().glob(f"{locked}*.jsonl")) if unsaved_folder().is_dir() else ():
        with suppress(OSError):
            if (lock := FileLock.take(path.with_suffix(".lock"))) is not None:
                try:
                    told += _save_kept(db, url, path, is_locked=bool(locked)) if path.exists() else []
                finally:
                    lock.release(remove=True)
    return told


def _save_kept(db: Database, url: str, path: Path, *, is_locked: bool) -> list[str]:
    """Make the calls of one file and remove it; return the line for the person, if there is one."""
    session = path.stem.partition("-")[0]
    *lines, _ = path.read_bytes().split(b"\n")  # a kill may have cut the last one
    try:
        head: dict[str, Any] = json.loads(lines[0]) if lines else {"place": hash_address(url), "version": 0}
        if head["place"] != hash_address(url):
            return []
        if head["version"] > _VERSION:
            return [f"session {session} of an outage was kept by a newer nexus: upgrade to save it"]
        if not is_locked and not db.lock_session(session):
            return []  # open elsewhere
        try:
            _make_calls(db, session, map(json.loads, lines[1:]))
        finally:
            if not is_locked:
                db.unlock_session(session)
    except LedgerAwayError:
        return []
    except Exception as error:  # whatever a bad line leads to
        aside = path.rename(path.with_suffix(".refused"))
        return [f"what session {session} did while the ledger was away cannot be saved ({error}): see {aside}"]
    path.unlink()
    return [f"session {session}: its work while the ledger was unreachable is now saved"] if len(lines) > 1 else []


def _make_calls(db: Database, session: str, calls: Iterable[Mapping[str, Any]]) -> None:
    """Make the calls that were not recorded, in one transaction; raises any error of Python for a bad line."""
    with db.write():
        own = "SELECT l.id FROM lanes l JOIN sessions s ON s.key = l.session WHERE s.id = ?"
        lanes = {row[0] for row in db.all(own, session)}
        unsent: dict[int, int] = {}
        for call in calls:
            lane, name, values = call["lane"], call["call"], _unpack(call["values"])
            if lane not in lanes or name not in _CALLS:
                raise ValueError("it has a line that is no record of the session")
            if not was_recorded(db, session, lane, name, values):
                clock = partial(datetime.fromisoformat, call["at"])
                getattr(TransactionLog(db, session, lane, clock), name)(*values)
            if name == "record_request":
                unsent[lane] = values[0].step
            elif name == "record_reply":
                unsent.pop(lane, None)
        for lane, step in unsent.items():  # a request that was not saved was not sent
            TransactionLog(db, session, lane).record_reply(None, step, Usage(), "ledger", False)
