"""In which sessions a fact can still be read: a request that was sent stays as it was, whatever is forgotten later.

Looks for the fact's number, so that it finds them after the text is gone; what somebody said again in their own words
has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact
from nexus_cli.core.message import from_record
from nexus_cli.ledger import blobs
from nexus_cli.ledger.database import Database

SOURCES = ("tool:search_memory", "tool:remember", "tool:merge_facts", "tool:context", "tool:recall", "nexus")
"""Whose entries give facts by number: the tools of memory and those that read what was left out, and the list that is
put in order."""


def find_sessions_with(db: Database, fact: Fact) -> list[str]:
    """Ids of the sessions that were told `fact` or found it, of forks that show this, and of the one that it comes
    from; the oldest first. Reads every preamble of the ledger, and every result of those tools."""
    first_entries = dict[int, int]()
    for lane, entry in (*_find_in_preambles(db, fact), *_find_in_results(db, fact)):
        first_entries[lane] = min(entry, first_entries.get(lane, entry))
    keys = {*_find_in_drops(db, fact)} | _find_in_epochs(db, fact, first_entries)
    for lane, session, parent, entry in db.all("SELECT id, session, parent, parent_entry FROM lanes ORDER BY id"):
        if parent in first_entries and entry >= first_entries[parent]:  # a fork shows what its parent held by then
            first_entries[lane] = min(first_entries[parent], first_entries.get(lane, entry))
        if lane in first_entries:
            keys.add(session)
    source = fact.session if fact.entry else ""
    rows = db.all("SELECT id, key FROM sessions ORDER BY key")
    return [str(name) for name, key in rows if key in keys or name == source]


def _marker(fact: Fact) -> re.Pattern[str]:
    """How requests and results show that a fact stands beside."""
    return re.compile(rf"^{fact.id} \(|\(remembered [^()\n]*, {fact.id}[;)]", re.MULTILINE)


def _find_in_preambles(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Lane and entry of every preamble that tells it."""
    wanted, like = _marker(fact), f"%(remembered %, {fact.id}%"
    for table, entry in (("entries", "id"), ("fixes", "entry")):
        for lane, number, text in db.all(f"SELECT lane, {entry}, preamble FROM {table} WHERE preamble LIKE ?", like):
            if wanted.search(text):
                yield lane, number


def _find_in_results(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Lane and entry of every result, and every list of facts, that holds it."""
    wanted = _marker(fact)
    places = ", ".join("?" * len(SOURCES))
    for lane, entry, blob in db.all(f"SELECT lane, id, blob FROM entries WHERE actor IN ({places})", *SOURCES):
        try:
            message = from_record(json.loads(blobs.get(db, blob)))
        except (NexusError, ValueError, LookupError):
            continue  # damaged: nothing can be read there any more
        if wanted.search(message.content):
            yield lane, entry


def _find_in_epochs(db: Database, fact: Fact, first_entries: dict[int, int]) -> set[int]:
    """Keys of the sessions with an epoch whose head tells it; the lanes under one are put into `first_entries`."""
    wanted = _marker(fact)
    rows = db.all(
        "SELECT s.epoch, s.preamble, e.session FROM slots s JOIN epochs e ON e.key = s.epoch WHERE s.preamble LIKE ?",
        f"%(remembered %, {fact.id}%",
    )  # fmt: skip
    telling = {(epoch, session) for epoch, text, session in rows if wanted.search(text)}
    for epoch, _ in telling:
        first_entries.update((row[0], 0) for row in db.all("SELECT id FROM lanes WHERE epoch = ?", epoch))
    return {session for _, session in telling}


def _find_in_drops(db: Database, fact: Fact) -> Iterator[int]:
    """Keys of the sessions with a drop that holds it: its section, the one of those without a line, or a part of what a
    search had found."""
    section = re.compile(rf"section \w+_memory\.{fact.id}\b")
    rows = db.all(
        "SELECT session, what, blob FROM drops WHERE what LIKE ? OR what LIKE '%section %_memory.more%'"
        " OR what LIKE 'result of search_memory%'",
        f"%section %_memory.{fact.id}%",
    )  # fmt: skip
    wanted = _marker(fact)
    for session, what, blob in rows:
        if section.search(what):
            yield session
        elif blob is not None:
            try:
                found = wanted.search(blobs.get_text(db, blob))
            except NexusError:
                continue  # damaged, as above
            if found:
                yield session
