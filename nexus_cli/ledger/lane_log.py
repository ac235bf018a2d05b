"""The log of one lane: works directly on the tables of a ledger.

Owns the records of a lane, and those that a lane shares with its session (drop ids, seen files). Sessions, locks and
search belong to `store`; `session_log` is the log of a live session, whose `lane_journal` commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import CLAIMED_RUN, SHOWN_TEXT, WAIT
from nexus_cli.core.services import COMPLETE, Calibration, FixedValues, SeenFile
from nexus_cli.core.shared_types import T
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import calibrations, drops, entries, epochs, lanes, requests, sessions
from nexus_cli.ledger.database import Database, Row
from nexus_cli.ledger.epochs import EpochRow
from nexus_cli.ledger.requests import InheritedRequests, RequestRow
from nexus_cli.ledger.sessions import SessionInfo

Write = Callable[[Database], None]
"""Writes what was recorded; inside a transaction."""

DIGEST = 16
"""Bytes of a text's hash that are kept: enough to make collisions impossible in practice."""
LONGEST_PATH = 2_000
"""Bytes of the longest path that a server can find by its index."""
MAX_SEEN = 10_000
"""Most files that a session is asked for."""
SEEN_FILES_QUERY = (
    "SELECT path, how, digest, at, entry FROM files WHERE session = (SELECT session FROM lanes WHERE id = ?)"
    " ORDER BY at DESC, path LIMIT ?"
)
"""Query of the files that the session of a lane saw last."""


@dataclass(eq=False)
class Journal:
    """Commits what logs record."""

    db: Database
    """The database in use."""

    has_past = True
    """False if the database lacks what the session recorded before."""

    def recording(self) -> AbstractContextManager[object]:
        """Return the lock that a log holds from before it records an entry until it has counted it."""
        return nullcontext()

    def current_db(self) -> Database:
        """Return the database, with everything that was recorded."""
        return self.db

    def commit(self, write: Callable[[Database], T]) -> T:
        """Run `write` in one transaction."""
        db = self.current_db()
        with db.write():
            return write(db)

    def record(self, log: LaneLog, name: str, values: tuple[Any, ...], write: Write) -> None:
        """Commit a call of the method `name` of `log` with `values`, which may be put off until `save`."""
        self.commit(write)

    async def save(self, log: LaneLog, error: NexusError | None, *, waits: bool) -> bool:
        """See `Log`."""
        if error is not None:
            raise error
        return False


class TransactionJournal(Journal):
    """Writes inside a transaction of its caller."""

    def commit(self, write: Callable[[Database], T]) -> T:
        return write(self.db)


