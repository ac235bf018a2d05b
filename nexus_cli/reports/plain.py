"""Text that is shown as it is."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Lines, Value, folded


def text_text(value: Value, width: int) -> Lines:
    """Show a text, its lines folded."""
    return folded(value["text"].removesuffix("\n"), width)
