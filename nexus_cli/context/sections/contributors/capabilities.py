"""The capability snapshot in a few lines (seed B): the text of `nexus status --brief`. Guides come on demand."""

from __future__ import annotations

from nexus_cli.context.sections.capability_text import capability_forms
from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import shrink_forms
from nexus_cli.context.sections.section import Layer, Phase, Section

HEADER = "# Capabilities"


def read(sources: Sources) -> Value:
    """Return the forms of the text; which they are does not depend on a model's window."""
    return list(capability_forms(sources.capabilities()))


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section."""
    if not value:
        return ()
    forms = shrink_forms([f"{HEADER}\n{form}" for form in value], view.count)
    return (Section("capabilities", Phase.TOOLS + 10, forms, Layer.SYSTEM, priority=86, source="nexus status"),)


CONTRIBUTOR = Contributor("capabilities", Layer.SYSTEM, read, render)
