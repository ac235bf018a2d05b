"""Entries that could not be sent to the server of a ledger while it was away: one synced file of a session, a line for
each entry.

Epochs, drops, notes and seen files have lines too. Whoever locks the session next on this machine records those that
the server does not have, by their numbers, in one transaction. Requests and starts of tools have none: what could not
be saved was not sent and did not run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places, private_dir
from nexus_cli.core.entry import Drop, Entry, Epoch, Manifest, Memo
from nexus_cli.core.errors import LedgerAwayError
from nexus_cli.core.json_schema import type_hints
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Message, to_record
from nexus_cli.core.read_event import read_value
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.lane_log import LaneLog, TransactionLog
from nexus_cli.ledger.postgres_connection import hash_address

_SUFFIX = ".entries"
"""Of the files that this version makes and reads; another form has another suffix."""
_CALLS = ("append", "begin_epoch", "note", "record_drop", "record_memo", "record_reply")
"""The methods of `LaneLog` whose calls have a line: their arguments, as JSON."""


def unsaved_folder() -> Path:
    """Return the folder of the files."""
    return places().data / "unsaved"


@dataclass(frozen=True, slots=True, eq=False)
class UnsavedCall:
    """A call of a method of `LaneLog` that is not committed yet."""

    lane: int
    name: str
    values: Sequence[Any]

    @property
    def memos(self) -> list[Memo]:
        """The notes among its values."""
        values = chain.from_iterable(value if isinstance(value, list | tuple) else [value] for value in self.values)
        return [value for value in values if isinstance(value, Memo)]


def record_calls(db: Database, session: str, calls: Iterable[UnsavedCall], *, was_tried: bool) -> None:
    """Record calls inside a transaction, without those that were recorded if a commit of them `was_tried` before.

    What is missing is found before anything is recorded: two notes may be equal.
    """
    logs = [(call, TransactionLog(db, session, call.lane)) for call in calls]
    for call, log in [pair for pair in logs if not (was_tried and _was_recorded(*pair))]:
        getattr(log, call.name)(*call.values)


def create_file(url: str, session: str) -> FileLock:
    """Create the file of a session for the server at `url`, locked while it is written; raise `OSError`."""
    name = f"{session}-{hash_address(url)}-{os.urandom(4).hex()}{_SUFFIX}"
    return FileLock.wait(private_dir(unsaved_folder()) / name)


def format_line(call: UnsavedCall) -> bytes:
    """Return the line of a call, nothing for one that has none."""
    line = {"lane": call.lane, "call": call.name, "values": call.values}
    return json.dumps(line, default=_to_json).encode() + b"\n" if call.name in _CALLS else b""


def _to_json(value: Any) -> Any:
    """Return a value of the ledger as JSON data."""
    if isinstance(value, Message):
        return to_record(value)
    return (
        dict(value)
        if isinstance(value, Mapping)
        else {field_.name: getattr(value, field_.name) for field_ in fields(value)}
    )


def _was_recorded(call: UnsavedCall, log: LaneLog) -> bool:
    """True if a call of a commit whose outcome is unknown was recorded; inside a transaction."""
    match call.values[0]:
        case Entry(id=entry, message=message):
            return entry <= log.last_id() and log.read(entry, entry)[0].message == message
        case Manifest(step=step):
            return step <= log.step()
        case Memo(kind=kind) as memo:
            return memo in log.memos(kind, own=True)
        case Epoch(id=epoch):
            return epoch < log.next_epoch()
        case Drop(id=drop):
            return any(known_drop.id == drop for known_drop in log.drops())
    return call.name == "record_start" and log.was_started(call.values[0])


def _find_files(url: str, session: str) -> list[Path]:
    return sorted(unsaved_folder().glob(f"{session}-{hash_address(url)}-*{_SUFFIX}"))


def unsaved_sessions(url: str) -> list[str]:
    """Return the ids of the sessions of which something was kept for the server at `url` and the role in it."""
    return [path.name.partition("-")[0] for path in _find_files(url, "*")]


def save_kept_entries(db: Database, url: str, session: str) -> Iterator[str]:
    """Record what earlier processes kept of `session`, which this process has locked; yield lines for the person.

    A file that does not fit, because the session was continued elsewhere, is set aside. Raises `LedgerAwayError`.
    """
    for path in _find_files(url, session):
        with suppress(OSError), FileLock.take(path) or nullcontext() as lock:
            if lock:  # else its process is alive
                yield from _save_file(db, session, path)


def _save_file(db: Database, session: str, path: Path) -> Iterator[str]:
    """Record what one file has, in one transaction, and remove it; yield the line for the person, if there is one."""
    *lines, _ = path.read_bytes().split(b"\n")  # a kill may have cut the last one
    try:
        calls = [_read_call(json.loads(line)) for line in lines]
        with db.write():
            query = "SELECT l.id FROM lanes l JOIN sessions s ON s.key = l.session WHERE s.id = ?"
            if not {row[0] for row in db.all(query, session)}.issuperset(call.lane for call in calls):
                raise ValueError("one of its lines is not a record of the session")
            record_calls(db, session, calls, was_tried=True)
    except LedgerAwayError:
        raise
    except Exception as error:  # whatever a bad line leads to
        aside = path.rename(path.with_suffix(".refused"))
        why = f"the ledger rejected it ({error})"
        yield f"work of another process in session {session} was not saved: {why}. nexus keeps it in {aside}"
        return
    path.unlink()
    if lines:
        yield f"session {session}: work done while the ledger was unreachable is now saved"


def _read_call(line: JsonObject) -> UnsavedCall:
    name = _CALLS[_CALLS.index(line["call"])]
    *types, _ = type_hints(getattr(LaneLog, name)).values()
    return UnsavedCall(line["lane"], name, [read_value(*pair) for pair in zip(types, line["values"], strict=True)])
