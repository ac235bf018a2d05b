"""Text of the model's review of a session, and the lessons that wait."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.reports.text.blocks import Blocks, paragraphs
from nexus_cli.reports.text.lines import plural

SHOWN = 5
"""Most facts that are named by their ids."""


class ReflectionReport(VersionedReport):
    """The model's review of a session."""

    text: str
    waiting: list[str]
    """The ids of the facts that it proposed."""
    older: int
    """Facts proposed earlier that still wait."""


def reflection_text(value: JsonObject) -> Blocks:
    """Show the model's review (None if it is shown already), and the lessons that wait."""
    if value["text"] is not None:
        yield from paragraphs(value["text"].strip().splitlines() or ["(no answer)"])
    if new := value.get("waiting"):
        every = "all" if len(new) > 1 and not value["older"] else "ID" if len(new) > 1 else new[0]
        names = ", ".join(new) if len(new) <= SHOWN else f"{new[0]} to {new[-1]}"
        lessons = f"{plural(len(new), 'new lesson')} ({names})"
        yield from ["", f"{lessons}: review with /memory, keep with /memory accept {every}."]
