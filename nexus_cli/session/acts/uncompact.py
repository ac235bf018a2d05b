"""Undoing the newest compaction: the former head and everything since, where that fits."""

from __future__ import annotations

from nexus_cli.context.groups import Dispatch
from nexus_cli.context.undo import UNDO, replaced, restored
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.session.acts import Act
from nexus_cli.session.cache import record_rewrite
from nexus_cli.session.compact import note_compaction
from nexus_cli.session.parts import Parts


def uncompaction() -> Act:
    """Take the newest compaction back that was not taken back yet; nothing is lost by it, and no request is sent.

    Raises `NexusError("usage", ...)` where there is none, and `NexusError("overflow", ...)` with the figures where the
    former window does not fit the budget any more.
    """

    async def act(parts: Parts) -> None:
        engine = parts.engine
        lane, log = engine.lane, engine.lane.timeline.log
        if isinstance(lane.next_step(), Dispatch):
            raise NexusError("usage", "nothing was undone", "a call waits for its result", "Go on first")
        old = replaced(lane.epoch, log.epoch)
        if old is None:
            why = "this session has no compaction that is in force"
            raise NexusError("usage", "nothing to undo", why, "/compact sums up older history")
        before, frame = lane.counted, await engine.frame()
        head = restored(old, lane.slots, lane.timeline.read(old.base + 1, lane.timeline.last))
        after = frame.system_tokens + frame.tools_tokens + sum(slot.tokens for slot in head)
        most = engine.meter.countable(engine.room)
        if after > most:
            why = f"it would take {after:,} of {most:,} tokens"
            hint = "/recall gives single parts to the model again, and so does a model with a larger window"
            raise NexusError("overflow", "the compaction cannot be undone", why, hint)
        epoch = lane.rewrite(head, UNDO, (), frame)
        note_compaction(engine, epoch.id, UNDO)
        record_rewrite(engine, UNDO, before, after)
        engine.meter.forget()
        engine.pending = ""
        engine.emit(Notice(f"the compaction is undone: {before:,} tokens became {after:,}"))

    return act
