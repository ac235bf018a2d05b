"""Compaction on command, and a look at what it would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nexus_cli.context.window.groups import Dispatch
from nexus_cli.core.errors import NexusError
from nexus_cli.session.acts import Act
from nexus_cli.session.compaction import preview as previews
from nexus_cli.session.compaction.compact import compact
from nexus_cli.session.session_state import SessionState
from nexus_cli.session.turn import renew


def compaction(instructions: str) -> Act:
    """Sum up older history; `instructions` tell the summary what to keep."""

    async def act(parts: SessionState) -> None:
        engine = parts.lane_state
        if isinstance(engine.lane.next_step(), Dispatch):
            raise NexusError("usage", "not compacted", "a call waits for its result", "Go on first")
        await renew(engine)
        await compact(engine, "command", engine.settings.compact.to, instructions)

    return act


def preview(instructions: str, told: Callable[[Mapping[str, Any]], None]) -> Act:
    """Tell what `compaction` would do now; nothing is sent and nothing changes."""

    async def act(parts: SessionState) -> None:
        told({"session": parts.session_id, **previews.preview(parts.lane_state, instructions)})

    return act
