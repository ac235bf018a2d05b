"""The operating rules (seed E's contract): our own first text of every system prompt, `defaults/prompts/system.md`, and
`system_without_tools.md` where there are none. What is said of single tools is `tool_guide`'s.

They are not in NEXUS.md, so that a person's own file of two lines does not switch them off (design section 1).
"""

from __future__ import annotations

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.prompts import load_prompt
from nexus_cli.context.sections.section import Layer, Phase, Section

WITH, WITHOUT = "system", "system_without_tools"


def read(sources: Sources) -> Value:
    """Return the rules for a run with tools, or for one without: `name` and `text`."""
    name = WITH if sources.tools() else WITHOUT
    return {"name": name, "text": load_prompt(name)}


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section, first of all."""
    source = f"defaults/prompts/{value['name']}.md"
    order = Phase.CONSTRAINT
    return (Section("contract", order, (value["text"],), Layer.SYSTEM, priority=99, sticky=True, source=source),)


CONTRIBUTOR = Contributor("contract", Layer.SYSTEM, read, render, verbatim=True, required=True)
