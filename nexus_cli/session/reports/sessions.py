"""The sessions of a ledger, one of them whole, and where a text occurs in them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nexus_cli.core.entry import Entry
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger, SessionInfo


def list_sessions(ledger: Ledger, folder: str | None = None, limit: int = 50) -> dict[str, Any]:
    """The newest sessions, of one folder or of all."""
    return {"version": 1, "sessions": [session_value(info) for info in ledger.sessions(folder, limit)]}


def show_session(ledger: Ledger, session: str) -> dict[str, Any]:
    """One session with every entry of its main lane."""
    info, log = ledger.session(session), ledger.log(session)
    entries = log.read(1, log.last_id())
    return {"version": 1, **session_value(info), "entries": [entry_value(entry) for entry in entries]}


def search_sessions(ledger: Ledger, text: str, folder: str | None = None, limit: int = 20) -> dict[str, Any]:
    """The newest entries that hold `text`, of one folder's sessions or of all; `NexusError("usage", ...)` for none."""
    if not text.strip():
        raise NexusError("usage", "nothing to search for", "the text is empty", "Name some words")
    found = ledger.search(text, folder, limit)
    hits = [asdict(hit) for hit in found.hits]
    return {
        "version": 1, "text": text, "folder": folder, "hits": hits, "more": found.more, "damaged": found.damaged,
    }  # fmt: skip


def session_value(info: SessionInfo) -> dict[str, Any]:
    """What a listing says of a session."""
    value = asdict(info)
    value["entry_count"] = value.pop("entries")
    del value["main_lane"]
    return value


def entry_value(entry: Entry) -> dict[str, Any]:
    """An entry as JSON; of images the names."""
    message = entry.message
    return {
        "id": entry.id,
        "at": entry.at,
        "actor": entry.actor,
        "kind": str(entry.kind),
        "text": message.content,
        "calls": [{"id": c.id, "name": c.name, "arguments": c.arguments, "raw": c.raw} for c in message.tool_calls],
        "call": message.tool_call_id,
        "images": [part.name or part.media_type for part in message.parts],
        "preamble": entry.preamble,
        "tokens": entry.tokens,
    }
