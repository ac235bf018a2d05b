"""The permission level and the calls that ask under it. The model gets both before its first call, and again with the
next request after a change, even in the middle of a turn."""

from __future__ import annotations

from nexus_cli.core.limits import ASK, AUTO, EDIT, PLAN
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

ASKING = {
    ASK: "edits and commands that change something",
    EDIT: "commands that change something, and files outside the project,",
    AUTO: "calls that need network or leave the project",
}
"""Calls that ask at a level; at a level without an entry, none does."""
ASKING_UNCONFINED = {
    ASK: "edits and commands",
    EDIT: "commands, and files outside the project,",
    AUTO: "commands, and files outside the project,",
}
"""The same without a sandbox for commands."""
ONLY_READING = (
    "only calls that read are allowed; every other call is refused. Find out what the task needs, then answer with a"
    " plan: the steps, the files, how each step is checked"
)


def read(sources: Sources) -> Value:
    """Return `level`, `asked` (True if somebody can be asked), `confined` (True if commands are), and perhaps `ahead`
    (rules that came with scheduled work); nothing without tools."""
    return dict(sources.permission()) if sources.tools() else {}


def render(value: Value, view: View) -> Sections:
    """Render `[nexus: permission level edit: commands that change something ... ask the person first]`."""
    if not value:
        return ()
    text = f"[nexus: permission level {value['level']}: {_describe(value)}]"
    source = "permission level"
    return (Section("permission", Phase.EVENT + 18, (text,), Layer.EVENT, priority=94, sticky=True, source=source),)


def _describe(value: Value) -> str:
    if value["level"] == PLAN:
        return ONLY_READING
    subject = (ASKING if value["confined"] else ASKING_UNCONFINED).get(value["level"])
    if subject is None:
        return "nothing asks"
    sentence = f"{subject} {'ask the person first' if value['asked'] else 'are refused, nobody can be asked'}"
    ahead = ", ".join(value.get("ahead", ()))
    return f"{sentence}. Allowed without asking, with `network` or `outside` too: {ahead}" if ahead else sentence


CONTRIBUTORS = (Contributor("permission", Layer.EVENT, read, render, prompt=True),)
