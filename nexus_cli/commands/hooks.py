"""`/hooks`: the commands that run at the events of a session."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.commands.verb import Authority
from nexus_cli.reports.hooks import hooks_report


async def show_hooks(context: CommandContext, rest: str) -> None:
    """List hooks with their source and state.

    Your hooks are in config.toml; hooks of a project run once the project is trusted (`nexus docs hooks`).
    """
    hooks = await asyncio.to_thread(hooks_report, context.session.folder, context.settings.hook)
    context.show("hooks", {"version": 1, "hooks": hooks})


COMMANDS = (Command("hooks", "setup", show_hooks, authority=Authority.READS),)
"""The command."""
