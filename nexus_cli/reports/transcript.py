"""Report a whole session for a person: every message and call, each output before it was cut for the model.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.entry import Entry
from nexus_cli.lane.model_call import CUT
from nexus_cli.lane.user_input import CLIPPED
from nexus_cli.ledger import LaneLog, SessionInfo
from nexus_cli.ledger.sessions import SHOWN
from nexus_cli.reports.conversation import in_call_order
from nexus_cli.reports.sessions import entry_value, session_value
from nexus_cli.session.session import Session
from nexus_cli.turn.waiting import waiting_entry


def session_transcript(session: Session) -> dict[str, Any]:
    """Return the transcript of an open session; without entries if nothing is recorded."""
    if session.ledger is None or session.record is None:
        return {"version": 1, "entries": []}
    subjects = {tool.name: tool.subject for tool in session.tools()}
    waiting = waiting_entry(session.ledger, session.record)
    return {**transcript_of(session.record, session.ledger.session(session.id), subjects), "waiting": waiting}


def transcript_of(record: LaneLog, info: SessionInfo, subjects: Mapping[str, str]) -> dict[str, Any]:
    """Return the session with every entry of its main lane, and with answers that broke off and were requested again
    (`cut`). `subjects` are the names of the tools' main arguments."""
    clipped = {memo.entry: str(memo.value["drop"]) for memo in record.memos(CLIPPED)}
    shown = {memo.entry: str(memo.value["text"]) for memo in record.memos(SHOWN)}
    return {
        "version": 1,
        **session_value(info),
        "subjects": dict(subjects),
        "cut": [{"after": memo.entry, "text": str(memo.value["text"])} for memo in record.memos(CUT)],
        "entries": [
            {**entry_value(entry), "text": shown.get(entry.id) or _whole_text(entry, record, clipped.get(entry.id))}
            for entry in in_call_order(record.read(1, record.last_id()))
        ],
    }


def _whole_text(entry: Entry, record: LaneLog, drop_id: str | None) -> str:
    """Return the text of an entry; its original if it was clipped when it was recorded."""
    return (record.original(drop_id) if drop_id else None) or entry.message.content
