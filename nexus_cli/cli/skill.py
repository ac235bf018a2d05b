"""`nexus skill list | use | check`: list the active skills and commands, print a guide, check those of a folder."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_report, print_value
from nexus_cli.config.paths import working_folder
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
    """List the personal skills and commands, and those of a trusted project."""
    built_in: Collection[str] = ()
    with suppress(ImportError, OSError):  # in the sandbox a file may be hidden: no guide is marked as overruled then
        from nexus_cli.commands import discover  # noqa: PLC0415  (only for their names)

        built_in = discover()
    value = reports.list_skills(working_folder(), built_in)
    return print_report(value, skills_text, json=json, whole=True)


@app.command("use")
def use(name: Name) -> int:
    """Print the guide of a skill."""
    print_value(reports.skill_guide(replace_surrogates(name), working_folder()))
    return 0


@app.command("check")
def check(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A guide, a skill's folder, or a project.")] = "",
) -> int:
    """Say line by line what skills and commands use that nexus does not have. Runs nothing and needs no trust."""
    from nexus_cli.reports.skill_check import check_guides  # noqa: PLC0415  (for this command only)

    lines = check_guides(working_folder() / Path(path) if path else working_folder())
    print_value("\n".join(lines) if lines else "Everything that they use works here.")
    return 0
