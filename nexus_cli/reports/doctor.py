"""Text of the checks of `nexus doctor`."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import Lines, apart, filled

SIGNS = {"ok": "ok     ", "note": "note   ", "broken": "BROKEN "}


def doctor_text(value: JsonObject, width: int) -> Lines:
    """List the checks that pass and those that fail."""
    indent = " " * 8 if width >= 40 else "  "
    for check in value["checks"]:
        yield from filled(f"{check['name']}: {check['detail']}", width, indent, f"{SIGNS[check['status']]} ")
        if check["hint"]:
            yield from filled(name_commands(check["hint"]), width, indent)
    last = "nexus can work here." if value["ok"] else "Something is broken; see above."
    if value["ok"] and not value["model"]:
        last = "nexus needs a model to work here; see above."
    yield from apart(last, width)
