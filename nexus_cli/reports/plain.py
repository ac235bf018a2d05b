"""Text that is shown as it is."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import Blocks, Verbatim


def text_text(value: JsonObject) -> Blocks:
    """Show a text, its lines folded."""
    return [Verbatim(value["text"].removesuffix("\n"))]
