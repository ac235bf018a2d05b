"""What the person said in a lane, from its log: for what stands in the window only as a summary or a marker.

Their own words alone: what was attached to them is a text like any other, and no more theirs than a tool's result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nexus_cli.context.lane import Lane
from nexus_cli.core.entry import Form, Kind
from nexus_cli.core.words import apart

READ_AT_ONCE = 500
"""Entries that are read together."""


def said(lane: Lane, last: int, shown: Collection[int] = ()) -> Iterator[tuple[int, str]]:
    """Entry and text of the person's messages up to entry `last`, newest first, without those in `shown`."""
    for end in range(last, 0, -READ_AT_ONCE):
        for entry in reversed(lane.timeline.read(max(1, end - READ_AT_ONCE + 1), end)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == "person" and entry.id not in shown:
                own, _ = apart(entry.message.content)
                if own:
                    yield entry.id, own


def said_before(lane: Lane) -> Iterator[tuple[int, str]]:
    """What they said behind the summary and the markers of the window, newest first."""
    hidden = (slot.entry for slot in lane.slots if slot.form in (Form.SUMMARY, Form.MARKER))
    shown = {slot.entry for slot in lane.slots if slot.form in (Form.FULL, Form.ELIDED)}
    return said(lane, max(hidden, default=0), shown)
