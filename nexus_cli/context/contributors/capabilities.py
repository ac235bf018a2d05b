"""What there is to work with, in a few lines (seed B): the text of `nexus status --brief`. Guides come on demand."""

from __future__ import annotations

from nexus_cli.context.brief import brief
from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.persona import shrinking
from nexus_cli.context.section import Layer, Phase, Section

HEADER = "# Capabilities"


def read(sources: Sources) -> Value:
    """Return the forms of the text; which they are does not depend on a model's window."""
    return list(brief(sources.capabilities()))


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section."""
    if not value:
        return ()
    forms = shrinking([f"{HEADER}\n{form}" for form in value], view.count)
    return (Section("capabilities", Phase.TOOLS + 10, forms, Layer.SYSTEM, priority=86, source="nexus status"),)


CONTRIBUTOR = Contributor("capabilities", Layer.SYSTEM, read, render)
