"""`/trust`: what the configuration of this project would do, and the question whether to trust it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from nexus_cli.commands.command import Choice, CommandContext
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.project_items import project_folders
from nexus_cli.config.trust import Configuration, read_configuration, trust


def build_trust(source: Source) -> Report[Any]:
    """Show the effects of this project's configuration, active or not.

    Changes since you trusted it are marked.
    """
    return read_trust(project_root(source.folder()))[1]


async def trust_project(context: CommandContext) -> None:
    """Show the effects of this project's configuration, and let it take effect if you agree.

    It can restrict your permissions, but not extend them. Items that change later are inactive until you trust them
    again.
    """
    root, *inner = project_folders(context.session.folder)
    for folder in (root, *inner):
        found, report = await asyncio.to_thread(read_trust, folder)
        if folder == root or found.files:
            await _ask(context, folder, found, report)


async def _ask(context: CommandContext, folder: Path, found: Configuration, report: Report[Any]) -> None:
    context.show(report.form, report.value)
    if found.problem or not found.files or report.value["state"] == "trusted":
        return
    choices = [Choice("no", "no", "leave it as it is"), Choice("yes", "yes", "let it take effect")]
    if await context.choose("Trust it?", choices) == "yes":
        await asyncio.to_thread(trust, folder, found)
        context.say("Trusted. It takes effect with your next message.")


def read_trust(folder: Path) -> tuple[Configuration, Report[Any]]:
    """Return the configuration of a project, and the report of its effects."""
    from nexus_cli.reports.trust import trust_report  # noqa: PLC0415  (rules, once somebody asks)

    found = read_configuration(folder, KINDS)
    return found, Report("trust", trust_report(folder, found, load_settings(places(), os.environ)))


VERBS = (Verb(trust_project, authority=Authority.PERMITS), Verb(build_trust, "show", places=("slash",)))
NOUNS = (Noun("trust", "setup", VERBS, "Show the project's configuration, and trust it."),)
