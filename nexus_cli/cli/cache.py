"""`nexus cache`: what each request had from the provider's cache, and why one missed it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, SessionKey, whole_number
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.config.settings import load_settings
from nexus_cli.core.limits import MAX_INT
from nexus_cli.reports import cache as reports
from nexus_cli.reports.cache import cache_text, miss_text

app = typer.Typer(add_completion=False, rich_markup_mode=None, invoke_without_command=True)


@app.callback()
def cache(context: typer.Context, session: SessionKey = "", json: Json = False) -> int | None:
    """Show what each request of a session was expected to have, and had, from the provider's cache."""
    context.obj = (session, json)
    if context.invoked_subcommand:
        return None
    ledger = open_ledger()
    settings = load_settings(places(), defaults_dir(), os.environ).settings
    value = reports.cache_report(ledger, find_session_id(ledger, session), settings)
    return print_report(value, cache_text, json=json)


@app.command("why")
def why(
    context: typer.Context,
    step: Annotated[
        int | None,
        typer.Argument(
            callback=whole_number(-MAX_INT), metavar="STEP", help="Default: the newest request that missed."
        ),
    ] = None,
    session: SessionKey = "",
    json: Json = False,
) -> int:
    """Explain what made a request miss the cache: what differed first from the one before, time, or the provider."""
    before, as_json = context.obj
    ledger = open_ledger()
    settings = load_settings(places(), defaults_dir(), os.environ).settings
    found = find_session_id(ledger, session or before)
    value = reports.miss_report(ledger, found, settings, step)
    return print_report(value, miss_text, json=json or as_json)
