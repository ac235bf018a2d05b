"""`/effort`: how much the model thinks."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.arguments import describe_cache_miss, parse_choice, resume_options
from nexus_cli.commands.command import Choice, Command, CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.call_arguments import effort_notice

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words that litellm knows; which of them a model takes is for its provider to say."""


async def run(context: CommandContext, rest: str) -> None:
    """Set how much the model thinks.

    The levels are none, minimal, low, medium, high, xhigh and max; not every model takes each of them.
    """
    present = context.session.status().effort
    if not rest:
        if effort_notice(context.session.model, LEVELS[0]):
            context.say(f"{context.session.model} is not known to take an effort; /model goes on with another model.")
            return
        title = f"The effort is {present or 'the default of the model'}."
        rest = await context.choose(title, [Choice(level, level) for level in LEVELS]) or ""
        if not rest:
            return
    level = parse_choice("effort", rest, LEVELS)
    if level == present:
        context.say(f"The effort is {level} already.")
        return
    if notice := effort_notice(context.session.model, level):
        raise NexusError("usage", f"/effort {level}", notice, "/model goes on with another model")
    await context.reopen(resume_options(context, effort=level))
    context.say(f"effort {level}. {await describe_cache_miss(context)}".rstrip())


def _levels(context: CommandContext) -> Sequence[str]:
    return LEVELS


COMMAND = Command("effort", "model", run, "[LEVEL]", idle=True, complete=_levels)
