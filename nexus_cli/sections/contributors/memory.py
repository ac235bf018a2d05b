"""The person's own memory file, `MEMORY.md` beside their settings: used while there are no facts.

A fallback: it is no longer read once there is a fact: content that still matters deserves a `/memory add`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.config.paths import places
from nexus_cli.config.text_file import describe_special_file, read_text
from nexus_cli.core.elide import drop_marker, elide_text, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections, unread_note

NAME = "MEMORY.md"
LIMIT = 64 * 1024
"""Bytes of the file that are read."""
ROOM = 400
"""Tokens of its shortened form."""


def read(sources: Sources) -> Value:
    """Return `path`, `text`, `notice` and `beyond` of the file; nothing if there are facts, or either cannot be
    read."""
    path = places().config / NAME
    try:
        if sources.facts is not None and sources.facts.search("", limit=1):
            return {}
        file_text = read_text(path, LIMIT)
    except NexusError:
        return {}
    if file_text is None:
        odd = one_line(describe_special_file(path))
        return {"path": replace_surrogates(str(path)), "text": "", "notice": odd, "beyond": 0} if odd else {}
    text = replace_surrogates(file_text.text).replace("\r\n", "\n").strip()
    if not (text or file_text.beyond):
        return {}
    return {"path": replace_surrogates(str(path)), "text": text, "notice": file_text.notice, "beyond": file_text.beyond}


def render(value: Value, view: View) -> Sections:
    """Return one section: the whole file, its beginning and end, or its name alone."""
    if not value or not (value["text"] or value["beyond"]):
        return ()
    head, text = f"The person's notes ({NAME}):", value["text"] + unread_note(value["beyond"], NAME)
    forms = [f"{head}\n{text}"]
    if view.count(text) > ROOM:
        short = elide_text(text, ROOM, view.count, drop_marker(DROP)).text
        forms += [f"{head}\n{short}", f'[{head[:-1]} left out: recall("{DROP}")]']
    order = Phase.MEMORY + 40
    source, beyond = value["path"], value["beyond"]
    return (Section("memory", order, tuple(forms), Layer.EVENT, priority=60, source=source, unread_bytes=beyond),)


def notices(value: Value) -> Sequence[str]:
    """Return the problems with the file."""
    return [value["notice"]] if value.get("notice") else []


CONTRIBUTORS = (Contributor("memory", Layer.EVENT, read, render, notices),)
