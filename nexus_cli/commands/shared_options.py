"""Declare the options that several verbs have."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.verb import Option
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.limits import LEVELS

Allow = Annotated[
    str,
    Option(
        "|".join(LEVELS),
        "What runs without asking: ask = reads in the project, edit = also edits, auto = also sandboxed commands, "
        "all = everything.",
    ),
]
Directory = Annotated[str, Option("DIR", "Work in DIR.", "--cd -C", permits=True)]
Effort = Annotated[str, Option("LEVEL", f"Reasoning effort: {', '.join(EFFORTS)}, or {DEFAULT_EFFORT}.")]
Model = Annotated[str, Option("NAME", "A litellm model name, or an alias.", "--model -m")]
Recipe = Annotated[str, Option("NAME", "The recipe, which sets limits and context sections.")]
