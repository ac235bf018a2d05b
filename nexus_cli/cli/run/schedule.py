"""`nexus schedule run`: work of a schedule now; its other verbs are those of the noun."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, refuse_empty
from nexus_cli.cli.serve.serve_once import run_plan
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.cli.shell_command import add_verbs

app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None), "schedule")


@app.command("run")
def run(
    name: Annotated[
        str,
        typer.Argument(metavar="ID", help="Id of the schedule, such as plan-2, or its name.", callback=refuse_empty),
    ],
    json: Json = False,
) -> int:
    """Run a schedule now and print the result. Exit status 1 if it failed, 3 if a limit stopped it."""
    ledger = open_ledger(writes=True)
    return run_plan(ledger, ledger.plans.find(name), json=json)
