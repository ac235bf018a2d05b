"""What the person said in a lane, from its log: for what stands in the window only as a summary or a marker.

Their own words alone: what was attached to them is a text like any other, and no more theirs than a tool's result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nexus_cli.context.lane import Lane
from nexus_cli.context.timeline import Timeline
from nexus_cli.core.entry import Form, Kind
from nexus_cli.core.services import Spoken
from nexus_cli.core.words import apart

READ_AT_ONCE = 500
"""Entries that are read together."""


def said(lane: Lane, last: int, shown: Collection[int] = ()) -> Iterator[tuple[int, str]]:
    """Entry and text of the person's messages up to entry `last`, newest first, without those in `shown`."""
    log = lane.timeline.log
    for entry, text in log.said(last) if isinstance(log, Spoken) else _looked_for(lane.timeline, last):
        own = "" if entry in shown else apart(text)[0]
        if own:
            yield entry, own


def _looked_for(timeline: Timeline, last: int) -> Iterator[tuple[int, str]]:
    """What `Spoken` gives, of a log that can only read entries."""
    for end in range(last, 0, -READ_AT_ONCE):
        for entry in reversed(timeline.read(max(1, end - READ_AT_ONCE + 1), end)):
            if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == "person":
                yield entry.id, entry.message.content


def said_before(lane: Lane) -> Iterator[tuple[int, str]]:
    """What they said behind the summary and the markers of the window, newest first."""
    hidden = (slot.entry for slot in lane.slots if slot.form in (Form.SUMMARY, Form.MARKER))
    shown = {slot.entry for slot in lane.slots if slot.form in (Form.FULL, Form.ELIDED)}
    return said(lane, max(hidden, default=0), shown)
