"""`nexus sessions export`: write a session; the other verbs are those of the noun."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.export import Format, Output, Page, Raw, write_export
from nexus_cli.cli.shell_command import add_verbs
from nexus_cli.reports.export import HTML

app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None, help="Sessions in the ledger."), "sessions")
Key = Annotated[str, typer.Argument(metavar="ID", help="Id, its start or end, or name.")]


@app.callback()
def sessions() -> None:
    """List, read, export, stop, fork, rename and delete sessions."""


@app.command("export")
def export(key: Key, form: Format = "", html: Page = False, raw: Raw = False, output: Output = "") -> int:
    """Write a whole session as Markdown, as JSON Lines, as a page, or as Claude Code keeps it. See nexus export."""
    return write_export(key, HTML if html and not form else form, output, raw=raw)
