"""`nexus export`: write a whole session as a page, for programs, or for Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.cli.shell_command import load_subjects
from nexus_cli.commands.export import export_pieces
from nexus_cli.config.settings import own_settings
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.export import CLAUDE, FORMATS, HTML, SUFFIXES, format_of_file, save_export
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Stream, write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)
Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="Markdown, JSON Lines, a page, or as Claude Code."),
]
Page = Annotated[bool, typer.Option("--html", help="A page with the conversation and the context timeline.")]
Raw = Annotated[bool, typer.Option("--raw", help="Keep secrets in the page of --html.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Write to a new file instead of stdout.")]


@app.command("export")
def export(
    key: Annotated[
        str, typer.Argument(metavar="[SESSION]", help="Id or name; default: the newest session of this folder.")
    ] = "",
    form: Format = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="The same as --format md.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="The same as --format jsonl.")] = False,
    html: Page = False,
    raw: Raw = False,
    output: Output = "",
) -> int:
    """Write a whole session as Markdown, as JSON Lines, as a page, or as Claude Code keeps it, to resume it there.

    The page is one file that loads nothing: the conversation, and the tokens of each request by layer. Secrets are
    redacted there, but not in pictures. Without a format the ending of FILE decides; nexus docs moving says where
    Claude Code looks for its sessions.
    """
    flags = {"md": markdown, "jsonl": jsonl, HTML: html}
    forms = {form, *(name for name, given in flags.items() if given)} - {""}
    if len(forms) > 1:
        raise NexusError("usage", "wrong usage", f"several formats: {', '.join(sorted(forms))}", "Give one of them")
    return write_export(key, next(iter(forms), ""), output, raw=raw)


def write_export(key: str, form: str, output: str, *, raw: bool = False) -> int:
    """Write session `key` ("": the newest of this folder) to stdout or to the new file `output`."""
    form = form or format_of_file(output)
    if form not in FORMATS:
        why = f"it is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise NexusError("usage", f"wrong value for --format: '{form}'", why, "Give one of them")
    if raw and form != HTML:
        raise NexusError("usage", "wrong usage: --raw", "only a page redacts secrets", "Add --html")
    ledger = open_ledger()
    try:
        found = ledger.session(find_session_id(ledger, key))
    except NexusError as error:
        if output or Path(key).suffix.casefold() not in (*SUFFIXES, ".md"):
            raise
        raise NexusError(error.kind, error.what, error.why, f"To write to a file: nexus export -o {key}") from error
    stream, to_file = Stream(1), bool(output) and output != "-"
    escaped = stream.terminal and not to_file
    pieces = export_pieces(ledger, found, form, load_subjects, own_settings, raw=raw, escaped=escaped)
    if to_file:
        write_stderr_line(f"nexus: written to {save_export(pieces, Path(output).absolute(), beside=False)}.")
        if form == CLAUDE:
            write_stderr_line("nexus: `nexus docs moving` says where Claude Code looks for it.")
        return 0
    for piece in pieces:
        stream.write(sanitize(piece) if stream.terminal else piece)
    return 0
