"""`/effort`: how much the model thinks."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.command import Choice, Command, Desk
from nexus_cli.commands.line import anew, going_on, one_of
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.arguments import effort_notice

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words that litellm knows; which of them a model takes is for its provider to say."""


async def run(desk: Desk, rest: str) -> None:
    """Set how much the model thinks.

    The levels are none, minimal, low, medium, high, xhigh and max; not every model takes each of them.
    """
    present = desk.session.status().effort
    if not rest:
        title = f"The effort is {present or 'the default of the model'}."
        rest = await desk.choose(title, [Choice(level, level) for level in LEVELS]) or ""
        if not rest:
            return
    level = one_of("effort", rest, LEVELS)
    if level == present:
        desk.say(f"The effort is {level} already.")
        return
    if notice := effort_notice(desk.session.model, level):
        raise NexusError("usage", f"/effort {level}", notice, "/model goes on with another model")
    cost = anew(desk)
    await desk.reopen(going_on(desk, effort=level))
    desk.say(f"effort {level}. {cost}".rstrip())


def _levels(desk: Desk) -> Sequence[str]:
    return LEVELS


COMMAND = Command("effort", "model", run, "[LEVEL]", idle=True, complete=_levels)
