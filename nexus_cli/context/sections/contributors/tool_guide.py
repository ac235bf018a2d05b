"""Rules for the tools at hand that no schema contains (seed E): `defaults/prompts/tool_guide.md`.

Each line there begins with the tools that it is about, and is said only where all of them are at hand. What a tool
does and takes is its schema's to say.
"""

from __future__ import annotations

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.prompts import load_prompt
from nexus_cli.context.sections.section import Layer, Phase, Section

SOURCE = "defaults/prompts/tool_guide.md"
HEADER = "# Tools"


def read(sources: Sources) -> Value:
    """Return the rules for the tools at hand, in order."""
    return guide(load_prompt("tool_guide"), set(sources.tools()))


def guide(text: str, tools: set[str]) -> list[str]:
    """Return the rules of `text`, lines like `bash grep: the rule`, whose tools are all among `tools`."""
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return [rule.strip() for names, _, rule in lines if rule.strip() and tools.issuperset(names.split())]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section, a line for each rule."""
    if not value:
        return ()
    text = "\n".join([HEADER, *(f"- {rule}" for rule in value)])
    return (Section("tool_guide", Phase.TOOLS, (text,), Layer.SYSTEM, priority=90, sticky=True, source=SOURCE),)


CONTRIBUTOR = Contributor("tool_guide", Layer.SYSTEM, read, render, verbatim=True, required=True)
