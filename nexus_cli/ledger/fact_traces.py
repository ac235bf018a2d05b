"""In which sessions a fact can still be read: a request that was sent stays as it was, whatever is forgotten later."""

from __future__ import annotations

from nexus_cli.core.memory import Fact
from nexus_cli.ledger.database import Database


def told_in(db: Database, fact: Fact) -> list[str]:
    """Ids of the sessions that were told `fact`, of their forks, and of the one that it comes from; the oldest first.

    Looks for the fact's number, so that it finds them after the text is gone. Reads every preamble of the ledger.
    """
    mark = f"%(remembered %, {fact.id})%"
    rows = db.all(
        """WITH RECURSIVE held (lane) AS (
            SELECT lane FROM entries WHERE preamble LIKE ? UNION SELECT lane FROM fixes WHERE preamble LIKE ?
            UNION SELECT id FROM lanes WHERE epoch IN (SELECT epoch FROM slots WHERE preamble LIKE ?)
            UNION SELECT l.id FROM held JOIN lanes l ON l.parent = held.lane),
        holding (session) AS (
            SELECT l.session FROM held JOIN lanes l ON l.id = held.lane
            UNION SELECT e.session FROM slots s JOIN epochs e ON e.key = s.epoch WHERE s.preamble LIKE ?)
        SELECT id FROM sessions WHERE key IN (SELECT session FROM holding) OR id = ? ORDER BY key""",
        mark, mark, mark, mark, fact.session if fact.entry else "",
    )  # fmt: skip
    return [str(row[0]) for row in rows]
