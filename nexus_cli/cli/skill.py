"""`nexus skill list | use`: list the active skills, print the guide of one."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, working_folder
from nexus_cli.cli.print_report import print_report, print_value
from nexus_cli.core.message import replace_surrogates
from nexus_cli.reports import skills as reports
from nexus_cli.reports.skills import skills_text

HELP = "Guides that are read on demand."

app = typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.")]


@app.callback()
def skill() -> None:
    """Guides that are read on demand."""


@app.command("list")
def list_skills(json: Json = False) -> int:
    """List the personal skills and those of a trusted project."""
    value = reports.list_skills(working_folder())
    return print_report(value, skills_text, json=json, whole=True)


@app.command("use")
def use(name: Name) -> int:
    """Print the guide of a skill."""
    print_value(reports.skill_guide(replace_surrogates(name), working_folder()))
    return 0
