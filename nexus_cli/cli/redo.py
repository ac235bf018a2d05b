"""`nexus redo`: bring back what `nexus undo` or `/undo` took back."""

from __future__ import annotations

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.undo import DryRun, Paths, Worked, run_undo

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("redo")
def redo(path: Paths = None, session: Worked = "", dry_run: DryRun = False, json: Json = False) -> int:
    """Bring back what the newest undo took back, or of that a PATH alone. Again goes further forward."""
    return run_undo(session, None, path or [], dry_run=dry_run, json=json, redo=True)
