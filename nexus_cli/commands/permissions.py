"""`/permissions`: what runs without asking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.commands.arguments import parse_choice, resume_options
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.limits import LEVELS
from nexus_cli.session.reports.tools import RUNS, permissions


async def run(context: CommandContext, rest: str) -> None:
    """Show or set what runs without asking.

    Shows also what you allowed for the session. read: reading inside the project. edit: also editing inside it.
    all: also commands and everything else.
    """
    if not rest:
        context.show("permissions", await asyncio.to_thread(permissions, context.session))
        return
    level = parse_choice("permissions", rest, LEVELS)
    await context.reopen(resume_options(context, allow=level, allow_from=f"/{COMMAND.name}"))
    now = context.session.status().allow
    held = "" if now == level else f" {level} is more than the recipe or the settings allow."
    context.say(f"permissions {now}: {RUNS[now]}.{held}")


def _levels(context: CommandContext) -> Sequence[str]:
    return LEVELS


COMMAND = Command("permissions", "model", run, "[read|edit|all]", idle=True, complete=_levels)
