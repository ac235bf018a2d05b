"""`/effort`: how much the model thinks."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.command import Choice, Command, Desk
from nexus_cli.commands.line import going_on, one_of, sent_anew
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.call_arguments import effort_notice

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words that litellm knows; which of them a model takes is for its provider to say."""


async def run(desk: Desk, rest: str) -> None:
    """Set how much the model thinks.

    The levels are none, minimal, low, medium, high, xhigh and max; not every model takes each of them.
    """
    present = desk.session.status().effort
    if not rest:
        if effort_notice(desk.session.model, LEVELS[0]):
            desk.say(f"{desk.session.model} is not known to take an effort; /model goes on with another model.")
            return
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
    await desk.reopen(going_on(desk, effort=level))
    desk.say(f"effort {level}. {await sent_anew(desk)}".rstrip())


def _levels(desk: Desk) -> Sequence[str]:
    return LEVELS


COMMAND = Command("effort", "model", run, "[LEVEL]", idle=True, complete=_levels)
