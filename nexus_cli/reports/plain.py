"""Text that is shown as it is."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, folded


def text_text(value: Value, width: int) -> str:
    """Show a text, its lines folded."""
    return "\n".join(folded(value["text"].removesuffix("\n"), width))
