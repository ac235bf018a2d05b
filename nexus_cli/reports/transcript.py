"""Report a whole session for a person: every message and call, each output before it was cut for the model.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from nexus_cli.core.entry import Entry, members_of
from nexus_cli.core.memo_kinds import CLIPPED_MESSAGE, CUT_ANSWER, SHOWN_TEXT
from nexus_cli.engine.calls.waiting import waiting_entry
from nexus_cli.ledger import LaneLog, SessionInfo
from nexus_cli.reports.conversation import CONTINUED, in_call_order
from nexus_cli.reports.sessions import entry_value, session_value
from nexus_cli.reports.text.lines import Value, cut_line, folded, plural, when, wrapped
from nexus_cli.session.session import Session

INDENT = "    "
CUT_OFF = "[cut off, asked again]"
"""Shown below an answer whose stream broke off; the complete one follows."""


def session_transcript(session: Session) -> dict[str, Any]:
    """Return the transcript of an open session; without entries if nothing is recorded."""
    if session.ledger is None or session.record is None:
        return {"version": 1, "entries": []}
    subjects = {tool.name: tool.subject for tool in session.tools()}
    waiting = waiting_entry(session.ledger, session.record)
    return {**transcript_of(session.record, session.ledger.session(session.id), subjects), "waiting": waiting}


def transcript_of(record: LaneLog, info: SessionInfo, subjects: Mapping[str, str]) -> dict[str, Any]:
    """Return the session with every entry of its main conversation, and with answers that broke off and were requested
    again (`cut`). `subjects` are the names of the tools' main arguments."""
    clipped = {memo.entry: memo.value for memo in record.memos(CLIPPED_MESSAGE)}
    shown = {memo.entry: str(memo.value["text"]) for memo in record.memos(SHOWN_TEXT)}
    return {
        "version": 1,
        **session_value(info),
        "subjects": dict(subjects),
        "cut": [{"after": memo.entry, "text": str(memo.value["text"])} for memo in record.memos(CUT_ANSWER)],
        "entries": [
            {**entry_value(entry), "text": shown.get(entry.id) or _whole_text(entry, record, clipped.get(entry.id))}
            for entry in in_call_order(record.read(1, record.last_id()))
        ],
    }


def _whole_text(entry: Entry, record: LaneLog, clipped: Mapping[str, Any] | None) -> str:
    """Return the text of an entry, with the originals of what was clipped when it was recorded."""
    text = entry.message.content
    if not clipped:
        return text
    if "drop" in clipped:
        return record.original(str(clipped["drop"])) or text
    for start, end, drop in reversed(clipped["parts"]):
        text = text[:start] + (record.original(str(drop)) or text[start:end]) + text[end:]
    return text


def transcript_text(value: Value, width: int) -> str:
    """Show the session in order, with an empty line between messages; outputs of `!` lines are among them."""
    entries, shell = list(value.get("entries", ())), list(value.get("shell", ()))
    if not entries and not shell:
        return cut_line("No messages in this session yet.", width)
    calls = {call["id"]: call for entry in entries for call in entry.get("calls", ())}
    blocks = [_head(value, width)] if value.get("id") else []
    shell_by_entry = {after: list(found) for after, found in groupby(shell, key=lambda one: one["after"])}
    for entry in [{"id": 0}, *entries]:
        still = " · waiting" if entry["id"] and entry["id"] == value.get("waiting") else ""
        blocks += [_message(entry, calls, value.get("subjects", {}), width, still)] if entry["id"] else []
        blocks += [
            [*wrapped(one["text"], width), CUT_OFF] for one in value.get("cut", ()) if one["after"] == entry["id"] != 0
        ]
        blocks += [_output(one["title"], one["text"], width) for one in shell_by_entry.get(entry["id"], ())]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _head(value: Value, width: int) -> list[str]:
    name = f" {value['name']}" if value.get("name") else ""
    turns = plural(int(value.get("turns", 0)), "turn")
    facts = [f"session {value['id']}{name}", str(value.get("model", "")), turns, str(value.get("folder", ""))]
    return [cut_line(" · ".join(facts), width)]


def _message(entry: Value, calls: Value, subjects: Value, width: int, still: str) -> list[str]:
    text, actor = str(entry.get("text") or "").strip("\n"), str(entry.get("actor"))
    if entry.get("call"):
        call = calls.get(entry["call"])
        return _output((_title(call, subjects) if call else actor.removeprefix("tool:")) + still, text, width)
    if actor == "agent":
        blocks = [wrapped(text, width)] if text else []
        for call in entry.get("calls", ()):
            rest = _arguments(call, subjects.get(call["name"], ""), width)
            blocks += [[cut_line(f"-> {_title(call, subjects)}", width), *rest]] if rest else []
        return [line for lines in blocks for line in ("", *lines)][1:]
    if actor == "nexus":
        return [cut_line(f"{when(entry.get('at'))} {CONTINUED}", width)]
    said = wrapped("\n".join([text, *(f"[image {name}]" for name in entry.get("images", ()))]), width - 2)
    marked = (f"{'  ' if number else '> '}{line}".rstrip() for number, line in enumerate(said))
    who = [actor] if members_of(actor) else []
    return [cut_line(" ".join([when(entry.get("at")), *who]), width), *marked]


def _title(call: Value, subjects: Value) -> str:
    """Return name and main argument of a call."""
    subject = call.get("raw") or call.get("arguments", {}).get(subjects.get(call["name"], ""), "")
    return f"{call['name']} {subject}"


def _arguments(call: Value, subject: str, width: int) -> list[str]:
    """Return the other arguments besides the main one, texts unchanged."""
    lines: list[str] = []
    for name, value in dict(call.get("arguments") or {}).items():
        if name == subject and "\n" not in str(value):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        lines += folded(f"{name}:{chr(10) if chr(10) in text else ' '}{text}".rstrip("\n"), width, INDENT)
    return lines


def _output(title: str, text: Any, width: int) -> list[str]:
    return [cut_line(f"* {title}", width), *folded(str(text).strip("\n"), width, INDENT)]
