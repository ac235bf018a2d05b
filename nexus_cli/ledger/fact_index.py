"""The full-text index over the facts: an FTS5 table, made when it is first needed and kept in step by whoever writes.

It holds the words of a fact as `nexus_cli.core.words` has them, so it needs no stemmer of its own and finds the same as
the plain scan that takes its place where SQLite has no FTS5. It may be lost: the next write makes it anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.words import words
from nexus_cli.ledger.database import Database

MAKE = "CREATE VIRTUAL TABLE IF NOT EXISTS facts_text USING fts5(words, tokenize = 'unicode61')"

_MOST = 200
"""Words that one query may have; SQLite takes 256."""

_MISSING = """SELECT key, text FROM facts WHERE state <> 'forgotten'
    AND NOT EXISTS (SELECT 1 FROM facts_text WHERE rowid = facts.key)"""


def renew(db: Database) -> None:
    """Bring the index in step with the facts; inside the transaction that changed them. Nothing where FTS5 is missing.

    What is forgotten leaves the file: the index is merged, and SQLite overwrites what it frees.
    """
    try:
        db.run(MAKE)
    except sqlite3.OperationalError:
        return
    stale = db.all("SELECT rowid FROM facts_text WHERE rowid NOT IN (SELECT key FROM facts WHERE state <> 'forgotten')")
    for (key,) in stale:
        db.run("DELETE FROM facts_text WHERE rowid = ?", key)
    for key, text in db.all(_MISSING):
        db.run("INSERT INTO facts_text (rowid, words) VALUES (?, ?)", key, " ".join(words(text)))
    if stale:
        db.run("INSERT INTO facts_text (facts_text) VALUES ('optimize')")


def ranked(db: Database, wanted: Sequence[str], where: str, values: Sequence[Any], limit: int) -> list[int] | None:
    """Keys of the facts that hold any of `wanted`, the best by bm25 first; None where there is no index in step.

    `where` and its `values` choose among the rows of `facts`.
    """
    asked = " OR ".join(f'"{term}"' for term in wanted[:_MOST])
    try:
        if db.one(f"{_MISSING} LIMIT 1") is not None:
            return None
        rows = db.all(
            "SELECT facts.key FROM facts_text JOIN facts ON facts.key = facts_text.rowid"
            f" WHERE facts_text MATCH ? AND {where} ORDER BY bm25(facts_text), facts.key DESC LIMIT ?",
            asked, *values, limit,
        )  # fmt: skip
    except NexusError:
        return None
    return [int(row[0]) for row in rows]


def share(text: str, wanted: Sequence[str]) -> float:
    """How well `text` fits, where no index ranks it: the share of its words, a little less for a short one."""
    own = set(words(text))
    return len(own.intersection(wanted)) / (len(own) + 5)


def among(project: str | None, slots: Collection[MemorySlot], state: FactState | None) -> tuple[str, list[Any]]:
    """The condition on rows of `facts` that are not forgotten, and its values."""
    where, values = ["state <> 'forgotten'"], list[Any]()
    if project is not None:
        where.append("project IN ('', ?)")
        values.append(replace_surrogates(project))
    if slots:
        where.append(f"slot IN ({','.join('?' * len(slots))})")
        values += map(str, slots)
    if state is not None:
        where.append("state = ?")
        values.append(str(state))
    return " AND ".join(where), values
