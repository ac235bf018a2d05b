"""`/status` and `/config`: what this session works with, and the settings with where each comes from."""

from __future__ import annotations

import asyncio
import os

from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.session import capability_snapshot as reports


async def show_status(context: CommandContext, rest: str) -> None:
    """Show what this session works with.

    Model, tools, skills, credentials by name, trust of the project, memory. `nexus doctor` checks what is wrong.
    """
    session, tools = context.session, [tool.name for tool in context.session.tools()]
    value = await asyncio.to_thread(reports.status, session.folder, context.settings, os.environ, tools)
    context.show("status", value | {"model": session.model})


async def show_config(context: CommandContext, rest: str) -> None:
    """Show the settings, and where each comes from.

    With NAME only those that have it in their names. `nexus config set KEY VALUE` or `nexus config edit` in a shell
    changes them; /reload reads them again.
    """
    folder = project_root(context.session.folder)
    loaded = await asyncio.to_thread(load_settings_in, folder, places(), defaults_dir(), os.environ)
    found = [
        {"key": key, "value": value, "origin": loaded.origins[key]}
        for key, value in loaded.values.items()
        if rest.casefold() in key
    ]
    if not found:
        raise usage_error("config", rest, "no setting with a value has this in its name", "/config lists all")
    context.show("settings", {"version": 1, "settings": found, "path": str(places().settings)})


COMMANDS = (
    Command("status", "nexus", show_status),
    Command("config", "nexus", show_config, "[NAME]", aliases=("settings",)),
)
