"""`/reload`: settings and instructions are read anew."""

from __future__ import annotations

import os

from nexus_cli.commands.arguments import describe_cache_miss, has_sent_request, refuse_arguments, resume_options
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in


async def run(context: CommandContext, rest: str) -> None:
    """Read settings and instructions anew.

    Those are config.toml and NEXUS.md (or AGENTS.md); they hold from the next request on. Model and effort of the
    session stay.
    """
    refuse_arguments("reload", rest)
    settings = load_settings_in(project_root(context.session.folder), places(), defaults_dir(), os.environ).settings
    if settings != context.settings:
        for line in filter(lambda line: line not in context.settings.notices, settings.notices):
            context.say(line)
        await context.reopen(resume_options(context), settings)
        context.say("The settings were read anew; theme and keys count from the next start on.")
    if has_sent_request(context):
        context.session.reload()
        context.say(f"Instructions are read anew. {await describe_cache_miss(context)}".rstrip())
    else:
        context.say("Instructions are read with the first message.")


COMMAND = Command("reload", "nexus", run, idle=True)
