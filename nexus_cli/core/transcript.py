"""Entries as plain text, for a person or a model that asks for what was left out."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.entry import Entry
from nexus_cli.core.wire import canonical


def format_transcript(entries: Sequence[Entry]) -> str:
    """`entries` one after the other, a blank line between: `[ID] ROLE`, the content, its images and calls by name."""
    return "\n\n".join(_format_entry(entry) for entry in entries)


def _format_entry(entry: Entry) -> str:
    message = entry.message
    lines = [f"[{entry.id}] {message.role}"]
    if message.content:
        lines.append(message.content)
    lines += [f"[image {part.name or 'without name'}: {part.media_type}]" for part in message.parts]
    for call in message.tool_calls:
        arguments = call.raw or canonical(call.arguments).decode()
        lines.append(f"-> {call.name}({arguments}) {call.id}")
    return "\n".join(lines)
