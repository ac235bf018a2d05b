"""Search the text of entries: scans sessions, newest first.

Texts are unpacked one at a time; only the hits are kept. Side lanes and preambles are not searched.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, from_record, replace_surrogates
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import blobs, lanes
from nexus_cli.ledger.database import Database, Row
from nexus_cli.ledger.sessions import of_place

AT_ONCE = 50
"""Entries of one lane that are listed together, without their texts."""
AROUND = 60
"""Characters that are shown on either side of a match."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry that contains the text, and its first match."""

    session: str
    name: str
    """The session's name, or ""."""
    folder: str
    entry: int
    at: str
    actor: str
    snippet: str
    """The text around the match, on one line."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    hits: tuple[Hit, ...]
    """Newest first."""
    more: bool
    """True if there may be more hits."""
    damaged: int
    """Number of texts that could not be read."""


def search(
    db: Database, text: str, folder: str | None = None, limit: int = 20, *, repository: str = ""
) -> SearchResult:
    """Find the newest entries that contain `text`, ignoring case, in the sessions of one folder and a `repository` or
    of all; at most `limit`.

    Entries that a fork shares with its source are found once, in the source as long as that exists.
    """
    pattern = re.compile(re.escape(replace_surrogates(text)), re.IGNORECASE)
    hits: list[Hit] = []
    damaged = 0
    for at, session, entry, actor, row in _newest_first(db, folder, repository):
        try:
            message = from_record(json.loads(blobs.unpack(*row)))
        except (NexusError, ValueError, LookupError):
            damaged += 1
            continue
        snippet = _snippet(message, pattern)
        if snippet is not None:
            if len(hits) == limit:
                return SearchResult(tuple(hits), True, damaged)
            hits.append(Hit(*session, entry, at, actor, snippet))
    return SearchResult(tuple(hits), False, damaged)


_Session = tuple[str, str, str]
"""Id, name and folder."""


def _newest_first(db: Database, folder: str | None, repository: str) -> Iterator[tuple[str, _Session, int, str, Row]]:
    """Yield time, session, id, actor and stored text of every entry of the main lanes.

    A lane that several sessions show is yielded with one of them.
    """
    where, values = ("TRUE", ()) if folder is None else of_place(folder, repository)
    rows = db.all(f"SELECT key, id, name, folder, main FROM sessions WHERE {where} ORDER BY key", *values)
    main_lanes = {row[4] for row in rows}
    last_by_lane: dict[int, tuple[int, _Session]] = {}
    for key, name, title, place, main in rows:
        for segment in lanes.ancestry(db, main):
            if segment.session != key and segment.lane in main_lanes:
                continue
            if segment.last > last_by_lane.get(segment.lane, (0,))[0]:
                last_by_lane[segment.lane] = (segment.last, (name, title, place))
    streams = [_backwards(db, lane, session, last) for lane, (last, session) in last_by_lane.items()]
    for at, session, entry, actor, blob in heapq.merge(*streams, key=lambda place: place[0], reverse=True):
        row = db.one("SELECT hash, codec, data FROM blobs WHERE id = ?", blob)
        yield at, session, entry, actor, row or (None, None, None)


def _backwards(db: Database, lane: int, session: _Session, last: int) -> Iterator[tuple[str, _Session, int, str, int]]:
    """Yield the entries of one lane up to `last`, newest first, without their texts."""
    while True:
        rows = db.all(
            "SELECT at, id, actor, blob FROM entries WHERE lane = ? AND id <= ? ORDER BY id DESC LIMIT ?",
            lane,
            last,
            AT_ONCE,
        )
        for at, entry, actor, blob in rows:
            yield at, session, entry, actor, blob
        if len(rows) < AT_ONCE:
            return
        last = rows[-1][1] - 1


def _snippet(message: Message, pattern: re.Pattern[str]) -> str | None:
    """Return the text around the first match in a message or one of its calls; None if there is none."""
    calls = (f"{call.name} {call.raw or _plain(call.arguments)}" for call in message.tool_calls)
    for text in (message.content, *calls):
        match = pattern.search(text)
        if match:
            start, end = max(0, match.start() - AROUND), min(len(text), match.end() + AROUND)
            excerpt = " ".join(text[start:end].split())
            return ("…" if start else "") + excerpt + ("…" if end < len(text) else "")
    return None


def _plain(arguments: Any) -> str:
    """Return arguments in the form in which a person would write them: strings unquoted, the rest as JSON."""
    return " ".join(value if isinstance(value, str) else canonical(value).decode() for value in arguments.values())
