"""The pins of a session as a value. That of a preview is `nexus_cli.session.compaction.preview`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nexus_cli.context.compaction_plan import cost
from nexus_cli.context.pin import Pin
from nexus_cli.session.compaction.compact import pins_room
from nexus_cli.session.compaction.pins import list_pins
from nexus_cli.session.session_state import SessionState


def pins_report(parts: SessionState) -> dict[str, Any]:
    """The pins of a session as it is now."""
    engine = parts.lane_state
    return listing(parts.session_id, list_pins(engine.lane.timeline), engine.context.counter.count, pins_room(engine))


def listing(session: str, pins: Sequence[Pin], count: Callable[[str], int], room: int) -> dict[str, Any]:
    """Every pin in force with its tokens; `room` is what they may take together after a compaction."""
    rows = [{"id": pin.id, "entry": pin.entry, "tokens": cost(pin, count), "text": pin.text} for pin in pins]
    return {"version": 1, "session": session, "pins": rows, "tokens": sum(r["tokens"] for r in rows), "room": room}
