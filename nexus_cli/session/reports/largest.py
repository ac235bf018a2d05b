"""The largest items of a request: sections, tool schemas and the messages of its history, each by what it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.message import Role, ToolCall

MOST = 10
WORDS = 60
"""Characters of a message that tell a person which one it is."""


def largest_items(
    sections: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], items: Sequence[WindowItem], scale: float
) -> list[dict[str, Any]]:
    """The `MOST` largest of all, the largest first: `what`, `tokens`, and `entry` where it is one of history. `scale`
    is what a token of `items` is in that of the others."""
    found: list[tuple[int, str, WindowItem | None]] = [
        (int(one["tokens"]), f"section {one['id']}", None) for one in sections
    ]
    found += [(int(one["tokens"]), f"schema of {one['name']}", None) for one in tools]
    found += [(round(item.tokens * scale), "", item) for item in items]
    chosen = heapq.nlargest(MOST, found, key=lambda one: one[0])
    named = {id(item): what for item, what in describe_items([item for _, _, item in chosen if item], items)}
    return [
        {"what": named[id(item)] if item else what, "tokens": tokens, "entry": item.entry if item else None}
        for tokens, what, item in chosen
        if tokens
    ]


def describe_items(chosen: Iterable[WindowItem], items: Sequence[WindowItem]) -> list[tuple[WindowItem, str]]:
    """Each of `chosen` with the words that tell a person which one of `items` it is."""
    chosen = list(chosen)
    wanted = {item.message.tool_call_id for item in chosen if item.message.role is Role.TOOL}
    calls = {call.id: call for call in _calls(items) if call.id in wanted} if wanted else {}
    return [(item, _what(item, calls)) for item in chosen]


def _calls(items: Sequence[WindowItem]) -> Iterator[ToolCall]:
    return (call for item in items for call in item.message.tool_calls)


def _what(item: WindowItem, calls: Mapping[str, ToolCall]) -> str:
    message = item.message
    if item.form is ItemForm.SUMMARY:
        return f"summary of entries up to {item.entry}"
    if item.form is ItemForm.MARKER:
        return "line where entries were left out"
    shortened = " (shortened)" if item.form is ItemForm.ELIDED else ""
    if message.role is Role.TOOL:
        call = calls.get(message.tool_call_id or "")
        return f"result of {_called(call) if call else 'a call'}{shortened}"
    if message.role is Role.USER:
        images = f" with {len(message.parts)} images" if message.parts else ""
        return f"message{images}{shortened}: {_words(message.content)}"
    if message.tool_calls and not message.content:
        return f"call of {_called(message.tool_calls[0])}{shortened}"
    return f"answer{shortened}: {_words(message.content)}"


def _called(call: ToolCall) -> str:
    """Return a call by its name and its first argument that is a text."""
    subject = next((text for text in call.arguments.values() if isinstance(text, str)), "")
    return f"{call.name} {_words(subject)}".rstrip()


def _words(text: str) -> str:
    line = " ".join(text[: 4 * WORDS].split())
    return line if len(line) <= WORDS else line[: WORDS - 1] + "…"
