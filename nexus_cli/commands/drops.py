"""`/drops`: what was left out of requests."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import drop_ids, original, record_of
from nexus_cli.session.reports import drops as reports

SHOWN, MOST = 4000, 100_000
"""Characters that are shown unless a range asks for others, and of a range at most."""


async def run(desk: Desk, rest: str) -> None:
    """List what was left out of requests, or print one.

    A:B are characters; without a range the beginning is shown. /recall gives it to the model again. What stands in the
    window again, as an undone compaction had left it out, does not count.
    """
    drops = record_of(desk).drops()
    if not rest:
        lane = desk.session.context.lane
        value = reports.of_window(desk.session.id, drops, lane.slots, lane.timeline.memos, lane.epoch.sections)
        desk.show("drops", value)
        return
    drop_id, text, start, end = original("drops", rest, desk)
    end = min(end, start + (MOST if " " in rest else SHOWN))
    drop = next((one for one in drops if one.id == drop_id), None)
    known = {"what": drop.what, "tokens": drop.tokens, "cause": str(drop.cause)} if drop else {"what": "left out"}
    piece = {"text": text[start:end], "start": start, "end": end, "total": len(text)}
    desk.show("drop", {"version": 1, "id": drop_id, **known, **piece})


COMMAND = Command("drops", "context", run, "[ID [A:B]]", complete=drop_ids)
