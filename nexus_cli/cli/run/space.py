"""`nexus space open`: take part in a space from a terminal; the other verbs are those of the noun."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import refuse_empty
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.cli.shell_command import add_verbs, make_source
from nexus_cli.commands.space import find_member, read_settings

HELP = "Conversations of several people and agents."
app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP), "space")


@app.command("open")
def open_command(
    space: Annotated[str, typer.Argument(metavar="SPACE", help="A name or an id, such as space-3.")],
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Act as this member; default: you.", callback=refuse_empty)
    ] = "",
) -> int:
    """Chat in a space from this terminal. Ctrl-D leaves."""
    from nexus_cli.cli.run.open_space import open_space  # noqa: PLC0415  (loads the screen)

    ledger = open_ledger(writes=True)
    source = make_source(ledger)
    settings = read_settings(source)
    return open_space(ledger, settings, *find_member(source, settings, space, name))
