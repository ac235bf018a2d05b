"""The trigger of a plain turn in one line; that of a structured run is in its TRIGGER block."""

from __future__ import annotations

from nexus_cli.core.elide import one_line
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

TRIGGER_TEXTS = {
    "person": "typed by the person",
    "stdin": "read from stdin, nobody is at a prompt",
    "client": "sent by another program over JSON-RPC",
    "agent": "a task from the run that you work for",
}
"""Description of a trigger by its source."""


def read(sources: Sources) -> Value:
    """Return `type` and `source` of the turn's cause."""
    trigger = sources.trigger()
    return {key: one_line(str(trigger.get(key, "")))[:80] for key in ("type", "source")}


def render(value: Value, view: View) -> Sections:
    """Render `Trigger: ask (read from stdin, nobody is at a prompt)`; for another source only its type."""
    if not value["type"].strip():
        return ()
    note = TRIGGER_TEXTS.get(value["source"])
    text = f"Trigger: {value['type']}" + (f" ({note})" if note else "")
    return (Section("trigger", Phase.EVENT + 15, (text,), Layer.EVENT, priority=94, sticky=True, source="the turn"),)


CONTRIBUTORS = (Contributor("trigger", Layer.EVENT, read, render),)
