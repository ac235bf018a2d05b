"""Undoing the newest compaction: the former head and everything since, where that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.context.meter import Anchor, Meter
from nexus_cli.context.window.groups import Dispatch
from nexus_cli.context.window.undo import UNDO, in_force, restored
from nexus_cli.core.entry import Epoch
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.session.acts import Act
from nexus_cli.session.cache import rewritten
from nexus_cli.session.compaction.backoff import anchor_before, note_undone
from nexus_cli.session.engine import Engine
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
        made = in_force(lane.epoch, log.epoch)
        if made is None or made.parent is None:
            why = "this session has no compaction that is in force"
            raise NexusError("usage", "nothing to undo", why, "/compact sums up older history")
        old, before, shown = log.epoch(made.parent), engine.meter.estimate(lane.counted), engine.coming()
        head = restored(old, lane.slots, lane.timeline.read(old.base + 1, lane.timeline.last))
        messages = sum(slot.tokens for slot in head)
        same = old.model == engine.model.info.name
        meter = _meter(engine, anchor_before(lane.timeline.memos, made.id) if same else None)
        _refuse_if_too_large(engine, meter, messages + lane.epoch.system_tokens + lane.epoch.tools_tokens)
        planned = await engine.frame()
        _refuse_if_too_large(engine, meter, messages + planned.fixed)

        def notes(new: Epoch) -> list[tuple[str, Mapping[str, Any]]]:
            return [*note_undone(engine, new.id, made.id), rewritten(engine, before)]

        engine.begin(head, UNDO, planned, notes=notes)
        if meter.anchor is not None:
            engine.meter.anchored(meter.anchor.last, meter.anchor.counted, meter.anchor.reported, exact=False)
        engine.pending = ""
        engine.emit(Notice(f"the compaction is undone: {shown:,} tokens became {engine.coming():,}"))

    return act


def _meter(engine: Engine, anchor: Anchor | None) -> Meter:
    """What is known of the former window: what the provider had reported of it still holds."""
    meter = engine.meter.fork()
    meter.forget()
    if anchor is not None:
        meter.anchored(anchor.last, anchor.counted, anchor.reported, exact=False)
    return meter


def _refuse_if_too_large(engine: Engine, meter: Meter, counted: int) -> None:
    """`NexusError("overflow", ...)` where the former window, of so many tokens by our count, does not fit."""
    most = meter.upper(counted)
    if most > engine.room:
        why = f"it would take {most:,} of {engine.room:,} tokens"
        hint = "/recall gives single parts to the model again, and so does a model with a larger window"
        raise NexusError("overflow", "the compaction cannot be undone", why, hint)
