"""Find the sessions in which a fact can still be read, because requests that were sent never change.

Memos tell which entries contain it, so it works after the text is gone. Texts that repeat the fact in other words are
not found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import TOLD_FACTS
from nexus_cli.core.memory import Fact
from nexus_cli.ledger import blobs
from nexus_cli.ledger.database import Database


def find_sessions_with(db: Database, fact: Fact) -> list[str]:
    """Return the ids of the sessions that contain `fact`, oldest first.

    These are the sessions with it in a request, a tool result or a drop, their forks, and the one that it comes from.
    Reads every memo of told facts.
    """
    first_entries, keys = dict[int, int](), set[int]()
    for lane, entry in _find_in_memos(db, fact):
        first_entries[lane] = min(entry, first_entries.get(lane, entry))
    for lane, session, parent, entry in db.all("SELECT id, session, parent, parent_entry FROM lanes ORDER BY id"):
        if parent in first_entries and entry >= first_entries[parent]:  # a fork shows the parent's earlier entries
            first_entries[lane] = min(first_entries[parent], first_entries.get(lane, first_entries[parent]))
        if lane in first_entries:
            keys.add(session)
    source = fact.session if fact.entry else ""
    rows = db.all("SELECT id, key FROM sessions ORDER BY key")
    return [name for name, key in rows if key in keys or name == source]


def _find_in_memos(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Yield lane and entry of every memo that names the fact."""
    for lane, entry, blob in db.all("SELECT lane, entry, blob FROM memos WHERE kind = ?", TOLD_FACTS):
        try:
            if fact.id in json.loads(blobs.get(db, blob))["ids"]:
                yield lane, entry
        except (NexusError, ValueError, LookupError):
            continue  # damaged: unreadable
