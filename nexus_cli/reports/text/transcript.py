"""A whole session for a person: every message, every call, and each output in full."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import groupby
from typing import Any

from nexus_cli.core.entry import members_of
from nexus_cli.reports.conversation import CONTINUED
from nexus_cli.reports.text.lines import Value, cut_line, folded, plural

INDENT = "    "
CUT = "[cut off, asked again]"
"""Shown below an answer whose stream broke off; the complete one follows."""


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
            [*folded(one["text"], width), CUT] for one in value.get("cut", ()) if one["after"] == entry["id"] != 0
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
        blocks = [folded(text, width)] if text else []
        for call in entry.get("calls", ()):
            rest = _arguments(call, subjects.get(call["name"], ""), width)
            blocks += [[cut_line(f"-> {_title(call, subjects)}", width), *rest]] if rest else []
        return [line for lines in blocks for line in ("", *lines)][1:]
    if actor == "nexus":
        return [cut_line(f"{_local(entry.get('at'))} {CONTINUED}", width)]
    said = folded("\n".join([text, *(f"[image {name}]" for name in entry.get("images", ()))]), width - 2)
    marked = (f"{'  ' if number else '> '}{line}".rstrip() for number, line in enumerate(said))
    who = [actor] if members_of(actor) else []
    return [cut_line(" ".join([_local(entry.get("at")), *who]), width), *marked]


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


def _local(at: Any) -> str:
    """Format a time of the ledger as the local time."""
    try:
        return f"{datetime.fromisoformat(str(at)).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return ""
