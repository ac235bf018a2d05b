"""`/permissions`: what runs without asking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import going_on, one_of
from nexus_cli.core.limits import LEVELS
from nexus_cli.session.reports.tools import RUNS, permissions


async def run(desk: Desk, rest: str) -> None:
    """Show or set what runs without asking.

    Shows also what you allowed for the session. read: reading inside the project. edit: also editing inside it.
    all: also commands and everything else.
    """
    if not rest:
        desk.show("permissions", await asyncio.to_thread(permissions, desk.session))
        return
    level = one_of("permissions", rest, LEVELS)
    await desk.reopen(going_on(desk, allow=level, allow_from=f"/{COMMAND.name}"))
    now = desk.session.status().allow
    held = "" if now == level else f" {level} is more than the recipe or the settings allow."
    desk.say(f"permissions {now}: {RUNS[now]}.{held}")


def _levels(desk: Desk) -> Sequence[str]:
    return LEVELS


COMMAND = Command("permissions", "model", run, "[read|edit|all]", idle=True, complete=_levels)
