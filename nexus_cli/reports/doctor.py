"""Text of the checks of `nexus doctor`."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import Blocks, Paragraph
from nexus_cli.reports.text.door import name_commands

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
