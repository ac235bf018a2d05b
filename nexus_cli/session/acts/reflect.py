"""A look back at the session (seed D's `reflection`): a fork that keeps lessons; the conversation stays as it is."""

from __future__ import annotations

from collections.abc import Callable

from nexus_cli.context.window.groups import Done
from nexus_cli.core.errors import NexusError
from nexus_cli.session.acts import Act
from nexus_cli.session.acts.bounded import in_fork
from nexus_cli.session.lane_state import newest_words
from nexus_cli.session.recipes import own_recipe
from nexus_cli.session.session_state import SessionState
from nexus_cli.session.turn import renew


def reflection(tell: Callable[[str], None]) -> Act:
    """Ask the model for its lessons; `tell` is given what it answers with. `NexusError` when there is nothing to look
    back at, or a call is open."""

    async def act(parts: SessionState) -> None:
        engine = parts.lane_state
        if not newest_words(engine.lane):
            raise NexusError("usage", "no reflection", "nothing was asked in this session yet", "Ask something first")
        if not isinstance(engine.lane.next_step(), Done):
            raise NexusError("usage", "no reflection", "the last turn is not finished", "Go on first")
        await renew(engine)
        tell(await in_fork(engine, parts.dispatcher, own_recipe("reflection")))

    return act
