"""Capabilities in a few lines (seed B): the text of `nexus status --brief`. Guides come on demand.

What the value holds is decided in `nexus_cli.session.capability_snapshot`. Credentials are names; no value ever gets
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import shrink_forms
from nexus_cli.context.sections.section import Layer, Phase, Section
from nexus_cli.core.elide import one_line

HEADER = "# Capabilities"
SKILLS = 40
"""Skills that are described; the others are counted."""
NAMES = 100
SHORT = 100
"""Characters of a description."""
GUIDE = "`nexus skill use NAME` prints the guide"


def read(sources: Sources) -> Value:
    """Return the forms of the text; which they are does not depend on a model's window."""
    return list(capability_forms(sources.capabilities()))


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section."""
    if not value:
        return ()
    forms = shrink_forms([f"{HEADER}\n{form}" for form in value], view.count)
    return (Section("capabilities", Phase.TOOLS + 10, forms, Layer.SYSTEM, priority=86, source="nexus status"),)


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


CONTRIBUTORS = (Contributor("capabilities", Layer.SYSTEM, read, render),)
