"""Read the person's messages in a lane from its log, for parts that the window shows only as a summary or a marker.

Attachments are left out: they are texts like a tool's result, not the person's words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from nexus_cli.context.window.lane import Lane
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.entry import ItemForm, Kind
from nexus_cli.core.typed_text import split_attachments

AT_ONCE = 200
"""Entries that are read together."""
FURTHEST = 4000
"""Entries that are looked through."""
WORDS = 120
"""Characters of a message that are shown."""


def words_before(lane: Lane, last: int, shown: Collection[int] = ()) -> Iterator[tuple[int, str]]:
    """Yield entry and text of the person's messages up to entry `last`, newest first, without those in `shown`."""
    for entry, text in lane.timeline.log.user_messages(last):
        own = "" if entry in shown else split_attachments(text)[0]
        if own:
            yield entry, own


def hidden_words(lane: Lane) -> Iterator[tuple[int, str]]:
    """Yield what they said behind the summary and the markers of the window, newest first."""
    hidden = (item.entry for item in lane.items if item.form in (ItemForm.SUMMARY, ItemForm.MARKER))
    shown = {item.entry for item in lane.items if item.form in (ItemForm.FULL, ItemForm.ELIDED)}
    return words_before(lane, max(hidden, default=0), shown)


def newest_messages(timeline: Timeline, most: int) -> list[dict[str, Any]]:
    """Return `entry` and the first words of at most `most` messages of the person, oldest first."""
    found: list[dict[str, Any]] = []
    for last in range(timeline.last, max(0, timeline.last - FURTHEST), -AT_ONCE):
        for entry in reversed(timeline.read(max(1, last - AT_ONCE + 1), last)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == "person":
                text = " ".join(entry.message.content[: 4 * WORDS].split())[:WORDS]
                found.append({"entry": entry.id, "text": text})
        if len(found) >= most:
            break
    return found[:most][::-1]
