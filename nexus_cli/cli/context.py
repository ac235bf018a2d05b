"""`nexus context`: show the contents of the next request without sending it, or those of request N."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.choose_model import choose_model
from nexus_cli.cli.command_options import Json, Model, RecipeName, SessionKey, whole_number
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.paths import working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MAX_INT
from nexus_cli.reports.context import context_report, context_text
from nexus_cli.reports.request_diff import between_text, request_difference
from nexus_cli.service_list import SERVICES
from nexus_cli.session.options import Options

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("context")
def show_context(
    session: SessionKey = "",
    step: Annotated[
        int | None, typer.Option(callback=whole_number(-MAX_INT), metavar="N", help="Request N, from 1.")
    ] = None,
    model: Model = "",
    recipe: RecipeName = "",
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare request N (default: the newest) with the one before.")
    ] = False,
    json: Json = False,
) -> int:
    """Show what the next request would hold, to the token, without sending it; with --step what request N held."""
    folder = working_folder()
    settings = settings_in(folder)
    ledger = open_ledger()
    if session:
        found: str | None = ledger.find_session(session).id
    else:
        newest = ledger.newest_session(str(folder))
        found = newest.id if newest else None
    if found is None and (step is not None or diff):
        option = f"--step {step}" if step is not None else "--diff"
        raise NexusError("usage", option, "this folder has no session yet", f"Leave {option.split()[0]} out")
    try:
        chosen = choose_model(model, os.environ, settings, resumes=bool(found), servers=lambda: ()).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
    if recipe and (step is not None or diff):
        why = "a sent request keeps the recipe it was sent with"
        raise NexusError("usage", f"--recipe {recipe}", why, "Omit it, or --step and --diff")
    terminal = os.isatty(0)  # plain `nexus` would then be interactive
    options = Options(
        cwd=folder,
        model=chosen,
        effort=settings.effort,
        recipe=recipe,
        front="chat" if terminal else "ask",
        resume=found or "",
        save=False,
        interactive=terminal,
    )
    if diff and found is not None:
        return print_report(request_difference(ledger, found, settings, step), between_text, json=json)
    return print_report(context_report(options, settings, found, step, services=SERVICES), context_text, json=json)
