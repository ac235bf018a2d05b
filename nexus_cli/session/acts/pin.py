"""Pinning and unpinning: what has to stay in the window word for word."""

from __future__ import annotations

from nexus_cli.context.plan import cost
from nexus_cli.core.event import Notice
from nexus_cli.session import pins
from nexus_cli.session.acts import Act
from nexus_cli.session.compact import pins_room
from nexus_cli.session.parts import Parts

TOLD = 500
"""Characters of pinned words that the model is told at once; longer ones wait for the summary."""


def pin(what: str) -> Act:
    """Pin a message by its number, or words. Raises as `nexus_cli.session.pins.pin`."""

    async def act(parts: Parts) -> None:
        engine = parts.engine
        timeline, count = engine.lane.timeline, engine.context.counter.count
        before = pins.pins(timeline)
        made = pins.pin(timeline, what, count)
        every = pins.pins(timeline)
        room = pins_room(engine)
        taken = sum(cost(one, count) for one in every)
        place = f"message {made.entry}" if made.entry else "these words"
        said = f"{made.id} is {place}: {cost(made, count):,} tokens, all pins {taken:,} of {room:,}"
        if taken > room:
            said += "; the oldest that do not fit will be left out of a summary, and stay to be recalled"
        engine.emit(Notice(said))
        if made not in before and not made.entry and len(made.text) <= TOLD:
            engine.notices.append(f"the person pinned this, it holds from now on: {made.text}")

    return act


def unpin(name: str) -> Act:
    """Take a pin back. Raises as `nexus_cli.session.pins.unpin`."""

    async def act(parts: Parts) -> None:
        engine = parts.engine
        gone = pins.unpin(engine.lane.timeline, name)
        engine.emit(Notice(f"{gone.id} is no longer pinned; where it stands now it stays until the next compaction"))

    return act
