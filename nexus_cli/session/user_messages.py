"""Read the person's messages in a lane from its log, for parts that the window shows only as a summary or a marker.

Attachments are left out: they are texts like a tool's result, not the person's words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from nexus_cli.context.window.lane import Lane
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.entry import Entry, ItemForm, Kind
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
    entries = islice(read_backwards(timeline.read, timeline.last), FURTHEST)
    said = (entry for entry in entries if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == "person")
    return [
        {"entry": entry.id, "text": first_words(entry.message.content, WORDS, end="")}
        for entry in reversed(list(islice(said, most)))
    ]


def read_backwards(read: Callable[[int, int], Sequence[Entry]], last: int) -> Iterator[Entry]:
    """Yield the entries of a log up to `last`, the newest first; `read` reads a range of them."""
    for end in range(last, 0, -AT_ONCE):
        yield from reversed(read(max(1, end - AT_ONCE + 1), end))


def first_words(text: str, most: int, *, end: str = "…") -> str:
    """Return the beginning of `text` as one line of at most `most` characters; `end` marks a cut."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - len(end)] + end