class LaneLog:
    """The log of one lane, written and read back.

    Implements `Log`, `Recall`, `SeenFileStore`, `Calibrations` and `Counts` of `core.services`.
    What one method records is committed together or not at all. By default it is committed when the method returns, and
    a failure raises `NexusError("ledger", ...)`; the journal of a session on a server lets it wait for `save`.
    """

    journal_type = Journal
    """The journal of a log that is given none."""

    def __init__(
        self,
        db: Database,
        session: str,
        lane: int | None = None,
        clock: Clock = local_now,
        journal: Journal | None = None,
    ) -> None:
        """Open the main lane of a session, or the given one; `UsageError` for an unknown session."""
        self._journal = journal or self.journal_type(db)
        self._clock = clock
        self.session_id = session
        self.lane = sessions.info(db, session).main_lane if lane is None else lane
        self._counts: dict[tuple[str, bytes], int] | None = None
        self._last = 0
        """Id of the newest entry that was recorded here."""
        self.started: set[str] | None = None
        """The ids of the calls that were started, in this lane or in an ancestor before the fork; None before they were
        asked for."""
        self.noted: set[str] = set()
        """Files that this process has noted for the session, in any of its lanes."""
        self._finish = 0, ""
        """The newest reply that was recorded here, and the finish of its request: a ledger in memory keeps no requests.
        """

    @property
    def db(self) -> Database:
        """The database that the lane is read from and written to."""
        return self._journal.current_db()

    @property
    def session(self) -> SessionInfo:
        """The session's current facts."""
        return sessions.info(self.db, self.session_id)

    @property
    def agent(self) -> str:
        """The agent of the lane: `main`, or the purpose of a side lane such as `compact`; "" once it is deleted."""
        return str(self.db.value("SELECT agent FROM lanes WHERE id = ?", self.lane) or "")

    def open_lane(self, agent: str, at_entry: int | None = None) -> LaneLog:
        """Open a side lane of the session: a fork of this one after `at_entry`, or with None an empty one."""

        def insert(db: Database) -> int:
            parent = None if at_entry is None else self.lane
            return lanes.open_lane(db, sessions.key_of(db, self.session_id), agent, agent, parent, at_entry or 0)

        log = self._log_of(self._journal.commit(insert))
        log.noted = self.noted
        return log

    def _log_of(self, lane: int) -> LaneLog:
        """Return the log of another lane of the session."""
        return LaneLog(self.db, self.session_id, lane, self._clock)

    def _session_key(self, db: Database) -> int:
        """Return the key of the session for reading: it was there, and may be deleted by now."""
        return lanes.session_of(db, self.lane)

    def _now(self) -> str:
        return format_utc(self._clock())

    async def save(self, error: NexusError | None = None, *, waits: bool = True) -> bool:
        """See `Log`."""
        return await self._journal.save(self, error, waits=waits)

    def _query(self, read: Callable[[Database], T], default: T) -> T:
        """Return the result of `read`, or `default` if the session can do without it."""
        return read(self.db)

    @property
    def forked_at(self) -> int:
        """The last entry that the lane shares with the one it was forked from; 0 for a lane of its own."""
        return lanes.ancestry(self.db, self.lane)[0].first - 1

    # Entries

    def append(self, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        """Append an entry with its notes. Raises `NexusError("ledger", ...)` also if another process continued the
        lane, `ValueError` if its id does not follow that of the newest one that was recorded here."""
        if self._last and entry.id > self._last + 1:
            raise ValueError(f"entry {entry.id} does not follow {self._last}")

        def write(db: Database) -> None:
            entries.append(db, self.lane, entry)
            for memo in memos:
                lanes.record_note(db, self.lane, memo)
                if memo.kind == SHOWN_TEXT:
                    sessions.set_first_text(db, self.lane, str(memo.value["text"]))
                elif memo.kind in (WAIT, CLAIMED_RUN):
                    from nexus_cli.ledger.runs import apply_memo  # noqa: PLC0415  (a run begins or stops waiting)

                    apply_memo(db, self.lane, memo)

        with self._journal.recording():
            self._journal.record(self, "append", (entry, memos), write)
            self._last = entry.id
        if entry.kind is Kind.USER:
            self._count_turn()

    def _count_turn(self) -> None:
        """Count a turn of the person, if the number of turns is known here."""

    def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries `first` to `last`, both included, of this lane and its ancestors."""
        return entries.read(self.db, self.lane, first, last) if first <= last else []

    def user_messages(self, last: int = lanes.END, *, members: bool = True) -> Iterator[tuple[int, str]]:
        """Yield id and text of the messages of people up to entry `last`, newest first, each read on demand: the
        person's and, with `members`, those of the people of a space."""
        return entries.messages_of_people(self.db, self.lane, last, members=members)

    def count_entries(self, last: int) -> list[tuple[Kind, str, int]]:
        """Count the entries up to `last` by kind and actor, without reading them."""
        return self._query(lambda db: entries.count_by_kind(db, self.lane, last), [])

    def last_id(self) -> int:
        """Return the id of the newest entry, 0 if there is none."""
        return lanes.last_id(self.db, self.lane)

    def count_turns(self) -> int:
        """Return the number of the turns that the person began."""
        return entries.count_turns(self.db, self.lane, self.last_id())

    def cursor(self) -> int:
        """Return the id of the last entry that was sent to the lane's model."""
        return lanes.cursor(self.db, self.lane)

    # Epochs

    def begin_epoch(self, epoch: Epoch, left_out: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        """Record a new epoch together with its drops and notes."""
        values = epoch, left_out, memos
        self._journal.record(self, "begin_epoch", values, lambda db: epochs.begin(db, self.lane, *values))

    def next_epoch(self) -> int:
        """Return the id of the session's next epoch."""
        return epochs.next_id(self.db, self.lane)

    def current_epoch(self) -> Epoch | None:
        """Return the current epoch, None before the first."""
        return epochs.current(self.db, self.lane)

    def epoch(self, epoch_id: int) -> Epoch:
        """Return an epoch of this session or of one it was forked from; `UsageError` if unknown."""
        return epochs.read(self.db, epochs.require_key(self.db, self.lane, epoch_id))

    def epochs(self) -> list[EpochRow]:
        """Return the epochs of the lane up to the current one, oldest first, without their texts."""
        return epochs.list_epochs(self.db, self.lane)

    def line_hashes(self, epoch_id: int, last: int) -> tuple[list[bytes], list[tuple[int, bytes]]]:
        """Return the SHA-256 of the lines sent under an epoch: of its slots, and of the entries after it up to
        `last`."""
        base, head = epochs.head_lines(self.db, self.lane, epoch_id)
        return head, entries.line_hashes(self.db, self.lane, base + 1, last)

    # Requests

    def record_request(
        self,
        manifest: Manifest,
        fixed: Sequence[FixedValues],
        head_lines: Sequence[bytes],
        with_preambles: Sequence[FixedValues] = (),
    ) -> None:
        """Record a request before its first byte is sent, and move the cursor."""
        values = manifest, fixed, head_lines, with_preambles

        def write(db: Database) -> None:
            if self._journal.has_past:
                requests.record(db, self.lane, *values)

        self._journal.record(self, "record_request", values, write)

    def record_reply(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent_body: str = ""
    ) -> None:
        """Record a reply, if it deserves an entry, together with the outcome of its request."""
        outcome = step, usage, finish, reported, sent_body

        def write(db: Database) -> None:
            if entry is not None:
                entries.append(db, self.lane, entry)
            requests.record_outcome(db, self.lane, *outcome)

        with self._journal.recording():
            self._journal.record(self, "record_reply", (entry, *outcome), write)
            if entry is not None:
                self._last = entry.id
                self._finish = entry.id, finish

    def ends_unfinished(self) -> bool:
        """See `Log`."""
        last = self.last_id()
        newest, finish = self._finish
        if newest != last:
            finish = self.db.value(*requests.finish_query(self.db, self.lane, last)) or ""
        return last > 0 and finish not in COMPLETE

    def step(self) -> int:
        """Return the number of requests that the lane has sent."""
        return self.db.number("SELECT coalesce(max(step), 0) FROM requests WHERE lane = ?", self.lane)

    def requests(self, which: str = "all") -> list[RequestRow]:
        """Return the lane's requests, oldest first; `which` is a key of `requests.WHICH`."""
        return requests.list_requests(self.db, self.lane, which)

    def session_requests(self, which: str) -> list[RequestRow]:
        """Return the requests of all lanes of the session, by lane; `which` as in `requests`."""
        return requests.list_requests(self.db, self._session_key(self.db), which, requests.OF_SESSION)

    def last_request(self) -> RequestRow | None:
        """Return the lane's newest request, or None."""
        return next(iter(self.requests("newest")), None)

    def inherited_requests(self, which: str) -> InheritedRequests:
        """Return the requests of the lanes that this one was forked from; `which` as in `requests`."""
        return requests.read_inherited(self.db, self.lane, which)

    # Drops

    def next_drop(self) -> str:
        """Return a new drop id, unique in the session."""
        return self._journal.commit(lambda db: drops.next_id(db, sessions.key_of(db, self.session_id)))

    def record_drop(self, drop: Drop) -> None:
        self._journal.record(self, "record_drop", (drop,), lambda db: drops.record(db, self.lane, drop))

    def drops(self) -> list[Drop]:
        """Return all drops of the session, oldest first, without texts."""
        return self._query(lambda db: drops.begin_list(db, self.session_id)(), [])

    def original(self, drop_id: str) -> str | None:
        """Return the whole original of a drop, None if the session has no such drop."""
        return self._query(lambda db: drops.original(db, self._session_key(db), drop_id), None)

    def count_recall(self, drop_id: str) -> None:
        """Count that the original was given, in a transaction of its own."""
        self._journal.commit(lambda db: drops.count_recall(db, self._session_key(db), drop_id))

    # Notes of the lane

    def record_memo(self, memo: Memo) -> None:
        """Record a note about the lane."""
        self._journal.record(self, "record_memo", (memo,), lambda db: lanes.record_note(db, self.lane, memo))

    def memos(self, *kinds: str, own: bool = False, first: int = 0) -> list[Memo]:
        """Return the notes of some kinds, or of all, oldest first. `own` leaves out those of ancestors; `first` leaves
        out those before that entry."""
        notes = self._query(lambda db: lanes.notes(db, self.lane, kinds, own=own, first=first), dict[int, Memo]())
        return list(notes.values())

    # Files, tool starts

    def digest(self, path: str) -> str | None:
        """Return the hash of a file when the session last read or wrote it, or None."""
        find = "SELECT digest FROM files WHERE session = ? AND path = ?"
        digest: str | None = self._query(lambda db: db.value(find, self._session_key(db), _path_bytes(path)), None)
        return digest

    def note(self, path: str, digest: str, how: str, at: str = "") -> None:
        """Record that `path` was `read`, `changed` or `created` (`at`: now), its strongest use, and the hash of its
        content."""
        at = at or self._now()
        newest = "coalesce((SELECT max(id) FROM entries WHERE lane = lanes.id), parent_entry)"
        strongest = "CASE WHEN files.how = 'created' OR excluded.how = 'read' THEN files.how ELSE excluded.how END"
        insert = (
            f"INSERT INTO files SELECT ?, ?, ?, ?, ?, {newest} FROM lanes"
            " WHERE id = coalesce((SELECT main FROM sessions WHERE key = ?), ?) ON CONFLICT (session, path)"
            f" DO UPDATE SET digest = excluded.digest, how = {strongest}, at = excluded.at, entry = excluded.entry"
        )

        if self._journal.db.is_shared and len(_path_bytes(path)) > LONGEST_PATH:
            return

        def write(db: Database) -> None:
            session = lanes.session_of(db, self.lane)
            db.files_noted += 1
            db.run(insert, session, _path_bytes(path), digest, how, at, session, self.lane)

        self._journal.record(self, "note", (path, digest, how, at), write)
        self.noted.add(path)

    def files(self) -> list[tuple[str, str]]:
        """Return path and use (`read`, `changed`, `created`) of every file that the session saw, by path."""
        find = "SELECT path, how FROM files WHERE session = ? ORDER BY path"
        return [(_path_text(row[0]), row[1]) for row in self.db.all(find, self._session_key(self.db))]

    def seen_files(self, most: int = MAX_SEEN) -> list[SeenFile]:
        """Return the files that the session saw last, newest first."""
        return [SeenFile(_path_text(row[0]), *row[1:]) for row in self.db.all(SEEN_FILES_QUERY, self.lane, most)]

    def record_start(self, call_id: str, name: str, memos: Sequence[Memo] = ()) -> None:
        """Record that a tool is about to run, with its notes; `NexusError("ledger", ...)` if it was started before: it
        must not run again."""

        at = self._now()

        def write(db: Database) -> None:
            lanes.session_of(db, self.lane)
            insert = f"INSERT INTO started (lane, call, name, at, entry) SELECT ?, ?, ?, ?, ({lanes.LAST_ID})"
            db.run(insert, self.lane, call_id, name, at, self.lane)
            for memo in memos:
                lanes.record_note(db, self.lane, memo)

        self._journal.record(self, "record_start", (call_id, name, memos), write)
        if self.started is not None:
            self.started.add(call_id)

    def was_started(self, call_id: str) -> bool:
        """True if the tool of a call was started, in this lane or in an ancestor before the fork.

        Later calls of an ancestor have the same ids, because both lanes continue counting from the fork.
        """
        if self.started is None:
            rows = self._query(lambda db: db.all(*lanes.started_query(db, self.lane)), list[Row]())
            self.started = {call for (call,) in rows}
        return call_id in self.started

    # Token calibration

    def calibration(self, model: str) -> Calibration:
        return self._query(lambda db: calibrations.calibration(db, model), Calibration())

    def calibrate(self, model: str, value: Calibration) -> None:
        """Store the calibration of `model` with the next transaction, which is that of its reply."""
        calibrations.calibrate(self._journal.db, model, value)

    def stored_count(self, encoding: str, digest: bytes) -> int | None:
        """Return the stored token count of a text, or None. From a server the session's counts are read once."""
        digest = digest[:DIGEST]
        if self.db.is_shared:
            if self._counts is None:
                find = "SELECT encoding, digest, tokens FROM counts WHERE session = ?"
                rows = self._query(lambda db: db.all(find, self._session_key(db)), list[Any]())
                self._counts = {(row[0], bytes(row[1])): row[2] for row in rows}
            return self._counts.get((encoding, digest))
        find = "SELECT tokens FROM counts WHERE digest = ? AND encoding = ?"
        count: int | None = self._query(lambda db: db.value(find, digest, encoding), None)
        return count

    def store_count(self, encoding: str, digest: bytes, tokens: int) -> None:
        """Store a token count with the next transaction; it may be lost, and is deleted with the session."""
        db = self._journal.db
        with suppress(NexusError):
            insert = "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            db.defer_statement(insert, digest[:DIGEST], encoding, tokens, self._session_key(db))


def _path_bytes(path: str) -> bytes:
    """Return a file name as bytes, so that names that are not UTF-8 stay distinct."""
    return path.encode("utf-8", "surrogatepass")


def _path_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogatepass")


class TransactionLog(LaneLog):
    """A log inside a transaction of its caller."""

    journal_type = TransactionJournal
