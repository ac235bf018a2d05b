"""A person's own contributors: `contributors/NAME.md` beside their settings.

Each is one text as the section `own.NAME` (`own_event.NAME`). Its front matter sets its place; every key is optional:
`phase` (persona), `slot` (1 to 999; 500), `priority` (0 to 100; 60), `layer` (system, read once per epoch; event, sent
again when it differs). Such a file is data; code comes only with plugins, which a person installs as a package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.text_file import read_text
from nexus_cli.core.elide import one_line, trim_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.sections.contributor import Contributor, Sources, Value, View, notices
from nexus_cli.sections.identity_files import section_forms
from nexus_cli.sections.section import Layer, Phase, Section, Sections, unread_note
from nexus_cli.text.front_matter import read_front_matter

FOLDER = "contributors"
MOST = 50
"""Most files that are read."""
LIMIT = 64 * 1024
"""Bytes of one file that are read."""
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PHASES = {phase.label: phase for phase in Phase if phase is not Phase.TOOL_RESULT}
LAYERS = (Layer.SYSTEM, Layer.EVENT)
KEYS = ("phase", "slot", "priority", "layer", "description")


def read_system(sources: Sources) -> Value:
    """Return a record per text of the system layer, and the problems with files."""
    return [file for file in _files() if file["layer"] != Layer.EVENT]


def read_event(sources: Sources) -> Value:
    """Return a record per text of the event layer."""
    return [file for file in _files() if file["layer"] == Layer.EVENT]


def _files() -> Iterator[JsonObject]:
    folder = places().config / FOLDER
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".md") and not name.startswith("."))
    except OSError:
        return
    for name in names[:MOST]:
        try:
            yield _read_file(folder / name)
        except (NexusError, ValueError) as error:
            why = error.message if isinstance(error, NexusError) else f"{FOLDER}/{replace_surrogates(name)}: {error}"
            yield {"layer": "", "text": "", "notice": one_line(f"{why}; skipped")}
    if len(names) > MOST:
        yield {"layer": "", "text": "", "notice": f"only the first {MOST} files of {folder} are read"}


def _read_file(path: Path) -> JsonObject:
    """Read one file: `name`, `layer`, `order`, `priority`, `text`, `path`, `notice`, `beyond`. Raises `ValueError` with
    the problem of its name or its front matter."""
    if not NAME.fullmatch(path.stem):
        raise ValueError("a name may have only lower-case letters, digits, - and _")
    file_text = read_text(path, LIMIT)
    if file_text is None:
        raise ValueError("it is not a regular file")
    front_matter = read_front_matter(file_text.text)
    front, body = front_matter.fields, front_matter.text
    if front_matter.problem:
        raise ValueError(front_matter.problem)
    if unknown := sorted(front.keys() - set(KEYS)):
        raise ValueError(f"{unknown[0]} is none of {', '.join(KEYS)}")
    text = replace_surrogates(trim_text(body) + unread_note(file_text.beyond, path.name))
    return {
        "name": path.stem,
        "layer": _pick(front, "layer", LAYERS[0], list(map(str, LAYERS))),
        "order": PHASES[_pick(front, "phase", "persona", list(PHASES))] + _number(front, "slot", 500, 1, 999),
        "priority": _number(front, "priority", 60, 0, 100),
        "text": text,
        "path": replace_surrogates(str(path)),
        "notice": file_text.notice,
        "beyond": file_text.beyond,
    }


def _pick(front: Mapping[str, str], key: str, default: str, values: Sequence[str]) -> str:
    value = front.get(key, default).strip().lower()
    if value not in values:
        raise ValueError(f"{key} {value!r} is none of {', '.join(values)}")
    return value


def _number(front: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    text = front.get(key, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and least <= int(text[:9]) <= most):
        raise ValueError(f"{key} {text!r} is not a number from {least} to {most}")
    return int(text)


def render(value: Value, view: View) -> Sections:
    """Return one section per text."""
    return tuple(
        Section(
            f"{'own_event' if own_text['layer'] == Layer.EVENT else 'own'}.{own_text['name']}",
            own_text["order"],
            section_forms(f"# {own_text['name']}", own_text["text"], view.count),
            Layer(own_text["layer"]),
            own_text["priority"],
            source=own_text["path"],
            unread_bytes=own_text["beyond"],
        )
        for own_text in value
        if own_text["text"]
    )


CONTRIBUTORS = (
    Contributor("own", Layer.SYSTEM, read_system, render, notices, most=MOST * LIMIT, verbatim=True),
    Contributor("own_event", Layer.EVENT, read_event, render, notices, most=MOST * LIMIT, verbatim=True),
)
