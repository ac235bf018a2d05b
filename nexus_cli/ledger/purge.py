"""Delete everything, with its text, that no session can reach any more.

A fork keeps the entries up to its fork and the epochs it came from, even if its parent is deleted. They are deleted
with the last fork that needs them. Freed pages are overwritten (secure_delete) and released, and the write-ahead log is
emptied.
"""

from __future__ import annotations

from nexus_cli.ledger.blobs import BLOBS_OF, select_blobs
from nexus_cli.ledger.database import Database

_REACHED = """WITH RECURSIVE reach (lane, upto) AS (
    SELECT id, 9223372036854775807 FROM lanes WHERE session IS NOT NULL
    UNION SELECT l.parent, {least}(l.parent_entry, r.upto) FROM reach r JOIN lanes l ON l.id = r.lane
    WHERE l.parent IS NOT NULL)
SELECT lane, max(upto) FROM reach GROUP BY lane"""

_EPOCHS = """WITH RECURSIVE line (key) AS (
    SELECT key FROM epochs WHERE session IS NOT NULL
    UNION SELECT epoch FROM lanes WHERE session IS NOT NULL AND epoch IS NOT NULL
    UNION SELECT origin FROM lanes WHERE session IS NOT NULL AND origin IS NOT NULL
    UNION SELECT e.parent FROM line JOIN epochs e ON e.key = line.key WHERE e.parent IS NOT NULL)
DELETE FROM epochs WHERE session IS NULL AND key NOT IN (SELECT key FROM line)"""

_BLOBS = f"DELETE FROM blobs WHERE id NOT IN ({select_blobs(dict.fromkeys(BLOBS_OF, '1 = 1'))})"


def delete(db: Database, key: int) -> int:
    """Purge a session and return the bytes by which the file shrank; raise `NexusError("ledger", ...)` if nothing was
    written."""
    before = db.size()
    with db.write(alone=True):
        db.run("DELETE FROM requests WHERE lane IN (SELECT id FROM lanes WHERE session = ?)", key)
        db.run("DELETE FROM counts WHERE session = ?", key)
        db.run("DELETE FROM sessions WHERE key = ?", key)
        db.run(_EPOCHS)
        _delete_lanes(db)
        db.run(_BLOBS)
    db.shrink()
    return max(0, before - db.size())


def _delete_lanes(db: Database) -> None:
    """Cut the lanes of deleted sessions back to the part that forks show."""
    reached = dict[int, int](db.all(_REACHED.format(least=db.least)))
    for (lane,) in db.all("SELECT id FROM lanes WHERE session IS NULL"):
        if lane not in reached:
            db.run("DELETE FROM lanes WHERE id = ?", lane)
            continue
        db.run("DELETE FROM entries WHERE lane = ? AND id > ?", lane, reached[lane])
        for table in ("fixes", "started", "memos"):
            db.run(f"DELETE FROM {table} WHERE lane = ? AND entry > ?", lane, reached[lane])
