"""Check the installation and its surroundings."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.paths import places
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import Option
from nexus_cli.reports.text.blocks import Blocks, Paragraph
from nexus_cli.reports.text.command_names import name_commands

SIGNS = {"ok": "ok     ", "note": "note   ", "broken": "BROKEN "}
NARROW = 40
"""Columns below which texts are not aligned behind the signs."""


def doctor_text(value: JsonObject, width: int) -> Blocks:
    """List the checks that pass and those that fail."""
    indent = " " * (2 if width < NARROW else 8)
    for check in value["checks"]:
        yield Paragraph(f"{check['name']}: {check['detail']}", indent, f"{SIGNS[check['status']]} ")
        if check["hint"]:
            yield Paragraph(name_commands(check["hint"]), indent)
    last = "nexus can work here." if value["ok"] else "Something is broken; see above."
    if value["ok"] and not value["model"]:
        last = "nexus needs a model to work here; see above."
    yield from ["", last]


def build_checks(
    source: Source,
    instructions: Annotated[
        bool, Option(None, "Show the tokens and price of instruction files and check their text.")
    ] = False,
) -> Report[
    Annotated[Any, "reports.environment_checks.DoctorReport"]
    | Annotated[Any, "reports.instructions.InstructionsReport"]
]:
    """Check everything that nexus needs. Exit status 1 only if something is broken."""
    from nexus_cli.imports.waiting_setups import find_waiting  # noqa: PLC0415
    from nexus_cli.reports.environment_checks import check_environment, price_instructions  # noqa: PLC0415  (loads all)

    model = source.live.model if source.live else ""
    if instructions:
        return Report("instructions", price_instructions(source.folder(), model))
    value = check_environment(source.folder(), model, find_waiting(places()))
    return Report("doctor", value, status=0 if value["ok"] else 1)


NOUN = Noun(
    "doctor",
    "setup",
    (Verb(build_checks, opens="nothing"),),
    "Check the setup and show how to fix problems.",
)
