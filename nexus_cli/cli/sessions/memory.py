"""`nexus memory consolidate`. The other verbs are in `commands/memory.py`."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Authority, Report, Source, Verb
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.option import Model


def consolidate(
    source: Source, model: Model = ""
) -> Report[Annotated[Any, "cli.sessions.consolidate.ConsolidationReport"]]:
    """Have the model merge and clean up the facts about this project and the agent, and show the changes."""
    from nexus_cli.cli.sessions.consolidate import consolidate as merge_facts  # noqa: PLC0415  (loads the engine)

    return Report("changed_facts", to_json_value(merge_facts(model)))


VERBS = (Verb(consolidate, "consolidate", Authority.OPERATES, "nothing"),)
