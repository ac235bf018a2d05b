"""What the person said in a lane, from its log: for what stands in the window only as a summary or a marker.

Their own words alone: what was attached to them is a text like any other, and no more theirs than a tool's result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nexus_cli.context.window.lane import Lane
from nexus_cli.core.entry import Form
from nexus_cli.core.typed_text import split_attachments


def said(lane: Lane, last: int, shown: Collection[int] = ()) -> Iterator[tuple[int, str]]:
    """Entry and text of the person's messages up to entry `last`, newest first, without those in `shown`."""
    for entry, text in lane.timeline.log.user_messages(last):
        own = "" if entry in shown else split_attachments(text)[0]
        if own:
            yield entry, own


def said_before(lane: Lane) -> Iterator[tuple[int, str]]:
    """What they said behind the summary and the markers of the window, newest first."""
    hidden = (slot.entry for slot in lane.slots if slot.form in (Form.SUMMARY, Form.MARKER))
    shown = {slot.entry for slot in lane.slots if slot.form in (Form.FULL, Form.ELIDED)}
    return said(lane, max(hidden, default=0), shown)
