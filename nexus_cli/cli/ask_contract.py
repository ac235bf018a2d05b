"""Options of `nexus ask` for the context contract and the price of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nexus_cli.cli.command_options import whole_number

if TYPE_CHECKING:
    from nexus_cli.lane.options import ContextContract

_PANEL = "Context contract (exit status 4 and nothing sent)"

FullInput = Annotated[
    bool,
    typer.Option("--require-full-input", help="Require the whole prompt, files and stdin.", rich_help_panel=_PANEL),
]
MaxInput = Annotated[
    int | None,
    typer.Option(
        "--max-input-tokens",
        "--max-input",
        callback=whole_number(),
        metavar="N",
        help="Maximum input tokens of each request.",
        rich_help_panel=_PANEL,
    ),
]
MaxDrop = Annotated[
    int | None,
    typer.Option(
        callback=whole_number(0),
        metavar="TOKENS",
        help="Maximum tokens left out of the first request.",
        rich_help_panel=_PANEL,
    ),
]
NoDrops = Annotated[bool, typer.Option("--no-drops", help="Same as --max-drop 0.", rich_help_panel=_PANEL)]
RequireSection = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", help="Require a context section in full; repeatable.", rich_help_panel=_PANEL),
]
Price = Annotated[
    bool, typer.Option("--price", help="Print what would be sent and its price as JSON; send and save nothing.")
]


def make_contract(
    full_input: bool, max_input: int | None, max_drop: int | None, sections: Sequence[str] | None
) -> ContextContract | None:
    """Return the contract of these options, None if none was given."""
    if not (full_input or sections) and max_input is None and max_drop is None:
        return None
    from nexus_cli.lane.options import ContextContract  # noqa: PLC0415  (few runs have one)

    return ContextContract(full_input, max_input, max_drop, tuple(one.strip() for one in sections or ()))
