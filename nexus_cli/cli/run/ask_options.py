"""Options of `nexus ask` alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nexus_cli.cli.command_options import refuse_empty, whole_number

if TYPE_CHECKING:
    from nexus_cli.core.context_contract import ContextContract

StreamJson = Annotated[bool, typer.Option("--stream-json", help="Print events as JSON lines.")]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="PATH", help="Attach a text file, lines of it (a.py:3-5), a PDF or an image."),
]
MaxSteps = Annotated[
    int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum number of model requests.")
]
MaxTotalTokens = Annotated[
    int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum input and output tokens of the turn.")
]
MaxCost = Annotated[float | None, typer.Option(metavar="USD", help="Maximum cost of the turn in dollars.")]
Timeout = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit of the turn in seconds.")]
Until = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        callback=refuse_empty,
        help="Work on until this shell command exits 0, within the limits; exit status 3 otherwise.",
    ),
]
Schema = Annotated[
    str,
    typer.Option(
        metavar="SCHEMA",
        callback=refuse_empty,
        help="The answer must be JSON that matches this JSON Schema: a file, the schema itself, or MODULE:CLASS of "
        "pydantic. At most two repairs; exit status 3 if it never matches.",
    ),
]
WatchStream = Annotated[bool, typer.Option("--watch", help="One turn for each batch of lines on stdin, to its end.")]
WatchLines = Annotated[int, typer.Option(callback=whole_number(), metavar="N", help="With --watch: lines of a batch.")]
WatchPause = Annotated[float, typer.Option(metavar="SECONDS", help="With --watch: a pause that ends a batch.")]
RequireSave = Annotated[bool, typer.Option("--require-save", help="Fail if the session cannot be saved.")]
ExplainContext = Annotated[
    bool,
    typer.Option("--explain-context", help="Print on stderr what each request holds, and why, before it is sent."),
]

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
    from nexus_cli.core.context_contract import ContextContract  # noqa: PLC0415  (few runs have one)

    return ContextContract(full_input, max_input, max_drop, tuple(one.strip() for one in sections or ()))
