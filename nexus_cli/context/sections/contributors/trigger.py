"""The trigger of the turn in one line, if it was not a typed message (seed C's trigger)."""

from __future__ import annotations

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.section import Layer, Phase, Section
from nexus_cli.core.elide import one_line

SAID = {
    "person": "typed by the person",
    "stdin": "read from stdin, nobody is at a prompt",
    "client": "sent by another program over JSON-RPC",
    "agent": "a task from the run that you work for",
}
"""Source of a trigger to how that is said; any other one is named as it is."""


def read(sources: Sources) -> Value:
    """Return the source's name, "" where the person typed everything so far."""
    return one_line(sources.trigger())[:80]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return `Trigger: read from stdin, nobody is at a prompt`; once another one was there, also that the person types.
    """
    if not value.strip():
        return ()
    text = f"Trigger: {SAID.get(value, value)}"
    return (Section("trigger", Phase.EVENT + 15, (text,), Layer.EVENT, priority=94, sticky=True, source="the turn"),)


CONTRIBUTORS = (Contributor("trigger", Layer.EVENT, read, render),)
