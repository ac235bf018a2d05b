"""`/why`: which layer bound a limit."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.arguments import parse_choice
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.why import NAMES, why


async def run(context: CommandContext, rest: str) -> None:
    """Show which layer bound a limit.

    Layers are the settings, a trusted project, the recipe, the command line, and signals where the recipe lets them
    bind; each can only tighten. Without a NAME every limit in force is shown.
    """
    name = parse_choice("why", rest, NAMES) if rest else ""
    context.show("why", context.session.look(lambda parts: why(parts, name)))


def _names(context: CommandContext) -> Sequence[str]:
    return NAMES


COMMAND = Command("why", "context", run, "[NAME]", complete=_names)
