"""The sessions of a ledger, and one of them whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nexus_cli.core.entry import Entry
from nexus_cli.ledger import Ledger, SessionInfo


def listing(ledger: Ledger, folder: str | None = None, limit: int = 50) -> dict[str, Any]:
    """The newest sessions, of one folder or of all."""
    return {"version": 1, "sessions": [_session(info) for info in ledger.sessions(folder, limit)]}


def shown(ledger: Ledger, session: str) -> dict[str, Any]:
    """One session with every entry of its main lane."""
    info = ledger.session(session)
    entries = ledger.read(info.main_lane, 1, ledger.last_id(info.main_lane))
    return {"version": 1, **_session(info), "entries": [_entry(entry) for entry in entries]}


def _session(info: SessionInfo) -> dict[str, Any]:
    value = asdict(info)
    value["entry_count"] = value.pop("entries")
    del value["main_lane"]
    return value


def _entry(entry: Entry) -> dict[str, Any]:
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
