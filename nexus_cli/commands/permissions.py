"""`/permissions`, `/tools` and `/why`: what the model can do, what runs without asking, who set which limit."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import parse_choice
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.limits import LEVELS, PLAN
from nexus_cli.session.reports.live import NAMES, RUNS, limits_report, permissions_report, tools_report


async def set_permissions(context: CommandContext, rest: str) -> None:
    """Show or set what runs without asking.

    Also lists what you allowed for the session. read: reading inside the project. edit: also editing inside it.
    run: also commands confined to the project, without network. all: everything, unconfined. plan: only reading,
    nothing asks, and the answer is a plan.
    """
    if not rest:
        context.show("permissions", permissions_report(context.session.state))
        return
    level = parse_choice("permissions", rest, (PLAN, *LEVELS))
    context.session.set_level(level)
    now = context.session.status().allow
    held = "" if now == level else f" {level} is more than the recipe or the settings allow."
    context.say(f"permissions {now}: {RUNS[now]}.{held}")


async def list_tools(context: CommandContext, rest: str) -> None:
    """List the tools of the model.

    What each does, what its schema costs in every request, and whether it asks first.
    """
    context.show("tools", await asyncio.to_thread(tools_report, context.session.state))


async def explain_limits(context: CommandContext, rest: str) -> None:
    """Explain where a limit comes from.

    It comes from the settings, a trusted project, the recipe, the command line, or from signals if the recipe
    allows them; each can only tighten. Without a NAME every limit in force is shown.
    """
    name = parse_choice("why", rest, NAMES) if rest else ""
    context.show("why", limits_report(context.session.state, name))


COMMANDS = (
    Command(
        "permissions",
        "model",
        set_permissions,
        "[plan|read|edit|run|all]",
        complete=lambda context: (PLAN, *LEVELS),
        aliases=("approvals",),
    ),
    Command("tools", "work", list_tools),
    Command("why", "context", explain_limits, "[NAME]", complete=lambda context: NAMES),
)
