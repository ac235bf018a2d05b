"""Capabilities in a few lines: the text of `nexus status --brief`. A line for each category, with the number
of items that are ready, need setup or are broken, and the reasons. Guides are read on demand. A request has only the
lines that name something to act on.

`nexus_cli.sections.capability_snapshot` makes the value. Credentials are names; their values never get here.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.json_value import JsonObject
from nexus_cli.sections.capability_snapshot import ItemState
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import Layer, Phase, Section, Sections

HEADER = "# Capabilities"
SKILLS = 40
"""Most skills that are described; the others are counted."""
NAMES = 100
SHORT = 100
"""Most characters of a short description."""
GUIDE = "`nexus skill use NAME` prints a guide"
SKILL = "skills"
LISTED_ELSEWHERE = ("tools", SKILL)
"""Categories whose ready items are named elsewhere: in schemas, or in the list of skills."""
LABELS = {"tools": "Tools", SKILL: "Skills", "servers": "MCP servers", "credentials": "Credentials"}


def read(sources: Sources) -> Value:
    """Return the forms of the text, which depend on no model's window: what is not ready, and the environment of
    commands. The schemas, the list of skills and the model itself tell the rest."""
    value = sources.capabilities()
    unready = [
        {**capability, "items": items, "counts": {**capability["counts"], ItemState.READY: 0}}
        for capability in value.get("capabilities", ())
        if (items := [item for item in capability["items"] if item["state"] != ItemState.READY])
    ]
    return list(capability_forms(value and {"capabilities": unready, "environment": value.get("environment", "")}))


def render(value: Value, view: View) -> Sections:
    if not value:
        return ()
    forms = shrink_forms([f"{HEADER}\n{form}" for form in value], view.count)
    return (Section("capabilities", Phase.TOOLS + 10, forms, Layer.SYSTEM, priority=86, source="nexus status"),)


def capability_forms(value: JsonObject) -> tuple[str, ...]:
    """Return the lines as one text, in up to three forms: skills with descriptions, their names, their number."""
    if not value:
        return ()
    model = [f"Model: {one_line(str(value['model'] or 'none'))}."] if "model" in value else []
    categories = {
        str(capability["category"]): capability for capability in value.get("capabilities", ()) if capability["items"]
    }
    if (tools := categories.get("tools")) and tools["counts"][ItemState.READY] == len(tools["items"]):
        del categories["tools"]  # the schemas have them
    lines = [*model, *(_category(category) for name, category in categories.items() if name != SKILL)]
    if environment := value.get("environment"):
        lines.append(f"Sandboxed commands use {one_line(str(environment))}.")
    skills = [(one_line(skill["name"]), one_line(skill["description"])[:SHORT]) for skill in value.get("skills", ())]
    if SKILL not in categories:
        return ("\n".join(lines),) if lines else ()
    state = _category(categories[SKILL])
    if not skills:
        return ("\n".join([*lines, state]),)
    names = [name for name, _ in skills]
    described = [f"- {name}: {description}" if description else f"- {name}" for name, description in skills[:SKILLS]]
    if len(skills) > SKILLS:
        described.append(f"- and {len(skills) - SKILLS} more: `nexus skill list`")
    forms = (
        [*lines, f"{state} {GUIDE}:", *described],
        [*lines, f"{state} {GUIDE}: {_list_names(names)}."],
        [*lines, f"{state} `nexus skill list`, `nexus skill use NAME`."],
    )
    return tuple("\n".join(form) for form in forms)


def _category(value: JsonObject) -> str:
    """Return `Skills: 2 ready | 1 broken (notes: is empty).`"""
    name = str(value["category"])
    states = (_state(name, state, value) for state in ItemState if value["counts"][state])
    return f"{LABELS.get(name, name)}: {' | '.join(states)}."


def _state(category: str, state: ItemState, value: JsonObject) -> str:
    """Count the items in a state and name them; ready ones only if they are named nowhere else."""
    count = value["counts"][state]
    text = f"{count} {'need setup' if state == ItemState.SETUP and count > 1 else state.replace('_', ' ')}"
    if state == ItemState.READY and category in LISTED_ELSEWHERE:
        return text
    names = dict[str, list[str]]()
    for item in value["items"]:
        if item["state"] == state:
            names.setdefault(one_line(item["why"]), []).append(item["name"])
    whys = (
        ": ".join(filter(None, (_list_names([*filter(None, item_names)]), why))) for why, item_names in names.items()
    )
    return f"{text} ({'; '.join(whys)})"


def _list_names(names: Sequence[str]) -> str:
    """Return the first of `names`, and the number of the others."""
    return name_first([*map(one_line, names)], NAMES)


CONTRIBUTORS = (Contributor("capabilities", Layer.SYSTEM, read, render),)
