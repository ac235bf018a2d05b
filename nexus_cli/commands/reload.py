"""`/reload`: settings and instructions are read anew."""

from __future__ import annotations

import os

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import begun, going_on, nothing, sent_anew
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in


async def run(desk: Desk, rest: str) -> None:
    """Read settings and instructions anew.

    Those are config.toml and NEXUS.md (or AGENTS.md); they hold from the next request on. Model and effort of the
    session stay.
    """
    nothing("reload", rest)
    settings = load_settings_in(project_root(desk.session.folder), places(), defaults_dir(), os.environ).settings
    if settings != desk.settings:
        for line in filter(lambda line: line not in desk.settings.notices, settings.notices):
            desk.say(line)
        await desk.reopen(going_on(desk), settings)
        desk.say("The settings were read anew; theme and keys count from the next start on.")
    if begun(desk):
        desk.session.reload()
        desk.say(f"Instructions are read anew. {await sent_anew(desk)}".rstrip())
    else:
        desk.say("Instructions are read with the first message.")


COMMAND = Command("reload", "nexus", run, idle=True)
