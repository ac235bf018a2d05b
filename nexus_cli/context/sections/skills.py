"""Skills: guides that are read on demand (seed B). A skill is a folder with a SKILL.md.

Personal skills are in `config/skills`, a project's in `.nexus/skills`, which counts only while the project is trusted.
The reports list and print them; a request has only their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.trust import FOLDER, trusted_configuration
from nexus_cli.context.text_file import FileText, decode_head, read_text
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError

FILE = "SKILL.md"
LIMIT = 1024 * 1024
"""Bytes of one guide that are read."""
HEAD = 16 * 1024
"""Bytes of the file that must contain name and description."""
MOST = 500
"""Most skills of one folder."""
LONGEST_NAME, LONGEST_LINE = 64, 200
"""Most characters of a shown name and a shown description."""
FENCE = "---"
_OPENED = re.compile(rf"{FENCE}[^\S\n]*\n[A-Za-z][\w-]*[^\S\n]*:")
"""A fence followed by a key: a rule above a text has none."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, without its guide."""

    name: str
    """Its name: the front matter's `name`, else the folder's."""
    description: str
    """One line: the front matter's, else the first paragraph of the guide; may be ""."""
    path: str
    """Its SKILL.md, in a form that can be shown."""
    source: Path | bytes = field(repr=False)
    """The file itself; for a project, its content when trust in the project was judged."""
    origin: str = "personal"
    """`personal` or `project`."""
    shadowed: bool = False
    """True if another skill of the same name comes before it."""
    problem: str = ""
    """The reason that it cannot be used; else ""."""


def find_skills(cwd: Path) -> tuple[Skill, ...]:
    """Return the active skills of `cwd` by name, a personal one before a project's. Raises nothing."""
    root = project_root(cwd)
    found = [*_in(places().config / "skills", "personal")]
    if os.path.isdir(root / FOLDER / "skills"):
        found += _in_project(root)
    listed: list[Skill] = []
    names: set[str] = set()
    for skill in sorted(found, key=lambda one: (one.name.casefold(), one.origin != "personal", one.path)):
        listed.append(replace(skill, shadowed=skill.name in names))
        if not skill.problem:
            names.add(skill.name)
    return tuple(listed)


def count_untrusted(cwd: Path) -> int:
    """Count the skills that are inactive because they are not trusted or have changed since."""
    root = project_root(cwd)
    folder = root / FOLDER / "skills"
    if not os.path.isdir(folder):
        return 0
    trusted = trusted_configuration(root).files
    return sum(1 for one in _folders(folder) if f"skills/{one.name}/{FILE}" not in trusted)


def read_guide(skill: Skill) -> str:
    """Return the guide as written in the file, without front matter; raise `NexusError("config", ...)` if it cannot be
    read."""
    found = _read(skill.source, skill.path, LIMIT)
    if found is None:
        raise NexusError("config", skill.path, "is not there any more", "`nexus skill list` shows what is")
    return split_front_matter(found.text)[1].strip("\n")


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders with a SKILL.md of any kind, by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names[:MOST]:
        if not name.startswith(".") and _is_skill(folder / name):
            yield folder / name


def _is_skill(place: Path) -> bool:
    """True if it has a SKILL.md. Also true for a dangling link, which is then listed with its problem."""
    return os.path.lexists(place / FILE) or (os.path.islink(place) and not os.path.exists(place))


def _in(folder: Path, origin: str) -> Iterator[Skill]:
    for place in _folders(folder):
        yield _make_skill(place.name, place / FILE, one_line(str(place / FILE)), origin)


def _in_project(root: Path) -> Iterator[Skill]:
    """Yield the trusted ones from the bytes that were judged: nothing is read again."""
    parts = ((name.split("/"), data) for name, data in trusted_configuration(root).files.items())
    own = [(at[1], data) for at, data in parts if len(at) == 3 and (at[0], at[2]) == ("skills", FILE)]
    for name, data in [one for one in own if not one[0].startswith(".")][:MOST]:
        yield _make_skill(name, data, one_line(str(root / FOLDER / "skills" / name / FILE)), "project")


def _make_skill(folder: str, source: Path | bytes, where: str, origin: str) -> Skill:
    name = _name(folder)
    try:
        found = _read(source, where, HEAD)
    except NexusError as error:
        return Skill(name, "", where, source, origin, problem=one_line(error.why))
    front, body = split_front_matter(found.text if found else "")
    problem = "is not a regular file" if found is None else _problem(found.text, front, body, source, where)
    said = front.get("description") or ("" if problem else _paragraph(body))
    return Skill(_name(front.get("name", "")) or name, _one_line(said), where, source, origin, problem=problem)


def _problem(text: str, front: Mapping[str, str], body: str, source: Path | bytes, where: str) -> str:
    """Return the reason that a readable file is not a guide, "" if it is one; `text` is its beginning."""
    if not text.strip():
        return "is empty"
    if not front and body == text and _OPENED.match(text):
        return f"has front matter that no line {FENCE} closes in its first {HEAD // 1024} KiB"
    if not body.strip().strip("-") and not split_front_matter(_whole(source, where))[1].strip().strip("-"):
        return "has no guide behind its front matter"
    return ""


def _whole(source: Path | bytes, where: str) -> str:
    found = _read(source, where, LIMIT)
    return found.text if found else ""


def _read(source: Path | bytes, where: str, limit: int) -> FileText | None:
    return decode_head(source, where, limit) if isinstance(source, bytes) else read_text(source, limit)


def _name(text: str) -> str:
    """Return `text` as one word that can be typed; "" if nothing is left."""
    return "-".join(one_line(text).split())[:LONGEST_NAME]


def _one_line(text: str) -> str:
    line = " ".join(one_line(text[: 4 * LONGEST_LINE]).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 3].rstrip() + "..."


def split_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the front matter's plain keys, and the text after it; an unclosed fence is not front matter."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        return {}, text
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), 0)
    if not end:
        return {}, text
    return _keys(lines[1:end]), "\n".join(lines[end + 1 :])


def _keys(lines: list[str]) -> dict[str, str]:
    """Parse `key: value` at the margin; indented lines continue the value, as in YAML."""
    found: dict[str, str] = {}
    key = ""
    for line in lines:
        if line[:1] in (" ", "\t") and key:
            found[key] = f"{found[key]} {line.strip()}".strip()
            continue
        key, colon, value = line.partition(":")
        key = key.strip().lower() if colon and not line.startswith("#") else ""
        value = value.strip()
        if key:
            found[key] = "" if value[:1] in ("|", ">") and len(value) <= 2 else _unquote(value)
    return found


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _paragraph(body: str) -> str:
    """Return the first text lines of `body`, without headings and rules."""
    said: list[str] = []
    for line in body.splitlines():
        plain = line.strip()
        if plain and not plain.startswith(("#", FENCE, "```")):
            said.append(plain)
        elif said:
            break
    return " ".join(said)
