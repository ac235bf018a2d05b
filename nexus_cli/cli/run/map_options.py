"""Options of `nexus map` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nexus_cli.cli.run.ask_options import Schema
from nexus_cli.core.option import Argument, Option

MAX_JOBS = 64


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The arguments and options of `nexus map` beside those that it shares with `nexus`."""

    prompt: Annotated[str, Argument("PROMPT", least=0)]
    files: Annotated[list[str] | None, Argument("[FILES]...")] = None
    jobs: Annotated[
        int, Option("N", "Maximum number of items that run at the same time.", "--jobs -j", most=MAX_JOBS)
    ] = 4
    null: Annotated[bool, Option(None, "Items on stdin are separated by NUL instead of newlines.", "--null -0")] = False
    resume_file: Annotated[
        str,
        Option("FILE", "Append each finished item to FILE, and skip items with an answer in FILE.", "--resume"),
    ] = ""
    unordered: Annotated[bool, Option(None, "Print results as items finish.")] = False
    max_cost: Annotated[float | None, Option("USD", "Maximum total cost in dollars.")] = None
    max_steps: Annotated[int | None, Option("N", "Maximum number of requests per item.")] = None
    timeout: Annotated[float | None, Option("SECONDS", "Time limit per item in seconds.")] = None
    schema: Schema = ""
