"""Options of `nexus map` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from nexus_cli.cli.command_options import check_amount, refuse_empty, whole_number
from nexus_cli.cli.run.ask_options import Schema

MOST_JOBS = 64


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The arguments and options of `nexus map` beside those that it shares with `nexus`."""

    prompt: Annotated[str, typer.Argument(metavar="PROMPT")]
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES]...", show_default=False, callback=refuse_empty)
    ] = None
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            callback=whole_number(1, MOST_JOBS),
            metavar="N",
            help="Maximum number of items that run at the same time.",
        ),
    ] = 4
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Items on stdin are separated by NUL instead of newlines.")
    ] = False
    resume_file: Annotated[
        str,
        typer.Option(
            "--resume",
            metavar="FILE",
            callback=refuse_empty,
            help="Append each finished item to FILE, and skip items with an answer in FILE.",
        ),
    ] = ""
    unordered: Annotated[bool, typer.Option("--unordered", help="Print results as items finish.")] = False
    max_cost: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="USD", help="Maximum total cost in dollars.")
    ] = None
    max_steps: Annotated[
        int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum number of requests per item.")
    ] = None
    timeout: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="SECONDS", help="Time limit per item in seconds.")
    ] = None
    schema: Schema = ""
