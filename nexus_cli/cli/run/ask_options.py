"""Options of `nexus ask` alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nexus_cli.cli.command_options import check_amount, refuse_empty, whole_number

if TYPE_CHECKING:
    from nexus_cli.core.context_contract import ContextContract

StreamJson = Annotated[bool, typer.Option("--stream-json", help="Print events as JSON lines.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        callback=refuse_empty,
        help="Attach a text file, some of its lines (a.py:3-5), a PDF or an image.",
    ),
]
MaxSteps = Annotated[
    int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum number of model requests.")
]
MaxTotalTokens = Annotated[
    int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum input and output tokens of the turn.")
]
MaxCost = Annotated[
    float | None, typer.Option(callback=check_amount, metavar="USD", help="Maximum cost of the turn in dollars.")
]
Timeout = Annotated[
    float | None, typer.Option(callback=check_amount, metavar="SECONDS", help="Time limit of the turn in seconds.")
]
Until = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        callback=refuse_empty,
        help="Continue until this shell command exits with 0; exit status 3 if a limit is reached first.",
    ),
]
Schema = Annotated[
    str,
    typer.Option(
        metavar="SCHEMA",
        callback=refuse_empty,
        help="Require a JSON answer that matches this JSON Schema: a file, the schema itself, or a pydantic "
        "MODULE:CLASS. The model may correct its answer twice; exit status 3 if it never matches.",
    ),
]
WatchStream = Annotated[
    bool, typer.Option("--watch", help="Run one turn for each batch of lines on stdin, until stdin ends.")
]
WatchLines = Annotated[
    int, typer.Option(callback=whole_number(), metavar="N", help="With --watch: maximum lines in a batch.")
]
WatchPause = Annotated[
    float,
    typer.Option(
        callback=check_amount, metavar="SECONDS", help="With --watch: seconds without input after which a batch ends."
    ),
]
RequireSave = Annotated[bool, typer.Option("--require-save", help="Fail if the session cannot be saved.")]
ExplainContext = Annotated[
    bool,
    typer.Option("--explain-context", help="Before each request, print on stderr what it contains and why."),
]

_PANEL = "Context contract (a first request that violates it is not sent: exit status 4)"
FullInput = Annotated[
    bool,
    typer.Option(
        "--require-full-input", help="Fail if the prompt, files or stdin would be truncated.", rich_help_panel=_PANEL
    ),
]
MaxInput = Annotated[
    int | None,
    typer.Option(
        "--max-input-tokens",
        "--max-input",
        callback=whole_number(),
        metavar="N",
        help="Maximum input tokens of each request; a later request above this ends the turn with exit status 3.",
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
    bool,
    typer.Option(
        "--price", help="Print the tokens and price of the first request as JSON, without sending or saving anything."
    ),
]


def make_contract(
    full_input: bool, max_input: int | None, max_drop: int | None, sections: Sequence[str] | None
) -> ContextContract | None:
    """Return the contract of these options, None if none was given."""
    if not (full_input or sections) and max_input is None and max_drop is None:
        return None
    from nexus_cli.core.context_contract import ContextContract  # noqa: PLC0415  (few runs have one)

    return ContextContract(full_input, max_input, max_drop, tuple(section.strip() for section in sections or ()))
