"""Pinning and unpinning: what has to stay in the window word for word."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.context.compaction_plan import cost, fitting
from nexus_cli.context.pin import Pin
from nexus_cli.core.event import Notice
from nexus_cli.session.acts import Act
from nexus_cli.session.compaction import pins
from nexus_cli.session.compaction.compact import pins_room
from nexus_cli.session.session_state import SessionState

TOLD = 500
"""Characters of pinned words that the model is told at once; longer ones wait for the summary."""
NAMED = 5
"""So many of the pins without room are named."""


def pin(what: str) -> Act:
    """Pin a message by its number, or words. Raises as `nexus_cli.session.compaction.pins.add_pin`.

    What alone has no room among the pins is refused. Where all of them have none together, those without are named.
    """

    async def act(parts: SessionState) -> None:
        engine = parts.lane_state
        timeline, count = engine.lane.timeline, engine.context.counter.count
        before, room = pins.list_pins(timeline), pins_room(engine)
        made = pins.add_pin(timeline, what, count, room)
        every = pins.list_pins(timeline)
        taken = sum(cost(one, count) for one in every)
        place = f"message {made.entry}" if made.entry else "these words"
        said = f"{made.id} is {place}: {cost(made, count):,} tokens, all pins {taken:,} of {room:,}"
        crowded = fitting(every, room, count)[1]
        if crowded:
            said += f"; beside the others a summary has no room for {_names(crowded)}, which can be recalled then"
        new = made not in before and not made.entry
        if new and len(made.text) > TOLD:
            said += "; too long to be told at once: the model has it word for word from the next summary on"
        engine.emit(Notice(said))
        if new and len(made.text) <= TOLD:
            engine.notices.append(f"the person pinned this, it holds from now on: {made.text}")

    return act


def unpin(what: str) -> Act:
    """Remove a pin by its id, its message or its words. Raises as `compaction.pins.remove_pin`."""

    async def act(parts: SessionState) -> None:
        engine = parts.lane_state
        gone = pins.remove_pin(engine.lane.timeline, what)
        engine.emit(Notice(f"{gone.id} is no longer pinned; where it stands now it stays until the next compaction"))

    return act


def _names(crowded: Sequence[Pin]) -> str:
    """`p1, p2`."""
    names = [one.id for one in crowded]
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
