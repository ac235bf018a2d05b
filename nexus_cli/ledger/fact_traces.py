"""Find the sessions in which a fact can still be read, because requests that were sent never change.

Memos tell which entries contain it, so it works after the text is gone. Rows of versions without these memos are
searched for the fact's number. Texts that repeat the fact in other words are not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import TOLD, Fact
from nexus_cli.core.message import from_record
from nexus_cli.ledger import blobs
from nexus_cli.ledger.database import Database

SOURCES = ("tool:search_memory", "tool:remember", "tool:merge_facts", "tool:context", "tool:recall", "nexus")
"""Actors of older entries that show facts with their numbers: the memory tools, those that read drops, and the fact
list at the beginning of a consolidation."""


def find_sessions_with(db: Database, fact: Fact) -> list[str]:
    """Return the ids of the sessions that contain `fact`, oldest first.

    These are the sessions with it in a request, a tool result or a drop, their forks, and the one that it comes from.
    Reads every memo of told facts, and for older rows every preamble and every result of the tools in `SOURCES`.
    """
    first_entries, keys = _find_in_texts(db, fact)
    _note_first(first_entries, _find_in_memos(db, fact))
    for lane, session, parent, entry in db.all("SELECT id, session, parent, parent_entry FROM lanes ORDER BY id"):
        if parent in first_entries and entry >= first_entries[parent]:  # a fork shows the parent's earlier entries
            first_entries[lane] = min(first_entries[parent], first_entries.get(lane, entry))
        if lane in first_entries:
            keys.add(session)
    source = fact.session if fact.entry else ""
    rows = db.all("SELECT id, key FROM sessions ORDER BY key")
    return [str(name) for name, key in rows if key in keys or name == source]


def _note_first(first_entries: dict[int, int], found: Iterable[tuple[int, int]]) -> None:
    for lane, entry in found:
        first_entries[lane] = min(entry, first_entries.get(lane, entry))


def _find_in_memos(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Yield lane and entry of every memo that names the fact."""
    for lane, entry, blob in db.all("SELECT lane, entry, blob FROM memos WHERE kind = ?", TOLD):
        try:
            if fact.id in json.loads(blobs.get(db, blob))["ids"]:
                yield lane, entry
        except (NexusError, ValueError, LookupError):
            continue  # damaged: unreadable


def _find_in_texts(db: Database, fact: Fact) -> tuple[dict[int, int], set[int]]:
    """Return the first entry with the fact by lane, and the keys of further sessions, as older rows show it."""
    first_entries = dict[int, int]()
    _note_first(first_entries, (*_find_in_preambles(db, fact), *_find_in_results(db, fact)))
    return first_entries, {*_find_in_drops(db, fact)} | _find_in_epochs(db, fact, first_entries)


def _marker(fact: Fact) -> re.Pattern[str]:
    """Return the pattern of a fact's number as requests and results show it."""
    return re.compile(rf"^{fact.id} \(|\(remembered [^()\n]*, {fact.id}[;)]", re.MULTILINE)


def _find_in_preambles(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Yield lane and entry of every preamble with the fact."""
    wanted, like = _marker(fact), f"%(remembered %, {fact.id}%"
    for table, entry in (("entries", "id"), ("fixes", "entry")):
        for lane, number, text in db.all(f"SELECT lane, {entry}, preamble FROM {table} WHERE preamble LIKE ?", like):
            if wanted.search(text):
                yield lane, number


def _find_in_results(db: Database, fact: Fact) -> Iterator[tuple[int, int]]:
    """Yield lane and entry of every tool result and list of facts with the fact."""
    wanted = _marker(fact)
    places = ", ".join("?" * len(SOURCES))
    for lane, entry, blob in db.all(f"SELECT lane, id, blob FROM entries WHERE actor IN ({places})", *SOURCES):
        try:
            message = from_record(json.loads(blobs.get(db, blob)))
        except (NexusError, ValueError, LookupError):
            continue  # damaged: unreadable
        if wanted.search(message.content):
            yield lane, entry


def _find_in_epochs(db: Database, fact: Fact, first_entries: dict[int, int]) -> set[int]:
    """Return the keys of sessions with an epoch whose head contains the fact; add its lanes to `first_entries`."""
    wanted = _marker(fact)
    rows = db.all(
        "SELECT s.epoch, s.preamble, e.session FROM slots s JOIN epochs e ON e.key = s.epoch WHERE s.preamble LIKE ?",
        f"%(remembered %, {fact.id}%",
    )
    telling = {(epoch, session) for epoch, text, session in rows if wanted.search(text)}
    for epoch, _ in telling:
        first_entries.update((row[0], 0) for row in db.all("SELECT id FROM lanes WHERE epoch = ?", epoch))
    return {session for _, session in telling}


def _find_in_drops(db: Database, fact: Fact) -> Iterator[int]:
    """Yield the keys of sessions with a drop that contains the fact.

    A drop may be its section, the section of facts without a line of their own, or part of a search result.
    """
    section = re.compile(rf"section \w+_memory\.{fact.id}\b")
    rows = db.all(
        "SELECT session, what, blob FROM drops WHERE what LIKE ? OR what LIKE '%section %_memory.more%'"
        " OR what LIKE 'result of search_memory%'",
        f"%section %_memory.{fact.id}%",
    )
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
