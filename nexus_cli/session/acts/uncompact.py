"""Undoing the newest compaction: the former head and everything since, where that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.context.window.groups import Dispatch
from nexus_cli.context.window.lane import with_frame
from nexus_cli.context.window.undo import UNDO, compaction_in_force, restored_head
from nexus_cli.core.entry import Epoch
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.session.acts import Act
from nexus_cli.session.cache.expectation import rewrite_memo
from nexus_cli.session.compaction.backoff import anchor_before, note_undone
from nexus_cli.session.next_request.current import next_request, rewritten_request, window_request
from nexus_cli.session.next_request.request import NextRequest
from nexus_cli.session.session_state import SessionState


def uncompaction() -> Act:
    """Take the newest compaction back that was not taken back yet; nothing is lost by it, and no request is sent.

    Raises `NexusError("usage", ...)` where there is none, and `NexusError("overflow", ...)` with the figures where the
    former window does not fit the budget any more.
    """

    async def act(parts: SessionState) -> None:
        engine = parts.lane_state
        lane, log = engine.lane, engine.lane.timeline.log
        if isinstance(lane.next_step(), Dispatch):
            raise NexusError("usage", "nothing was undone", "a call waits for its result", "Go on first")
        made = compaction_in_force(lane.epoch, log.epoch)
        if made is None or made.parent is None:
            why = "this session has no compaction that is in force"
            raise NexusError("usage", "nothing to undo", why, "/compact sums up older history")
        old, before, shown = log.epoch(made.parent), window_request(engine).tokens, next_request(engine).tokens
        head = restored_head(old, lane.items, lane.timeline.read(old.base + 1, lane.timeline.last))
        same = old.model == engine.model.info.name
        anchor = anchor_before(lane.timeline.memos, made.id) if same else None
        _refuse_if_too_large(rewritten_request(engine, lane.epoch, head, anchor))
        planned = await engine.prompt.draft_epoch(engine)
        restored_request = rewritten_request(engine, with_frame(lane.epoch, planned.frame), head, anchor)
        _refuse_if_too_large(restored_request)

        def notes(new: Epoch) -> list[tuple[str, Mapping[str, Any]]]:
            return [*note_undone(engine, new.id, made.id), rewrite_memo(engine, before)]

        engine.begin_epoch(head, UNDO, planned, notes=notes)
        if anchor is not None:
            engine.meter.set_anchor(anchor.last, anchor.counted, anchor.reported, exact=False)
        engine.pending = ""
        engine.emit(Notice(f"the compaction is undone: {shown:,} tokens became {next_request(engine).tokens:,}"))

    return act


def _refuse_if_too_large(request: NextRequest) -> None:
    """Raise `NexusError("overflow", ...)` where the request of the former window does not fit."""
    if not request.fits:
        why = f"it would take {request.most:,} of {request.room:,} tokens"
        hint = "/recall gives single parts to the model again, and so does a model with a larger window"
        raise NexusError("overflow", "the compaction cannot be undone", why, hint)
