"""`/pin`: what is pinned, and the messages that could be, by number. The pins of a preview are `compaction`'s."""

from __future__ import annotations

from nexus_cli.ui.reports import compaction
from nexus_cli.ui.reports.lines import Value, block


def pins_text(value: Value, width: int) -> str:
    """The pins, then the person's newest messages."""
    rows = [(str(one["entry"]), str(one["text"])) for one in value.get("messages", [])]
    lines = block("your newest messages (/pin NUMBER)", [("number", "text"), *rows], width)
    return "\n".join([compaction.pins_text(value, width), *lines])
