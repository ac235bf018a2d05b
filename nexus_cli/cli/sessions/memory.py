"""`nexus memory`: facts remembered across sessions; all verbs but `consolidate` are those of the noun."""

from __future__ import annotations

import typer

from nexus_cli.cli.command_options import Json, Model
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.shell_command import add_verbs

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Facts remembered across sessions.")
add_verbs(app, "memory")


@app.command("consolidate")
def consolidate(model: Model = "", json: Json = False) -> int:
    """Have the model merge and clean up the facts about this project and the agent, and show the changes."""
    from nexus_cli.cli.sessions import consolidate as work  # noqa: PLC0415  (loads the engine)

    value = work.consolidate(model)
    return print_report(value, work.changes_text, json=json)
