"""`nexus drops`: list the content left out of a session's requests, and print the original of a drop."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, SessionKey
from nexus_cli.cli.print_report import print_json, print_text, text_width
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.requests import drop_list as reports
from nexus_cli.reports.drops import drops_text
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Stream

app = typer.Typer(add_completion=False, rich_markup_mode=None, invoke_without_command=True)


@app.callback()
def drops(context: typer.Context, session: SessionKey = "", json: Json = False) -> int | None:
    """List everything that was left out of a session's requests, and how to get it back."""
    context.obj = session
    if context.invoked_subcommand:
        if json:
            why = "the original is printed as it was, not as JSON"
            raise NexusError("usage", f"drops --json {context.invoked_subcommand}", why, "Omit --json")
        return None
    ledger = open_ledger()
    found = find_session_id(ledger, session)
    value = reports.session_drops(ledger, found)
    if json:
        print_json(value)
    else:
        print_text(drops_text(value, text_width(whole=True), found if session else ""))
    return 0


@app.command("show")
def show_drop(
    context: typer.Context,
    drop: Annotated[str, typer.Argument(metavar="ID", help="The drop's id, such as d3.")],
    session: SessionKey = "",
    range_: Annotated[
        str, typer.Option("--range", metavar="A:B", help="Characters A to B (B not included); either may be omitted.")
    ] = "",
) -> int:
    """Print the original of what was left out, exactly."""
    ledger = open_ledger()
    found = find_session_id(ledger, session or str(context.obj or ""))
    text = ledger.log(found).original(drop)
    if text is None:
        hint = "`nexus drops` lists them"
        raise NexusError("usage", f"no drop {drop}", f"session {found} has no drop with this id", hint)
    if range_:
        start, end, _ = _slice(range_).indices(len(text))
        if start > end:
            why = f"it ends before it begins, at {end:,}"
            raise NexusError("usage", f"--range {range_}", why, "For example --range 0:2000")
        piece = text[start:end]
        if text and not piece:
            why = f"nothing is there: {drop} has {len(text):,} characters"
            raise NexusError("usage", f"--range {range_}", why, "For example --range 0:2000")
        text = piece
    stream = Stream(1)
    if stream.terminal:
        stream.write(sanitize(text).removesuffix("\n") + "\n")
    else:
        stream.write(text)
    return 0


def _slice(text: str) -> slice:
    first, colon, last = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return slice(int(first) if first.strip() else None, int(last) if last.strip() else None)
    except ValueError:
        raise NexusError(
            "usage", f"wrong value for --range: '{text}'", "expected A:B, in characters", "For example --range 0:2000"
        ) from None
