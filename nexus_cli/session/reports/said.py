"""The person's newest messages, with the numbers by which commands know them."""

from __future__ import annotations

from typing import Any

from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.entry import Kind

AT_ONCE = 200
"""Entries that are read together."""
FURTHEST = 4000
"""Entries that are looked through."""
WORDS = 120
"""Characters of a message that are shown."""


def said(timeline: Timeline, most: int) -> list[dict[str, Any]]:
    """`entry` and the first words of at most `most` messages of the person, oldest first."""
    found: list[dict[str, Any]] = []
    for last in range(timeline.last, max(0, timeline.last - FURTHEST), -AT_ONCE):
        for entry in reversed(timeline.read(max(1, last - AT_ONCE + 1), last)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == "person":
                text = " ".join(entry.message.content[: 4 * WORDS].split())[:WORDS]
                found.append({"entry": entry.id, "text": text})
        if len(found) >= most:
            break
    return found[:most][::-1]
