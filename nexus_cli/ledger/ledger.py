"""The ledger as the rooms above see it: sessions, and by lane everything that happened in them.

SQL stays in the modules beside this one; here stand only the names. Methods that write have committed when they
return and raise `NexusError("ledger", ...)` otherwise, with nothing half-written. One `Ledger` may be used from
several threads, and one file by several processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Episode
from nexus_cli.core.services import Calibration, Fixed, SeenFile
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import drops, entries, epochs, figures, forking, lanes, memos, purge, requests, sessions, traces
from nexus_cli.ledger import search as searching
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.episodes import list_episodes
from nexus_cli.ledger.facts import FactTable
from nexus_cli.ledger.holds import Hold
from nexus_cli.ledger.opening import lock_folder, memory, on_disk, to_read
from nexus_cli.ledger.reading import ReadDatabase, unwritable
from nexus_cli.ledger.requests import Inherited, RequestRow
from nexus_cli.ledger.said import said
from nexus_cli.ledger.search import Found
from nexus_cli.ledger.sessions import SessionInfo


class Ledger:
    """One open ledger. Use `open`."""

    def __init__(self, db: Database, path: Path | None, notices: list[str]) -> None:
        self._db = db
        self._holds: dict[str, Hold] = {}
        self.facts = FactTable(db)
        """What is remembered over sessions."""
        self.path = path
        """The file; None when it lives in memory."""
        self.notices = notices
        """What a person should be told about the opening, one line each."""
        self.writes = not isinstance(db, ReadDatabase)
        """False: it is only read, and whoever works in a session of it keeps what happens elsewhere."""

    @classmethod
    def open(cls, path: Path | None) -> Ledger:
        """The ledger at `path`, made or brought forward as needed; with None one in memory.

        A damaged file is set aside, never overwritten, and named in `notices`. Raises `NexusError("ledger", ...)` for
        a place that cannot be written and for a newer schema.
        """
        notices: list[str] = []
        connection = memory() if path is None else on_disk(path, notices)
        return cls(Database(connection), path, notices)

    @classmethod
    def look(cls, path: Path) -> Ledger:
        """The ledger at `path` for who only reads: as `open`, and as it is where its place cannot be written."""
        try:
            return cls.open(path)
        except NexusError as error:
            if not (unwritable(error) and os.path.isfile(path)):
                raise
        return cls(to_read(path), path, [])

    def close(self) -> None:
        """Write what waits, let go of held sessions, close. Safe to call twice."""
        self._db.close()
        while self._holds:
            self._holds.popitem()[1].release()

    # Sessions

    def create_session(
        self, *, folder: str, project: str, model: str, recipe: str, name: str = "", at: str
    ) -> SessionInfo:
        """A new session with its main lane."""
        with self._db.write():
            key, session = sessions.create(
                self._db, folder=folder, project=project, model=model, recipe=recipe, name=name, at=at
            )
            sessions.open_main(self._db, key, recipe)
        return self.session(session)

    def fork_session(self, source: str, *, name: str = "", at: str, entry: int | None = None) -> SessionInfo:
        """A new session that goes on after `entry` of `source` (default: its newest), sharing its rows and epoch.

        An entry inside a group of calls and results stands for the last one before the group.
        """
        return self.session(forking.fork_session(self._db, source, name, at, entry))

    def session(self, session: str) -> SessionInfo:
        """A session by its whole id; `NexusError("usage", ...)` when there is none."""
        return sessions.info(self._db, session)

    def find_session(self, key: str) -> SessionInfo:
        """By id, a unique beginning of one, or name; `NexusError("usage", ...)` for none or several."""
        return sessions.find(self._db, key)

    def newest_session(self, folder: str) -> SessionInfo | None:
        """The session of `folder` that was used last; one that has nothing in it only where there is no other."""
        return next(iter(sessions.listing(self._db, folder, 1, begun=True) or self.sessions(folder, 1)), None)

    def sessions(self, folder: str | None = None, limit: int = 50) -> list[SessionInfo]:
        """The last used first."""
        return sessions.listing(self._db, folder, limit)

    def search(self, text: str, folder: str | None = None, limit: int = 20) -> Found:
        """Where `text` occurs in the sessions of one folder or of all, the newest entry first."""
        return searching.search(self._db, text, folder, limit)

    def episodes(self, project: str, without: str = "", limit: int = 200) -> list[Episode]:
        """The last used sessions of a project, the newest first; neither session `without` nor what it came from."""
        return list_episodes(self._db, project, without, limit)

    def rename_session(self, session: str, name: str) -> None:
        """Give it another name; "" takes its name away."""
        sessions.rename(self._db, session, name)

    def touch_session(
        self, session: str, *, model: str | None = None, recipe: str | None = None, at: str | None = None
    ) -> None:
        """Record its present model and recipe, or that it was used."""
        sessions.touch(self._db, session, model, recipe, at)

    def delete_session(self, session: str) -> int:
        """Purge what no other session needs; bytes freed. `NexusError("usage", ...)` while another process uses it."""
        key = sessions.key_of(self._db, session)
        if not self.hold(session):
            why = "another process is using it"
            raise NexusError("usage", f"session {session} cannot be deleted", why, "End that one first")
        self.facts.clear_quotes(session)
        freed = purge.delete(self._db, key)
        if session in self._holds:
            self._holds.pop(session).release(remove=True)
        return freed

    def hold(self, session: str) -> bool:
        """Own a session until `close` or the end of the process; False when another live process does."""
        if self.path is None or not self.writes or session in self._holds:
            return True
        try:
            taken = Hold.take(lock_folder(self.path) / f"{session}.lock")
        except OSError as error:
            what = f"session {session} cannot be locked"
            raise NexusError("ledger", what, error.strerror or str(error), "Check the permissions") from error
        if taken is not None:
            self._holds[session] = taken
        return taken is not None

    def holds(self, session: str) -> bool:
        """Whether this ledger owns the session."""
        return session in self._holds

    def let_go(self, session: str) -> None:
        """Own a session no longer; one that nothing happened in is deleted."""
        held = self._holds.pop(session, None)
        try:
            key = sessions.key_of(self._db, session)
            if not self.session(session).entries and sessions.untouched(self._db, key):
                purge.delete(self._db, key)
        finally:
            if held is not None:
                held.release()

    # Lanes

    def open_lane(
        self, session: str, *, agent: str, recipe: str, parent_lane: int | None = None, parent_entry: int = 0
    ) -> int:
        """A further lane of a session: a fork of `parent_lane` after `parent_entry`, or one that begins empty."""
        with self._db.write():
            key = sessions.key_of(self._db, session)
            return lanes.open_lane(self._db, key, agent, recipe, parent_lane, parent_entry)

    def last_id(self, lane: int) -> int:
        """Id of the newest entry, 0 when there is none."""
        return lanes.last_id(self._db, lane)

    def cursor(self, lane: int) -> int:
        """Id of the last entry that the lane's model was sent."""
        return lanes.cursor(self._db, lane)

    # Entries, epochs, requests

    def append(self, lane: int, entry: Entry) -> None:
        """Record what happened; `NexusError("ledger", ...)` also when another process went on with the lane."""
        with self._db.write():
            entries.append(self._db, lane, entry)

    def read(self, lane: int, first: int, last: int) -> list[Entry]:
        """The entries `first` to `last`, of the lane and its ancestors."""
        return entries.read(self._db, lane, first, last)

    def begin_epoch(self, lane: int, epoch: Epoch, left_out: Sequence[Drop], noted: Sequence[Memo] = ()) -> None:
        """Record a new beginning together with what it leaves out and what is noted of it."""
        with self._db.write():
            epochs.begin(self._db, lane, epoch, left_out, noted)

    def next_epoch(self, lane: int) -> int:
        """The id that the session's next epoch takes."""
        return epochs.next_id(self._db, lane)

    def current_epoch(self, lane: int) -> Epoch | None:
        """The epoch that the lane is under."""
        return epochs.current(self._db, lane)

    def epoch(self, lane: int, epoch_id: int) -> Epoch:
        """An epoch of the lane's session or of one it came from; `NexusError("usage", ...)` when there is none."""
        return epochs.read(self._db, epochs.known_key(self._db, lane, epoch_id))

    def sending(
        self, lane: int, sent: Manifest, fixed: Sequence[Fixed], head: Sequence[bytes], dressed: Sequence[Fixed] = ()
    ) -> None:
        """Record a request before its first byte goes out, and move the cursor."""
        requests.sending(self._db, lane, sent, fixed, head, dressed)

    def received(self, lane: int, step: int, usage: Usage, finish: str, reported: bool) -> None:
        """Record how a request ended."""
        self.replied(lane, None, step, usage, finish, reported)

    def replied(
        self, lane: int, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent: str = ""
    ) -> None:
        """`append` and `received` in one transaction."""
        with self._db.write():
            if entry is not None:
                entries.append(self._db, lane, entry)
            requests.received(self._db, lane, step, usage, finish, reported, sent)

    def step(self, lane: int) -> int:
        """How many requests the lane has sent."""
        return requests.last_step(self._db, lane)

    def lanes(self, session: str) -> list[int]:
        """The lanes of a session, the main one first."""
        return lanes.of_session(self._db, sessions.key_of(self._db, session))

    def agent(self, lane: int) -> str:
        """Whose lane it is: `main`, or what a side lane was opened for."""
        return lanes.agent_of(self._db, lane)

    def manifests(self, lane: int, which: str = "all") -> list[RequestRow]:
        """The requests of a lane, oldest first: all, the `newest`, or the `notable` ones of `requests.WHICH`."""
        return requests.rows(self._db, lane, which)

    def tally(self, lane: int, last: int) -> list[tuple[Kind, str, int]]:
        """How many entries up to `last` a lane shows of each kind and actor."""
        return entries.tally(self._db, lane, last)

    def inherited(self, lane: int, which: str = "all") -> Inherited:
        """The requests of the lanes that a lane goes on from, `which` as in `manifests`."""
        return requests.inherited(self._db, lane, which)

    def line_hashes(self, lane: int, epoch_id: int, last: int) -> tuple[list[bytes], list[tuple[int, bytes]]]:
        """SHA-256 of the lines sent under an epoch: of its slots, and of the entries after its base up to `last`."""
        key = epochs.known_key(self._db, lane, epoch_id)
        return epochs.head_lines(self._db, key), entries.lines(self._db, lane, epochs.base_of(self._db, key) + 1, last)

    def said(self, lane: int, actor: str = "person") -> Iterator[tuple[int, str]]:
        """Id and text of what an actor said in a lane, the newest first, each read when it is asked for."""
        return said(self._db, lane, actor)

    # Drops

    def next_drop(self, session: str) -> str:
        """A new drop id."""
        return drops.next_id(self._db, sessions.key_of(self._db, session))

    def last_drop(self, session: str) -> int:
        """The number in the newest drop id that was given out; 0 before the first."""
        return drops.last(self._db, sessions.key_of(self._db, session))

    def record_drop(self, lane: int, drop: Drop) -> None:
        """Record something left out."""
        with self._db.write():
            drops.record(self._db, lane, drop)

    def drops(self, session: str) -> list[Drop]:
        """Every drop that the session knows, oldest first, without texts."""
        return drops.listing(self._db, sessions.key_of(self._db, session))

    def drop(self, session: str, drop_id: str) -> Drop | None:
        """One drop without its text, or None."""
        return drops.find(self._db, sessions.key_of(self._db, session), drop_id)

    def drop_text(self, session: str, drop_id: str) -> str | None:
        """The whole original; of a range of entries their transcript. None when there is no such drop."""
        return drops.text(self._db, sessions.key_of(self._db, session), drop_id)

    def recalled(self, session: str, drop_id: str) -> None:
        """Count that a drop was asked for again."""
        drops.recalled(self._db, sessions.key_of(self._db, session), drop_id)

    # Memos

    def record_memo(self, lane: int, memo: Memo) -> None:
        """Record something about a lane that is no entry."""
        with self._db.write():
            memos.record(self._db, lane, memo)

    def memos(self, lane: int, kind: str = "", *, own: bool = False) -> list[Memo]:
        """The memos of one kind that a lane knows (its `own`: and made), or of all kinds, oldest first."""
        return memos.read(self._db, lane, kind, own=own)

    # Files, tool starts, figures

    def seen(self, session: str, path: str) -> str | None:
        """Hash of a file when the session last read or wrote it."""
        return traces.seen(self._db, sessions.key_of(self._db, session), path)

    def note_file(self, lane: int, path: str, digest: str, how: str, at: str) -> None:
        """Record what a file holds now, and whether it was `read` or `changed`."""
        traces.note_file(self._db, lane, path, digest, how, at)

    def files(self, session: str) -> list[tuple[str, str]]:
        """Path and use (`read`, `changed`, `created`) of every file that the session saw."""
        return traces.files(self._db, sessions.key_of(self._db, session))

    def seen_files(self, session: str, most: int = 10_000) -> list[SeenFile]:
        """The files that the session saw last, the newest first."""
        return traces.seen_files(self._db, sessions.key_of(self._db, session), most)

    def start_call(self, lane: int, call_id: str, name: str, at: str) -> None:
        """Record that a tool is about to run; `NexusError("ledger", ...)` when it was started before."""
        traces.start(self._db, lane, call_id, name, at)

    def was_started(self, lane: int, call_id: str) -> bool:
        """Whether the tool of a call was started, in this lane or in an ancestor before the fork."""
        return traces.was_started(self._db, lane, call_id)

    def calibration(self, model: str) -> Calibration:
        """What was learned of a model."""
        return figures.calibration(self._db, model)

    def calibrate(self, model: str, value: Calibration) -> None:
        """Store what was learned of a model."""
        figures.calibrate(self._db, model, value)

    def known_count(self, encoding: str, digest: bytes) -> int | None:
        """The stored token count of a text."""
        return figures.known_count(self._db, encoding, digest)

    def remember_count(self, session: str, encoding: str, digest: bytes, tokens: int) -> None:
        """Store a token count with the next transaction; it may be lost."""
        figures.remember_count(self._db, sessions.key_of(self._db, session), encoding, digest, tokens)
