"""Past sessions of a project by what listings know of them: no entry is read, however long they were."""

from __future__ import annotations

from nexus_cli.core.memory import Episode
from nexus_cli.core.message import sound
from nexus_cli.ledger.database import Database


def recent(db: Database, project: str, without: str, limit: int) -> list[Episode]:
    """The last used sessions of `project` with a title, the newest first.

    Session `without` is left out, with those that it was forked from and those that were forked from it.
    """
    rows = db.all(
        """WITH RECURSIVE up (id) AS (
            SELECT ? UNION SELECT parent FROM up JOIN sessions USING (id) WHERE parent IS NOT NULL),
        line (id) AS (SELECT id FROM up UNION SELECT s.id FROM line JOIN sessions s ON s.parent = line.id)
        SELECT id, updated, CASE WHEN name <> '' THEN name ELSE first_text END FROM sessions
        WHERE project = ? AND turns > 0 AND id NOT IN (SELECT id FROM line)
        ORDER BY updated DESC, key DESC LIMIT ?""",
        without, sound(project), limit,
    )  # fmt: skip
    return [Episode(row[0], row[1], _title(row[2])) for row in rows]


def _title(text: str) -> str:
    """On one line, without what went along with the words."""
    return " ".join(text.split("\n\n<", 1)[0].split())
