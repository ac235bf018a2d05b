"""One open ledger: its sessions, their locks, and the logs of their lanes.

The SQL is in the other modules; `lane_log` reads and writes the records of a lane. Methods that write have committed
when they return, or raise `NexusError("ledger", ...)` with nothing written. Several threads may use one `Ledger`, and
several processes one file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.ledger_place import LedgerPlace, ledger_exists, ledger_place, shown_place
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.clock import utc_now
from nexus_cli.core.entry import AGENT_NAME, AT_ONCE, Memo
from nexus_cli.core.errors import LedgerAwayError, NexusError, UsageError, reason_of
from nexus_cli.core.front_ends import RUN, SERVED
from nexus_cli.core.memo_kinds import DECISION, JOB, OPENING_KINDS, SHOWN_TEXT, TURN_KINDS
from nexus_cli.core.memory import Episode, Fact
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.running_workers import CLOSED, RUNNING
from nexus_cli.core.services import Calibration
from nexus_cli.core.typed_text import typed_text
from nexus_cli.core.usage import Usage, UsageSum
from nexus_cli.ledger import calibrations, drops, entries, epochs, lane_state, lanes, requests, sessions
from nexus_cli.ledger.database import Database, Query
from nexus_cli.ledger.facts import FactTable
from nexus_cli.ledger.lane_log import MAX_SEEN, SEEN_FILES_QUERY, LaneLog
from nexus_cli.ledger.lock_owners import (
    SUFFIX,
    UNKNOWN_OWNER,
    LockOwner,
    describe_process,
    end_owner,
    find_owners,
    read_owner,
    take_lock,
)
from nexus_cli.ledger.open_database import REPLACED, connect, connect_memory, lock_folder
from nexus_cli.ledger.sessions import SessionInfo

if TYPE_CHECKING:
    from nexus_cli.ledger.plans import PlanTable
    from nexus_cli.ledger.runs import RunTable
    from nexus_cli.ledger.search import SearchResult
    from nexus_cli.ledger.spaces import SpaceTable


MAX_EPISODES = 200
"""Most sessions that are searched for past work."""
_MEMBER = "SELECT 1 FROM entities e JOIN members m ON m.entity = e.key WHERE e.folded = ?"
_ANY_RUN, _ALL_IDS = ("SELECT 1 FROM runs LIMIT 1",), ("SELECT id FROM sessions",)
_OPENING: Sequence[Query] = ((_MEMBER, AGENT_NAME), (calibrations.QUERY,), _ANY_RUN)
"""What every opening of a session asks."""


class Ledger:
    """One open ledger. Use `open`."""

    def __init__(self, db: Database, place: LedgerPlace | None, notices: list[str]) -> None:
        self.db = db
        self._locks: dict[str, FileLock | None] = {}
        """The sessions and runs that it has locked; a server has their locks."""
        self._taken_over: set[str] = set()
        self.facts = FactTable(db)
        """Facts remembered over sessions."""
        self.place = place
        """Its place; None if it is in memory."""
        self.path = place if isinstance(place, Path) else None
        """The file; None if it is in memory or on a server."""
        self.is_kept = place is not None
        """False if it is in memory and lost when closed."""
        self.notices = notices
        """Notices for the person about the opening, one line each."""
        self.writes = db.writes
        """False if it is read-only: its sessions are recorded elsewhere."""
        self.server = place if isinstance(place, str) else ""
        """The address of its server, "" for a file."""
        self._projects: dict[str, str] = {}
        """By path of the root, the projects that were looked for on a server."""

    @classmethod
    def open(cls, place: LedgerPlace | None) -> Ledger:
        """Open the ledger at `place`, created or upgraded as needed; None opens one in memory.

        A damaged file is set aside, never overwritten, and reported in `notices`. Raises `NexusError("ledger", ...)`
        for a place that cannot be written or reached, or a newer schema.
        """
        notices: list[str] = []
        if isinstance(place, str):
            ledger = cls._on_server(place)
            if not ledger.writes:
                ledger.close()
                what, why = f"the ledger {shown_place(place)} cannot be opened", "the server is read-only"
                raise NexusError("ledger", what, why, "Use the primary server")
            return ledger
        connection = connect_memory() if place is None else connect(place, notices)
        return cls(Database(connection), place, notices)

    def reconnect(self) -> Ledger:
        """Open another connection to the same ledger; raise `NexusError("ledger", ...)` for one in memory."""
        if self.place is None:
            raise NexusError("ledger", "no second connection can be opened", "the ledger is in memory")
        return Ledger.open(self.place)

    @classmethod
    def _on_server(cls, url: str) -> Ledger:
        try:
            from nexus_cli.ledger.postgres_schema import open_server  # noqa: PLC0415  (a file needs no psycopg)
        except ImportError as error:
            from nexus_cli.core.install_hint import install_hint  # noqa: PLC0415  (as above)

            what, why = f"the ledger {shown_place(url)} cannot be opened", f"psycopg cannot be imported ({error})"
            raise NexusError("ledger", what, why, f"Install it: {install_hint('team')}") from error
        from nexus_cli.ledger.unsaved_entries import unsaved_sessions  # noqa: PLC0415  (as above)

        ledger = cls(open_server(url), url, [])
        if ledger.writes:
            for session in unsaved_sessions(url):
                with suppress(LedgerAwayError):
                    if ledger.lock(session):
                        ledger.unlock(session)
        return ledger

    @classmethod
    def open_for_reading(cls, place: LedgerPlace) -> Ledger:
        """Open the ledger at `place` for reading: as `open`, but read-only if its place is not writable."""
        if isinstance(place, str):
            return cls._on_server(place)
        path = place
        try:
            return cls.open(path)
        except NexusError as error:
            from nexus_cli.ledger.readonly_database import is_unwritable  # noqa: PLC0415

            if not (is_unwritable(error) and os.path.isfile(path)):
                raise
        return cls.open_unchanged(path)

    @classmethod
    @contextmanager
    def read_personal(cls) -> Iterator[Ledger]:
        """Open the person's ledger for reading, or an empty one if it does not exist or cannot be opened."""
        try:
            place = ledger_place()
            ledger = cls.open_for_reading(place) if ledger_exists(place) else cls.open(None)
        except NexusError:
            ledger = cls.open(None)
        with closing(ledger):
            yield ledger

    @classmethod
    def open_unchanged(cls, path: Path) -> Ledger:
        """Open the ledger in a file to read, and leave the file as it is: nothing is created, upgraded or set aside."""
        from nexus_cli.ledger.readonly_database import open_readonly  # noqa: PLC0415

        return cls(open_readonly(path), path, [])

    def list_replaced(self) -> list[Path]:
        """Return the damaged files that were set aside at its place, oldest first."""
        return sorted(self.path.parent.glob(f"{self.path.name}{REPLACED}*[0-9]")) if self.path else []

    def record_in_memory(self) -> None:
        """Record what its sessions do from now on in memory, as with a read-only ledger."""
        self.db.writes = self.writes = False

    def has_runs(self) -> bool:
        """True if there ever was a run, a plan or a message that started one. The cheapest check."""
        return bool(self.db.recent(_ANY_RUN))

    @cached_property
    def runs(self) -> RunTable:
        from nexus_cli.ledger.runs import RunTable  # noqa: PLC0415  (a plain session has none)

        return RunTable(self.db)

    @cached_property
    def spaces(self) -> SpaceTable:
        from nexus_cli.ledger.spaces import SpaceTable  # noqa: PLC0415  (a plain session has none)

        return SpaceTable(self.db)

    @cached_property
    def plans(self) -> PlanTable:
        from nexus_cli.ledger.plans import PlanTable  # noqa: PLC0415  (a plain session has none)

        return PlanTable(self.db)

    def is_member(self, folded: str) -> bool:
        """True if the entity of this folded name is a member of a space. Cheap: every start of a session asks."""
        return self.db.one(_MEMBER, folded) is not None

    def close(self) -> None:
        """Write pending statements, release all locks, close. May be called twice."""
        self.db.close()
        while self._locks:
            self._release(next(iter(self._locks)))

    # Projects

    def project_of(self, folder: Path) -> str:
        """Return the project under which sessions in `folder` are recorded: the path of its root; on a server the
        repository's `HOST/PATH#COMMIT` if it has a remote."""
        path = str(project_identity(folder))
        if not self.server:
            return path
        if path not in self._projects:
            from nexus_cli.ledger.project_keys import find_project  # noqa: PLC0415  (a file needs no git)

            self._projects[path] = find_project(self.db, self.server, path)
        return self._projects[path]

    def _repository_of(self, folder: str | None) -> str:
        """Return the repository by which a server knows the project of `folder`, "" if it has none."""
        if folder is None or not self.server:
            return ""
        project = self.project_of(Path(folder))
        return "" if project.startswith(os.sep) else project

    def runs_of(self, project: str) -> set[int]:
        """Return the keys of the runs of a project on a server, whose folders may be on other machines; none of a
        file."""
        rows = self.db.all("SELECT key FROM runs WHERE project = ?", project) if self.db.is_shared else []
        return {key for (key,) in rows}

    # Sessions

    def create_session(
        self,
        *,
        folder: str,
        project: str,
        model: str,
        recipe: str,
        name: str = "",
        at: str,
        front: str = "",
        spawner: str | None = None,
        worktree: str = "",
        locks: bool = False,
    ) -> SessionInfo:
        """Create a session with its main lane; `front`, `spawner` and `worktree` as in `SessionInfo`. On a server this
        process also locks it, if it `locks`."""
        with ExitStack() as after_error:
            with self.db.write(is_new=True):
                session = sessions.create(
                    self.db,
                    folder=folder,
                    project=project,
                    model=model,
                    recipe=recipe,
                    name=name,
                    at=at,
                    front=front,
                    spawner=spawner,
                    worktree=worktree,
                )
                rows = sessions.open_main(self.db, session)
                if locks and self.server:
                    after_error.callback(self.db.unlock_session, session.id)
                    self.db.lock_new_session(session.id)
            after_error.pop_all()
        ((key, lane),) = rows()
        lanes.cache_new_lane(self.db, lane, key)
        if locks and self.server:
            self._locks[session.id] = None
        return replace(session, main_lane=lane)

    def fork_session(self, source: str, *, name: str = "", at: str, entry: int | None = None) -> SessionInfo:
        """Create a session that continues after `entry` of `source` (default: its newest), sharing its rows and epoch.

        An entry inside a group of calls and results means the last one before the group.
        """
        from nexus_cli.ledger.forking import fork_session  # noqa: PLC0415

        self.save(source)
        return self.session(fork_session(self.db, source, name, at, entry))

    def session(self, session: str) -> SessionInfo:
        """Return a session by its whole id; raise `UsageError` if it does not exist."""
        return sessions.info(self.db, session)

    def find_session(self, key: str) -> SessionInfo:
        """Return a session by id, its beginning or end, or name; raise `UsageError` for none or
        several."""
        return sessions.find(self.db, key)

    def workers(self, session: str) -> list[SessionInfo]:
        """Return the workers of `session`, oldest first."""
        return sessions.select(self.db, "spawner = ? ORDER BY key", session)

    def usage(self, session: str) -> Usage:
        """Return the usage of a session and its workers."""
        return self.usage_sum(session).usage

    def usage_sum(self, session: str) -> UsageSum:
        """Return the sum of the requests of a session and its workers."""
        from nexus_cli.ledger.usage_totals import SESSION_AND_WORKERS, sum_requests  # noqa: PLC0415

        return sum_requests(self.db, SESSION_AND_WORKERS, session)

    def beginning(self, project: str) -> AbstractContextManager[None]:
        """Read the rows for opening a new session of the project, as `opening`."""
        return self.db.reading_once(*_OPENING, *self.memory_queries(project))

    def opening(self, session: SessionInfo) -> AbstractContextManager[None]:
        """Read the rows for opening `session`, of a server in one round trip, and nothing twice in the block until
        something is written."""
        db, lane = self.db, session.main_lane
        return db.reading_once(
            *_OPENING,
            (SEEN_FILES_QUERY, lane, MAX_SEEN),
            lanes.ancestry_query(db, lane),
            (lanes.SESSION_OF, lane),
            (requests.LOST_QUERY, session.id),
            (lane_state.STATE, lane),
            lanes.notes_query(db, lane, OPENING_KINDS),
            *((query, lane) for query in epochs.CURRENT_QUERIES),
            (entries.WINDOW_QUERY, lane),
            (requests.select_requests("reported"), lane),
            lanes.started_query(db, lane),
        )

    def showing(self, log: LaneLog, decisions: int) -> AbstractContextManager[None]:
        """Read the rows for showing the end of a session, as `opening`; of `decisions`, the newest entries, the notes
        of decisions are wanted."""
        db, lane, last = self.db, log.lane, log.last_id()
        newest = ((TURN_KINDS, AT_ONCE), ((SHOWN_TEXT,), AT_ONCE), ((DECISION,), decisions))
        notes = (lanes.notes_query(db, lane, kinds, first=max(1, last - most + 1)) for kinds, most in newest)
        return db.reading_once(_ALL_IDS, requests.finish_query(db, lane, last), *notes)

    def close_lost_requests(self, session: SessionInfo) -> None:
        """Record the outcome of requests and jobs of a session whose process was ended before them."""
        requests.close_lost_requests(self.db, session.id)
        notes = lanes.notes(self.db, session.main_lane, OPENING_KINDS).values()
        for value in {memo.value["id"]: memo.value for memo in notes if memo.kind == JOB}.values():
            if value["state"] == RUNNING:
                log, closed = self.log(session.id), {**value, "state": CLOSED, "killed": True}
                log.record_memo(Memo(JOB, utc_now(), log.last_id(), closed))

    def newest_session(self, folder: str, *, runs: bool = True) -> SessionInfo | None:
        """Return the session of `folder` itself that was used last. An empty one is returned only if there is no other.

        Without `runs`, those of `nexus ask` and of servers do not count.
        """
        where, values = sessions.of_front(folder, "", runs)
        where += " AND folder = ?" + f" AND front <> '{SERVED}'" * (not runs)
        order = f"ORDER BY entries > 0 DESC, {sessions.LAST_USED} LIMIT 1"
        return next(iter(sessions.select(self.db, f"{where} {order}", *values, replace_surrogates(folder))), None)

    def sessions(
        self, folder: str | None = None, limit: int = 50, *, runs: bool = True, worktrees: bool = True
    ) -> list[SessionInfo]:
        """Return the sessions of one folder or of all, last used first; without `runs`, those of `nexus ask` are left
        out. Those of its worktrees belong to the root of a project unless `worktrees` is False, on a server those of a
        repository to each clone."""
        where, values = sessions.of_front(folder, self._repository_of(folder), runs)
        if folder is not None and not worktrees:
            where, values = f"{where} AND (worktree = '' OR folder = ?)", (*values, replace_surrogates(folder))
        return sessions.select(self.db, f"{where} ORDER BY {sessions.LAST_USED} LIMIT ?", *values, limit)

    def sessions_in_worktree(self, project: str, worktree: str) -> list[SessionInfo]:
        """Return the sessions of a project and its workers in a worktree, last used first."""
        where = f"worktree = ? AND project = ? ORDER BY {sessions.LAST_USED}"
        return sessions.select(self.db, where, worktree, replace_surrogates(project))

    def count_sessions(self, folder: str | None = None, *, runs: bool = True) -> int:
        """Count the sessions that `sessions` would list without a limit."""
        where, values = sessions.of_front(folder, self._repository_of(folder), runs)
        return self.db.number(f"SELECT count(*) FROM sessions WHERE {where}", *values)

    def search_titles(
        self, words: str, folder: str | None = None, limit: int = 50, *, runs: bool = True, without: str = ""
    ) -> tuple[list[SessionInfo], int]:
        """Find sessions by title: each of `words` must be in the name, first message or name of the worktree, or begin
        the id or its shown part, ignoring case. Sessions without entries and session `without` are left out. Return the
        `limit` used last, and the total."""
        where, values = sessions.of_front(folder, self._repository_of(folder), runs)
        where += f" AND entries > 0 AND id <> ? ORDER BY {sessions.LAST_USED}"
        query = f"SELECT key, id, name, first_text, worktree FROM sessions WHERE {where}"
        rows = self.db.recent((query, *values, without))  # the next key asks again
        search_words = replace_surrogates(words).casefold().split()
        texts = ((key, session_id.casefold(), "\n".join(parts).casefold()) for key, session_id, *parts in rows)
        keys = [
            key
            for key, session_id, text in texts
            if all(word in text or sessions.is_part_of_id(session_id, word) for word in search_words)
        ]
        first = ", ".join(map(str, [0, *keys[:limit]]))  # a key press asks: what is listed is read in one query
        return sessions.select(self.db, f"key IN ({first}) ORDER BY {sessions.LAST_USED}"), len(keys)

    def count_runs(self, folder: str) -> int:
        """Count the sessions of `folder` that are runs of `nexus ask`."""
        where, values = sessions.in_folder(folder, self._repository_of(folder))
        return self.db.number(f"SELECT count(*) FROM sessions WHERE {where} AND front = '{RUN}'", *values)

    def search(self, text: str, folder: str | None = None, limit: int = 20) -> SearchResult:
        """Find entries by their text in the sessions of one folder or of all; see `nexus_cli.ledger.search.search`."""
        from nexus_cli.ledger.search import search  # noqa: PLC0415  (few sessions search)

        return search(self.db, text, folder, limit, repository=self._repository_of(folder))

    def short_ids(self, session_ids: Sequence[str]) -> list[str]:
        """Return the shown form of each id: its last six characters, or the whole id if another id ends in these."""
        length, ids = sessions.SHOWN_ID, [str(row[0]) for row in self.db.recent(_ALL_IDS)]
        uses = Counter(part for session_id in ids for part in (session_id[-length:], session_id[:length]))
        return [session_id[-length:] if uses[session_id[-length:]] < 2 else session_id for session_id in session_ids]

    def episodes(self, project: str, without: str = "") -> list[Episode]:
        """Return the sessions of a project that were used last, with their titles, newest first.

        Leaves out session `without`, its ancestors, the sessions that it works for, and their forks; also unnamed
        sessions of `nexus map` and those whose first message the person did not type (they have a memo `trigger`).
        """
        rows = self.db.recent(self.episodes_query(project, without), self.facts.kept_query(project))
        return [Episode(row[0], row[1], " ".join(typed_text(row[2] or row[3]).split())) for row in rows]

    def episodes_query(self, project: str, without: str = "") -> Query:
        """Return the query of `episodes`, with its values."""
        return (
            f"""WITH RECURSIVE up (id) AS (
                SELECT id FROM sessions WHERE id = ? UNION SELECT coalesce(spawner, parent) FROM up JOIN sessions
                USING (id) WHERE coalesce(spawner, parent) IS NOT NULL),
            line (id) AS (SELECT id FROM up UNION SELECT s.id FROM line JOIN sessions s ON s.parent = line.id)
            SELECT id, updated, name, first_text FROM sessions
            WHERE project = ? AND turns > 0 AND spawner IS NULL
            AND id NOT IN (SELECT id FROM line) AND (name <> '' OR recipe <> 'map' AND NOT EXISTS (
                WITH RECURSIVE shown (lane, last) AS (
                    SELECT sessions.main, sessions.entries UNION ALL
                    SELECT l.parent, {self.db.least}(shown.last, l.parent_entry)
                    FROM shown JOIN lanes l ON l.id = shown.lane WHERE l.parent IS NOT NULL)
                SELECT 1 FROM shown JOIN memos m ON m.lane = shown.lane AND m.kind = 'trigger' AND m.entry <= shown.last
                WHERE NOT EXISTS (SELECT 1 FROM shown s JOIN entries e ON e.lane = s.lane
                    WHERE e.kind = 'user' AND e.id < m.entry AND e.id <= s.last)))
            ORDER BY {sessions.LAST_USED} LIMIT {MAX_EPISODES}""",
            without,
            replace_surrogates(project),
        )

    def count_misses(self, project: str) -> dict[str, tuple[int, int]]:
        """Return the counts of sections left out in the newest sessions of the project, and of those recalled
        (`drops`)."""
        return drops.count_misses(self.db, project)

    def memory_queries(self, project: str) -> tuple[Query, ...]:
        """Return the queries of the kept facts and of `count_misses`: what the first epoch of a session asks."""
        return self.facts.kept_query(project), *drops.misses_queries(project)

    def rename_session(self, session: str, name: str) -> None:
        """Rename a session, "" removes its name; raise `UsageError` for a name that is taken."""
        key = sessions.key_of(self.db, session)
        with self.db.write():
            title = sessions.check_name(self.db, name, key)
            self.db.run("UPDATE sessions SET name = ? WHERE key = ?", title, key)

    def move_session(self, session: str, folder: Path) -> int:
        """Record that a session continues in `folder`, and in its project, with its workers there. The project takes
        over the facts of one whose folder is gone if it has no other session; return their number."""
        before, project = self.session(session), replace_surrogates(self.project_of(folder))
        every = [before]
        for moved in every:  # the list grows
            every += [worker for worker in self.workers(moved.id) if worker.folder == moved.folder]
        is_moved = os.path.isabs(before.project) and not os.path.isdir(before.project)
        with self.db.write():
            is_new = not self.db.number("SELECT count(*) FROM sessions WHERE project = ?", project)
            place = replace_surrogates(str(folder))
            for moved in every:
                self.db.run("UPDATE sessions SET folder = ?, project = ? WHERE id = ?", place, project, moved.id)
            return self.facts.move(before.project, project) if is_moved and is_new else 0

    def touch_session(
        self,
        session: str,
        *,
        model: str | None = None,
        recipe: str | None = None,
        front: str | None = None,
    ) -> None:
        """Record that a session continues with `model`, in `recipe` or in `front`."""
        key = sessions.key_of(self.db, session)
        with self.db.write():
            self.db.run(
                "UPDATE sessions SET model = coalesce(?, model), recipe = coalesce(?, recipe),"
                " front = coalesce(?, front) WHERE key = ?",
                model,
                recipe,
                front,
                key,
            )

    def delete_session(self, session: str) -> int:
        """Purge a session with its workers, except for records that another session needs, and return the bytes freed.
        Raise `UsageError` while another process uses it."""
        sessions.key_of(self.db, session)
        every = [session]
        for session_id in every:  # the list grows
            every += [worker.id for worker in self.workers(session_id)]
        locked = [candidate for candidate in every if self.is_locked(candidate)]
        if busy := next((candidate for candidate in every if not self.lock(candidate)), ""):
            for session_id in every:
                if session_id not in locked:
                    self._release(session_id)
            why = "another process is using " + (f"its worker {busy}" if busy != session else "it")
            raise UsageError(f"session {session} cannot be deleted", why, "Stop that process first")
        return sum(self._delete(candidate) for candidate in reversed(every))

    def _delete(self, session: str) -> int:
        self.facts.clear_quotes(session)
        if self.has_runs():
            self.runs.end_with_session(session)
        freed = self._purge(sessions.key_of(self.db, session))
        self._release(session, remove=True)
        return freed

    # Locks

    def lock(self, session: str) -> bool:
        """Lock a session, or a run by its id, until `close` or the end of the process; False if another live process
        has the lock. What was recorded of the session and not saved yet is saved; `LedgerAwayError` if that fails."""
        if not self.is_kept or not self.writes or session in self._locks or session in self._taken_over:
            self.save(session)
            return True
        if self.path is None:
            return self._lock_on_server(session)
        try:
            lock = take_lock(lock_folder(self.path) / f"{session}{SUFFIX}")
        except OSError as error:
            what = f"session {session} cannot be locked"
            raise NexusError("ledger", what, reason_of(error), "Check the permissions") from error
        if lock is not None:
            lock.write(describe_process(is_busy=False))
            self._locks[session] = lock
        return lock is not None

    def _lock_on_server(self, session: str) -> bool:
        if not self.db.lock_session(session):
            return False
        self._locks[session] = None
        from nexus_cli.ledger.unsaved_entries import save_kept_entries  # noqa: PLC0415  (as above)

        try:
            self.notices += save_kept_entries(self.db, self.server, session)
        except BaseException:
            self.unlock(session)
            raise
        return True

    def save(self, session: str) -> None:
        """Commit what a log of this process has not saved yet."""
        if save := self.db.unsaved.get(session):
            save()

    def _release(self, name: str, *, remove: bool = False) -> None:
        """Release the lock of a session or a run if this ledger has it, and `remove` its file."""
        if name in self._locks:
            if lock := self._locks.pop(name):
                lock.release(remove=remove)
            self.db.unlock_session(name)

    def mark_busy(self, session: str, is_busy: bool) -> None:
        """Tell other processes whether a turn runs in a session that this ledger has locked."""
        if lock := self._locks.get(session):
            lock.write(describe_process(is_busy=is_busy))

    def find_owners(self) -> dict[str, LockOwner]:
        """Return the process that has each locked session and run, by id; on a server it is unknown."""
        if self.path is None:
            return dict.fromkeys(self.locked_sessions(), UNKNOWN_OWNER)
        return find_owners(lock_folder(self.path))

    def find_owner(self, session: str) -> LockOwner | None:
        """Return the process that has a session locked, None if none has; on a server it is unknown."""
        if self.path is None:
            return UNKNOWN_OWNER if self.find_locked([session]) else None
        return read_owner(lock_folder(self.path) / f"{session}{SUFFIX}")

    def end_owner(self, session: str, owner: LockOwner) -> bool:
        """Send SIGTERM to the process `owner`; False if it has not locked the session any more."""
        return self.path is not None and end_owner(lock_folder(self.path) / f"{session}{SUFFIX}", owner)

    def locked_sessions(self) -> list[str]:
        """Return the ids of the sessions that some process has locked."""
        return self.find_locked([str(row[0]) for row in self.db.all("SELECT id FROM sessions ORDER BY key")])

    def find_locked(self, names: Sequence[str]) -> list[str]:
        """Return those of `names`, ids of sessions and runs, that some process has locked."""
        if self.path is None:
            return self.db.locked_sessions(names)
        folder = lock_folder(self.path)
        return [name for name in names if read_owner(folder / f"{name}{SUFFIX}") is not None]

    def unlock(self, name: str) -> None:
        """Unlock a run, or a session that could not be opened, and delete its lock file."""
        self._release(name, remove=True)

    def take_over(self, session: str) -> None:
        """Use a session that another process has locked, because that process lost its claim of the run."""
        self._taken_over.add(session)

    def is_locked(self, session: str) -> bool:
        """True if this ledger has locked the session."""
        return session in self._locks

    def release(self, session: str) -> None:
        """Unlock a session, and delete it if it is empty."""
        try:
            key = sessions.key_of(self.db, session)
            if not self.session(session).entries and sessions.is_empty(self.db, key):
                self._purge(key)
        finally:
            self._release(session)

    def _purge(self, key: int) -> int:
        from nexus_cli.ledger.purge import delete  # noqa: PLC0415

        return delete(self.db, key)

    # Lanes

    def log(self, session: str, lane: int | None = None) -> LaneLog:
        """Return the log of a session's main lane, or of another one."""
        return LaneLog(self.db, session, lane)

    def logs(self, session: str) -> list[LaneLog]:
        """Return the logs of all lanes of a session, the main one first."""
        key, main = sessions.key_of(self.db, session), self.session(session).main_lane
        every = sorted(lanes.of_session(self.db, key), key=lambda lane: (lane != main, lane))
        return [LaneLog(self.db, session, lane) for lane in every]

    # Token calibration

    def calibration(self, model: str) -> Calibration:
        return calibrations.calibration(self.db, model)

    def calibrate(self, model: str, value: Calibration) -> None:
        calibrations.calibrate(self.db, model, value)
        with self.db.write():
            pass


def read_facts(place: LedgerPlace, folder: Path) -> list[Fact]:
    """Return the facts of the project of `folder`, by its path, and the global ones in the ledger at `place`, without
    leaving a trace there.

    Used by sessions that save nothing. Empty if the ledger is missing, unreadable, or older than facts.
    """
    from nexus_cli.ledger.readonly_database import ReadOnlyDatabase  # noqa: PLC0415

    path = str(project_identity(folder))
    try:
        if isinstance(place, str):
            with closing(Ledger.open_for_reading(place)) as ledger:
                facts = ledger.facts.list_facts(ledger.project_of(folder))
                return [replace(fact, project=path if fact.project else "") for fact in facts]
        if not place.is_file():
            return []
        with closing(ReadOnlyDatabase(place)) as db:
            return FactTable(db).list_facts(path)
    except (NexusError, ValueError):
        return []
