"""Past sessions of a project by what listings know of them: no entry is read, however long they were."""

from __future__ import annotations

from nexus_cli.core.memory import Episode
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.words import own_words
from nexus_cli.ledger.database import Database


def recent(db: Database, project: str, without: str, limit: int) -> list[Episode]:
    """The last used sessions of `project` with a title, the newest first.

    Session `without` is left out, with those that it was forked from and those that were forked from it. So is one
    without a name whose first words the person did not type (a memo `trigger` says so).
    """
    rows = db.all(
        """WITH RECURSIVE up (id) AS (
            SELECT ? UNION SELECT parent FROM up JOIN sessions USING (id) WHERE parent IS NOT NULL),
        line (id) AS (SELECT id FROM up UNION SELECT s.id FROM line JOIN sessions s ON s.parent = line.id)
        SELECT id, updated, name, first_text FROM sessions
        WHERE project = ? AND turns > 0 AND id NOT IN (SELECT id FROM line) AND (name <> '' OR NOT EXISTS (
            WITH RECURSIVE shown (lane, last) AS (
                SELECT sessions.main, sessions.entries UNION ALL
                SELECT l.parent, min(shown.last, l.parent_entry)
                FROM shown JOIN lanes l ON l.id = shown.lane WHERE l.parent IS NOT NULL)
            SELECT 1 FROM shown JOIN memos m ON m.lane = shown.lane AND m.kind = 'trigger' AND m.entry <= shown.last
            WHERE NOT EXISTS (SELECT 1 FROM shown s JOIN entries e ON e.lane = s.lane
                WHERE e.kind = 'user' AND e.id < m.entry AND e.id <= s.last)))
        ORDER BY used DESC, updated DESC, key DESC LIMIT ?""",
        without, replace_surrogates(project), limit,
    )  # fmt: skip
    return [Episode(row[0], row[1], _title(row[2] or row[3])) for row in rows]


def _title(text: str) -> str:
    """On one line, without what went along with the words."""
    return " ".join(own_words(text).split())
