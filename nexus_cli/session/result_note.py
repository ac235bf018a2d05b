"""What a person saw of a tool's result, kept beside its entry, so that a resumed session shows it as it was.

The entry has the text for the model alone: not what was an error, nor the exit status, the diff and the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nexus_cli.core.entry import Entry
from nexus_cli.core.message import ToolResult

RESULT = "result"
"""Memo: `seconds` of the call of its entry, `error` (characters at the end of the text), and what else is known."""
_IN_THE_TEXT = ("output", "error", "full", "uncounted", "cites")
_PLAIN = ToolResult()


def result_note(result: ToolResult, seconds: float) -> dict[str, Any]:
    """Return the value of the memo of a result; most are alike, and take no room of their own."""
    names = (one.name for one in fields(ToolResult) if one.name not in _IN_THE_TEXT)
    known = {name: value for name in names if (value := getattr(result, name)) != getattr(_PLAIN, name)}
    return {"seconds": round(seconds, 1), "error": len(result.error), **known}


def restore_result(entry: Entry, value: Mapping[str, Any]) -> tuple[ToolResult, float]:
    """Return the result that an entry records and its seconds; `value` is that of its memo, empty where there is none.

    Without a memo nothing but the text is known.
    """
    text = entry.message.content
    names = {one.name for one in fields(ToolResult)} - {*_IN_THE_TEXT}
    known = {name: found for name, found in value.items() if name in names}
    error = text[-value["error"] :] if value.get("error") else ""
    output = text[: len(text) - len(error)].removesuffix("\n") if error else text
    return ToolResult(output=output, error=error, **known), float(value.get("seconds", 0.0))
