"""Check the installation and its surroundings."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.paths import places
from nexus_cli.core.option import Option


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
