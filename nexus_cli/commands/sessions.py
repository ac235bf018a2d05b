"""`/sessions`: what there is to go back to."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.arguments import require_ledger, usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports import sessions as reports


async def run(context: CommandContext, rest: str) -> None:
    """List the sessions of this folder, or of all.

    The newest first. /resume ID goes on with one of them; `nexus sessions search` looks for words in them.
    """
    if rest not in ("", "--all"):
        raise usage_error("sessions", rest, "it takes nothing but --all")
    folder = None if rest else str(context.session.folder)
    context.show("sessions", reports.listing(require_ledger(context), folder))


def _options(context: CommandContext) -> Sequence[str]:
    return ("--all",)


COMMAND = Command("sessions", "session", run, "[--all]", complete=_options)
