"""Before a compaction: facts that other sessions need go to memory (seed D's `pre_compaction`), in a fork."""

from __future__ import annotations

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.session.acts.bounded import in_fork
from nexus_cli.session.dispatch import Dispatcher
from nexus_cli.session.lane_state import LaneState
from nexus_cli.session.recipes import own_recipe

TOOL = "remember"


async def extract(dispatcher: Dispatcher, engine: LaneState) -> None:
    """Let a fork of the lane store facts. What goes wrong is a notice: no compaction fails for it, and none is worse
    for it, since the fork leaves the lane as it is. Nothing happens where the session has no memory."""
    if dispatcher.registry.get(TOOL) is None:
        return
    try:
        await in_fork(engine, dispatcher, own_recipe("pre_compaction"))
    except NexusError as error:
        engine.emit(Notice(f"no facts were kept before the compaction: {error.message}"))
