"""List past sessions of a project from the session table alone, without reading an entry."""

from __future__ import annotations

from nexus_cli.core.memory import Episode
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.typed_text import typed_text
from nexus_cli.ledger.database import Database


def list_episodes(db: Database, project: str, without: str, limit: int) -> list[Episode]:
    """Return the sessions of `project` that were used last, with their titles, the newest first.

    Leave out session `without`, its ancestors and their forks, and sessions without a name whose first message the
    person did not type (they have a memo `trigger`).
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
    """Return the typed part of a message on one line."""
    return " ".join(typed_text(text).split())
