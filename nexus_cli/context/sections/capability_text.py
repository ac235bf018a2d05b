"""The capability snapshot in a few lines (seed B): what `nexus status --brief` prints and every request carries.

`nexus_cli.session.capability_snapshot` decides what the value contains. Credentials are names; no value ever
gets here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.core.elide import one_line

SKILLS = 40
"""Skills that are described; the others are counted."""
NAMES = 100
SHORT = 100
"""Characters of a description."""
GUIDE = "`nexus skill use NAME` prints the guide"


def capability_forms(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lines as one text, in up to three forms: skills with descriptions, their names, their number."""
    if not value:
        return ()
    model = one_line(str(value.get("model") or "none"))
    lines = [f"Model: {model}."]
    if keys := value.get("credentials", ()):
        lines.append(f"Keys set: {_list_names(keys)}.")
    if servers := value.get("servers", ()):
        lines.append(f"MCP servers, not started: {_list_names(servers)}.")
    skills = [(one_line(one["name"]), one_line(one["description"])[:SHORT]) for one in value.get("skills", ())]
    if not skills:
        return ("\n".join(lines),)
    names = [name for name, _ in skills]
    described = [f"- {name}: {said}" if said else f"- {name}" for name, said in skills[:SKILLS]]
    if len(skills) > SKILLS:
        described.append(f"- and {len(skills) - SKILLS} more: `nexus skill list`")
    made = (
        [*lines, f"Skills ({GUIDE}):", *described],
        [*lines, f"Skills ({GUIDE}): {_list_names(names)}."],
        [*lines, f"{_some(len(skills), 'skill')}: `nexus skill list`, `nexus skill use NAME`."],
    )
    return tuple("\n".join(form) for form in made)


def _list_names(names: Sequence[str]) -> str:
    """Return the first of `names`, and how many more there are."""
    some = [one_line(name) for name in names[:NAMES]]
    return ", ".join([*some, *([f"{len(names) - NAMES} more"] if len(names) > NAMES else [])])


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
