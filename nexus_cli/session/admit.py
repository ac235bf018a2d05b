"""Letting the person's words in: recorded whole where they fit, else elided with a drop (law 4)."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.core import event
from nexus_cli.core.clip import clip, drop_marker
from nexus_cli.core.entry import Cause, Drop, Entry, Kind
from nexus_cli.core.message import Message, Part, Role
from nexus_cli.session.engine import Engine

REQUEST_SHARE = 0.6
"""Share of what system and tools leave that a request may take whole."""


def admit(
    engine: Engine, kind: Kind, text: str, *, parts: tuple[Part, ...] = (), uncounted: int = 0
) -> Entry:
    """Record a user message; what is beyond its cap is a drop of cause `input_cap`."""
    lane, count = engine.lane, engine.context.counter.count
    epoch = lane.epoch
    room = engine.meter.countable(engine.budget.available) - epoch.system_tokens - epoch.tools_tokens
    cap = max(64, int(room * REQUEST_SHARE))
    over = bool(uncounted) or count(text) > cap
    drop_id = lane.timeline.log.next_drop() if over else ""
    clipped = clip(text, cap, count, drop_marker(drop_id))
    content = clipped.text
    if uncounted:
        content += f"\n[... {uncounted} more bytes of input were beyond the hard limit and not kept ...]"
    if over:
        drop = Drop(
            drop_id, "part of the input", clipped.tokens, Cause.INPUT_CAP, lane.timeline.now(), None, text, uncounted
        )
        lane.timeline.log.drop(drop)
        engine.emit(event.Dropped(replace(drop, text=None)))
    return lane.append(kind, Message(Role.USER, content, parts=parts), "person")
