"""`/drops`: what was left out of requests."""

from __future__ import annotations

from nexus_cli.commands.arguments import complete_drop_ids, parse_drop_range, require_record
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session import drop_list as reports

SHOWN, MOST = 4000, 100_000
"""Characters that are shown unless a range asks for others, and of a range at most."""


async def run(context: CommandContext, rest: str) -> None:
    """List what was left out of requests, or print one.

    A:B are characters; without a range the beginning is shown. /recall gives it to the model again. What stands in the
    window again, as an undone compaction had left it out, does not count.
    """
    drops = require_record(context).drops()
    if not rest:
        lane = context.session.context.lane
        value = reports.of_window(context.session.id, drops, lane.slots, lane.timeline.memos, lane.epoch.sections)
        context.show("drops", value)
        return
    drop_id, text, start, end = parse_drop_range("drops", rest, context)
    end = min(end, start + (MOST if " " in rest else SHOWN))
    drop = next((one for one in drops if one.id == drop_id), None)
    known = {"what": drop.what, "tokens": drop.tokens, "cause": str(drop.cause)} if drop else {"what": "left out"}
    piece = {"text": text[start:end], "start": start, "end": end, "total": len(text)}
    context.show("drop", {"version": 1, "id": drop_id, **known, **piece})


COMMAND = Command("drops", "context", run, "[ID [A:B]]", complete=complete_drop_ids)
