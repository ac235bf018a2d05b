"""The operating rules and the guide to the available tools, both from `defaults/prompts`.

The contract is our own first text of every system prompt. It is not in NEXUS.md, so that a person's own file of two
lines does not switch it off. Each line of `tool_guide.md` begins with the tools that it is about,
and is sent only where all of them are at hand. What a tool does and takes is its schema's to say.
"""

from __future__ import annotations

from nexus_cli.config.prompts import load_prompt
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

WITH, WITHOUT = "system", "system_without_tools"
GUIDE = "tool_guide"


def read_contract(sources: Sources) -> Value:
    """Return `name` and `text` of the rules for a run with tools, or for one without."""
    name = WITH if sources.tools() else WITHOUT
    return {"name": name, "text": load_prompt(name)}


def render_contract(value: Value, view: View) -> Sections:
    """Return one section, the first of all."""
    source = f"defaults/prompts/{value['name']}.md"
    order = Phase.CONSTRAINT
    return (Section("contract", order, (value["text"],), Layer.SYSTEM, priority=99, sticky=True, source=source),)


def read_tool_guide(sources: Sources) -> Value:
    """Return the rules for the available tools, in order."""
    return guide(load_prompt(GUIDE), set(sources.tools()))


def guide(text: str, tools: set[str]) -> list[str]:
    """Return the rules of `text`, lines like `bash grep: the rule`, whose tools are all among `tools`."""
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return [rule.strip() for names, _, rule in lines if rule.strip() and tools.issuperset(names.split())]


def render_tool_guide(value: Value, view: View) -> Sections:
    """Return one section, a line for each rule."""
    if not value:
        return ()
    text = "\n".join(["# Tools", *(f"- {rule}" for rule in value)])
    source = f"defaults/prompts/{GUIDE}.md"
    return (Section(GUIDE, Phase.TOOLS, (text,), Layer.SYSTEM, priority=90, sticky=True, source=source),)


CONTRIBUTORS = (
    Contributor("contract", Layer.SYSTEM, read_contract, render_contract, verbatim=True, required=True),
    Contributor(GUIDE, Layer.SYSTEM, read_tool_guide, render_tool_guide, verbatim=True, required=True),
)
