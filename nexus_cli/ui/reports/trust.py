"""`nexus trust`: what a project's configuration would do, and where it stands."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, number

STANDS = {
    "trusted": "It is in effect.",
    "changed": "It has changed since it was trusted and is not in effect.",
    "untrusted": "It is not in effect.",
    "nothing": "There is no configuration of this project: nothing to trust.",
}


def trust_text(value: Value, width: int) -> str:
    """Each setting with what it does, each file by its kind, and the state."""
    lines = filled(value["project"], width, "  ")
    for setting in value["settings"]:
        lines += filled(f"{setting['key']} = {setting['value']}: {setting['effect']}", width, " " * 6, "  ")
    for name in value["refused"]:
        lines += filled(f"{name}: not for a project to set, has no effect", width, " " * 6, "  ")
    for file in value["files"]:
        lines += filled(f"{file['name']}, {number(file['bytes'])} bytes", width, " " * 6, "  ")
    for problem in value["problems"]:
        lines += filled(f"Has no effect as it is: {problem}", width, " " * 6, "  ")
    stands = STANDS[value["state"]]
    if value["problems"] and value["state"] == "trusted":
        stands = "It is in effect, but for what is named above."
    return "\n".join([*lines, "", *filled(stands, width)])
