"""Text that is shown as it is."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.lines import Lines, folded


def text_text(value: JsonObject, width: int) -> Lines:
    """Show a text, its lines folded."""
    return folded(value["text"].removesuffix("\n"), width)
