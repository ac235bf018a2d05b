"""`/plan`: plan mode, in which the model is read-only and proposes a plan."""

from __future__ import annotations

from nexus_cli.commands import schedule
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.commands.slash_command import make_slash_command
from nexus_cli.commands.verb import Authority
from nexus_cli.core.limits import PLAN


async def plan_mode(context: CommandContext, rest: str) -> None:
    """Turn plan mode on or off.

    In plan mode the model is read-only and proposes a plan, which you can then approve. TEXT is the first message.
    Shift+Tab reaches plan mode too. /schedule runs work at a set time.
    """
    if schedule.is_schedule(context, rest):
        await make_slash_command(schedule.NOUN).run(context, rest)
        return
    session = context.session
    is_on = session.status().allow == PLAN
    if is_on and not rest:
        level = session.leave_plan()
        context.say(f"Plan mode is off. Permission level: {level}.")
        return
    if not is_on:
        session.set_level(PLAN)
        context.say("Plan mode is on: read-only; the model proposes a plan. /plan turns it off.")
    if rest:
        context.start(rest, typed=True)


COMMANDS = (
    Command(
        "plan",
        "run",
        plan_mode,
        "[TEXT]",
        idle=True,
        is_first=True,
        takes_message=True,
        authority=lambda context, rest: Authority.PERMITS if schedule.is_schedule(context, rest) else Authority.ACTS,
    ),
)
