"""Copy a whole ledger into an empty one, on either engine, in one transaction of the target.

Keys and ids stay. Only the numbers of texts may change: a file has each text once, a server once for each project.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.run import fold_name
from nexus_cli.ledger.blobs import BLOBS_OF
from nexus_cli.ledger.database import Database, Row
from nexus_cli.ledger.open_database import connect_memory
from nexus_cli.ledger.store import Ledger

_TABLES = tuple(
    """
    sessions blobs lanes epochs entries fixes started requests memos schemas slots drops files counts calibrations
    facts entities spaces members messages runs signals plans
    """.split()
)
"""Each after those that it refers to."""
_SERVER_ALONE: Mapping[str, tuple[str, ...]] = {
    "project_members": ("project", "role", "owner"),
    **dict.fromkeys(("sessions", "facts", "calibrations", "entities", "spaces", "plans"), ("made_by",)),
    **dict.fromkeys(("lanes", "epochs", "blobs"), ("project", "made_by")),
    "runs": ("project", "made_by", "principal"),
    "signals": ("author",),
}
"""By table: columns that exist only on a server."""
_MEASURED = ("counts", "calibrations")
"""A server has a row for each session or role, a file the first of these."""
_AT_ONCE = 200
"""Texts that are held in memory together."""


@dataclass
class CopyResult:
    """Figures of a copy."""

    rows: Counter[str] = field(default_factory=Counter)
    """Row counts by table."""
    bytes: int = 0
    """Size of the texts, as stored."""


def copy_ledger(source: Ledger, target: Ledger, verify: Callable[[Ledger], None]) -> CopyResult:
    """Copy everything; `verify` checks the target before the commit, and raises if it is wrong.

    Raise `UsageError` if the target is not empty, or the role is not its administrator.
    """
    _refuse_wrong_target(target.db)
    with target.db.write(alone=True), source.db.read_consistently():
        result = _Copy(source.db, target.db).run()
        verify(target)
    return result


def _refuse_wrong_target(db: Database) -> None:
    what = "the ledger cannot be copied"
    if not db.is_administrator():
        raise UsageError(what, "only the server's administrator can copy a ledger to it", "Ask the administrator")
    full = [table for table in _TABLES if table not in _MEASURED and db.one(f"SELECT 1 FROM {table} LIMIT 1")]
    if full:
        raise UsageError(what, f"the target is not empty: it contains {', '.join(full)}", "Use an empty database")


class _Copy:
    """A copy in progress."""

    def __init__(self, source: Database, target: Database) -> None:
        self.source, self.target = source, target
        self.result = CopyResult()
        self.splits = target.is_shared and not source.is_shared
        self.joins = source.is_shared and not target.is_shared
        self.is_between_servers = target.is_shared and source.is_shared
        self.columns = _columns()
        self.project_of: dict[str, dict[int, str]] = {}
        """The project of each `lane`, `key` (of an epoch), `epoch` and `session`."""
        self.paths: dict[str, str] = {}
        """By repository of a server, the path of its newest clone on this machine: a file knows projects by paths."""
        self.blobs: dict[tuple[int, str], int] = {}
        """Key of a text in the source and its project, to its key in the target."""

    def run(self) -> CopyResult:
        """Copy all tables, then the counters of their keys."""
        if self.splits:
            self._find_projects()
        if self.joins:
            self._find_paths()
        for table in _TABLES:
            if table == "blobs":
                self._copy_blobs()
            else:
                self._insert(table, self._rows(table))
        if self.is_between_servers:
            self._insert("project_members", self.source.all("SELECT project, role, owner FROM project_members"))
        for table, number in self.source.last_numbers().items():
            if table != "blobs" or self.is_between_servers:
                self.target.set_last_number(table, number)
        if self.splits:
            self.target.set_last_number("blobs", self.target.number("SELECT coalesce(max(id), 0) FROM blobs"))
        self._count_rows()
        return self.result

    def _names(self, table: str) -> tuple[str, ...]:
        """Return the columns that are copied."""
        extra_columns = _SERVER_ALONE.get(table, ()) if self.is_between_servers else ()
        if self.splits and table in ("lanes", "epochs", "blobs"):
            extra_columns = ("project",)
        return (*self.columns.get(table, ()), *extra_columns)

    def _rows(self, table: str) -> list[Row]:
        names = self._names(table)
        computed = self.splits and table in ("lanes", "epochs")
        selected = ", ".join(f'"{name}"' for name in (names[:-1] if computed else names))
        rows = self.source.all(f"SELECT {selected} FROM {table}")
        if computed:  # the only way to a row of a deleted session
            projects = self.project_of["lane" if table == "lanes" else "epoch"]
            rows = [(*row, projects.get(row[0], "")) for row in rows]
        if self.paths and "project" in names:
            index = names.index("project")
            rows = [(*row[:index], self.paths.get(row[index], row[index]), *row[index + 1 :]) for row in rows]
        if table == "spaces" and self.joins:
            rows = _with_distinct_names(rows, names.index("name"), names.index("folded"))
        if table in BLOBS_OF and (self.joins or self.splits):
            home, texts = BLOBS_OF[table]
            places, whose = [names.index(name) for name in texts], names.index(home)
            rows = [self._with_new_texts(row, places, home, row[whose]) for row in rows]
        return rows

    def _with_new_texts(self, row: Row, places: list[int], home: str, key: int) -> Row:
        project = self.project_of[home].get(key, "") if self.splits else ""
        values = list(row)
        for place in places:
            if values[place] is not None:
                values[place] = self.blobs.get((values[place], project), values[place])
        return tuple(values)

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            names = self._names(table) or _SERVER_ALONE[table]
            quoted, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
            ignored = " ON CONFLICT DO NOTHING" if table in _MEASURED else ""
            self.target.many(f"INSERT INTO {table} ({quoted}) VALUES ({places}){ignored}", rows)
        self.result.rows[table] += len(rows)

    # Texts

    def _copy_blobs(self) -> None:
        """Copy the texts, in batches that fit into memory."""
        first_numbers = dict[bytes, int]()
        next_number = self.source.number("SELECT coalesce(max(id), 0) FROM blobs") + 1
        users = self._projects_of_blobs() if self.splits else {}
        for rows in self._stored_blobs():
            copied: list[Row] = []
            for row in rows:
                number, digest, codec, data = row[:4]
                self.result.bytes += len(data)
                if self.joins:
                    self.blobs[number, ""] = first_numbers.setdefault(digest, number)
                    copied += [row] if first_numbers[digest] == number else []
                elif self.splits:
                    for place, project in enumerate(sorted(users.get(number, {""}))):
                        self.blobs[number, project] = number if place == 0 else next_number
                        next_number += place > 0
                        copied.append((self.blobs[number, project], digest, codec, data, project))
                else:
                    copied.append(row)
            self._insert("blobs", copied)

    def _stored_blobs(self) -> Iterator[list[Row]]:
        names = ", ".join(self._names("blobs")[: -1 if self.splits else None])
        last = -1
        while rows := self.source.all(f"SELECT {names} FROM blobs WHERE id > ? ORDER BY id LIMIT ?", last, _AT_ONCE):
            yield rows
            last = rows[-1][0]

    def _projects_of_blobs(self) -> dict[int, set[str]]:
        projects: dict[int, set[str]] = {}
        for table, (home, texts) in BLOBS_OF.items():
            for text in texts:
                for key, blob in self.source.all(f"SELECT DISTINCT {home}, {text} FROM {table}"):
                    if blob is not None:
                        projects.setdefault(blob, set()).add(self.project_of[home].get(key, ""))
        return projects

    def _find_paths(self) -> None:
        for project, folder in self.source.all(
            "SELECT project, folder FROM sessions WHERE worktree = '' ORDER BY used"
        ):
            if not os.path.isabs(project) and os.path.isdir(folder):
                self.paths[project] = str(project_identity(Path(folder)))

    def _find_projects(self) -> None:
        """Find the project of every lane and epoch; those of deleted sessions belong to the forks that need them."""
        sessions = dict[int, str](self.source.all("SELECT key, project FROM sessions"))
        rows = self.source.all("SELECT id, session, parent, epoch, origin FROM lanes ORDER BY id DESC")
        lanes = {lane: sessions[session] for lane, session, *_ in rows if session is not None}
        for lane, _, parent, *_ in rows:  # a fork is younger than its source
            if parent is not None and lane in lanes:
                lanes.setdefault(parent, lanes[lane])
        epoch_rows = self.source.all("SELECT key, session, parent FROM epochs ORDER BY key DESC")
        epochs = {key: sessions[session] for key, session, _ in epoch_rows if session is not None}
        for lane, _, _, *used in rows:
            for epoch in used:
                if epoch is not None and lane in lanes:
                    epochs.setdefault(epoch, lanes[lane])
        for key, _, parent in epoch_rows:
            if parent is not None and key in epochs:
                epochs.setdefault(parent, epochs[key])
        self.project_of = {"session": sessions, "lane": lanes, "epoch": epochs, "key": epochs}

    def _count_rows(self) -> None:
        """Raise `NexusError("ledger", ...)` if a table in the target lacks rows."""
        for table in _TABLES:
            source_rows, copied_rows = self._count(self.source, table), self._count(self.target, table)
            if source_rows != copied_rows and not (table in ("blobs", *_MEASURED) and (self.joins or self.splits)):
                raise NexusError(
                    "ledger", "the copy failed", f"{table}: {copied_rows} of {source_rows} rows copied", "Try again"
                )

    def _count(self, db: Database, table: str) -> int:
        return db.number(f"SELECT count(*) FROM {table}")


def _with_distinct_names(rows: list[Row], name: int, folded: int) -> list[Row]:
    """Number the spaces of several owners that have one name: in a file a name is unique."""
    distinct = dict[str, Row]()
    for row in rows:
        values, number = list(row), 1
        while values[folded] in distinct:
            number += 1
            values[name] = f"{row[name]}-{number}"
            values[folded] = fold_name(values[name])
        distinct[values[folded]] = tuple(values)
    return list(distinct.values())


def _columns() -> dict[str, tuple[str, ...]]:
    """Return the columns of every table that both engines have."""
    with closing(Database(connect_memory())) as empty:
        return {table: tuple(str(row[1]) for row in empty.all(f"PRAGMA table_info({table})")) for table in _TABLES}
