"""`nexus status`: show what is available here. Contacts no model server and does not load the model library."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_json, print_text, text_width
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.config.paths import places, project_root, working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import level_fields
from nexus_cli.core.memory import FactMerger
from nexus_cli.core.services import SkillGuides, Spaces
from nexus_cli.ledger import Ledger
from nexus_cli.provider.available_models import unnamed_model
from nexus_cli.reports.hooks import hooks_report
from nexus_cli.reports.status import status_text
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.sections.contributors.capabilities import capability_forms
from nexus_cli.sections.skills import may_have_skills
from nexus_cli.session import capability_snapshot as reports
from nexus_cli.tools.registry import discover_tools

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("status")
def status(
    json: Json = False,
    brief_: Annotated[bool, typer.Option("--brief", help="A line for the model and each category.")] = False,
) -> int:
    """Show what there is to work with: model, tools, skills, servers, credentials by name, recipes, trust, memory."""
    folder = working_folder()
    settings = settings_in(folder)
    if brief_:
        model = unnamed_model(os.environ, settings)
        value = {"version": 1, **reports.snapshot(folder, settings, os.environ, model, session_tools())}
        text = capability_forms(value)[0]
    else:
        probe = find_backend(settings.sandbox.backend, own=places(), project=project_root(folder))
        value = {
            **reports.status(folder, settings, os.environ, ()),
            "hooks": hooks_report(folder, settings.hook),
            "sandbox": probe.to_json(),
            **level_fields(settings.allow),
            "tools": session_tools(),  # last, because it sets a damaged ledger aside
        }
        text = ""
    if json:
        print_json(value)
    else:
        print_text(text or status_text(value, text_width()))
    return 0


def session_tools() -> list[str]:
    """Return the names of the tools of a plain session."""
    absent, place = {FactMerger, Spaces}, ledger_place()
    if ledger_exists(place):
        with (
            suppress(NexusError),
            closing(Ledger.open_for_reading(place)) as ledger,
        ):  # an unreadable ledger is reported elsewhere
            absent -= {Spaces} if ledger.is_member(AGENT_NAME) else set()
    absent |= set() if may_have_skills(working_folder()) else {SkillGuides}
    return [name for name, tool in discover_tools().items() if not absent & set(tool.needs)]
