"""Check the skills, commands and agents of a folder: which features they use that nexus lacks, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nexus_cli.config.foreign_items import PLUGIN_ROOT
from nexus_cli.config.text_file import read_text
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.grouping import group_pairs
from nexus_cli.guides.agent_roles import check_agent_fields
from nexus_cli.guides.skills import FILE, LIMIT, GuideKind, list_guide_files
from nexus_cli.permission.folder_rules import read_granted
from nexus_cli.text.front_matter import FENCE, split_guide

FLAGS = ("disable-model-invocation", "user-invocable")
USED = frozenset(
    """
    name description license compatibility metadata argument-hint arguments version model effort allowed-tools
    """.split()
).union(FLAGS)
AGENT_USED = frozenset(
    """
    name description license compatibility metadata version tools disallowedtools model maxturns isolation color skills
    sandbox_mode
    """.split()
)
"""Keys of an agent, in small letters."""
OTHER_VARIABLE = re.compile(
    r"\$\{CLAUDE_(?!SKILL_DIR\}|PROJECT_DIR\})\w+\}|\{\{args\}\}|!\{[^}]*\}|(?<!\w)@\{(?!u(?:pstream)?\}|push\}|-?\d)[^}]*\}"
)
"""Variables that other programs fill in; `@{u}`, `@{push}` and `@{1}` are git's."""
MOST = 5000
"""Most files that are checked."""


def check_guides(place: Path) -> list[str]:
    """Return a line `FILE:LINE: WHAT` for each thing that a guide uses and nexus does not. `place` is a guide's file, a
    skill's folder, or a folder with skills and commands. Runs nothing, needs no trust.

    Raises `UsageError` if it does not exist or has no guide.
    """
    files = [*_find_files(place)]
    if not files:
        why = "no SKILL.md or commands/NAME.md found" if place.exists() else "there is no such file or folder"
        raise UsageError(f"nothing to check in {one_line(str(place))}", why)
    return check_files(place if place.is_dir() else place.parent, files)


def check_files(root: Path, files: Iterable[Path]) -> list[str]:
    """Return the lines for these guides in the folder `root`."""
    return [line for path in files for line in _check_file(path, one_line(str(path.relative_to(root))))]


def join_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of guides without their numbers, those that say the same of several files as one."""
    parts = (line.partition(": ") for line in lines)
    files = group_pairs((problem, location.rpartition(":")[0] or location) for location, _, problem in parts)
    for problem, names in files.items():
        yield f"{name_first(names, 1)}: {problem}"


def _find_files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    if (place / FILE).is_file():
        yield place / FILE
        return
    folders = [
        (folder / kind.place, kind) for kind in GuideKind for folder in (place, *map(place.joinpath, kind.folders))
    ]
    if place.name == GuideKind.SKILL.place:
        folders.append((place, GuideKind.SKILL))
    files = [path for folder, kind in folders for _, path in list_guide_files(folder, kind) if path != folder]
    yield from files[:MOST]


def _check_file(path: Path, label: str) -> Iterator[str]:
    try:
        file_text = read_text(path, LIMIT)
    except NexusError as error:
        yield f"{label}: {one_line(error.why)}; skipped"
        return
    if file_text is None:
        yield f"{label}: not a regular file; skipped"
        return
    front = split_guide(file_text.text, str(path))
    lines = file_text.text.splitlines() or [""]
    if front.problem:
        yield f"{label}:1: {front.problem}; skipped"
    for key, problem in _check_fields(front.fields, path):
        place = _line_of(lines, key)
        written = lines[place - 1].partition(":")[0].strip()  # the fields are in small letters
        yield f"{label}:{place}: {problem.replace(key, one_line(written), 1) if written.lower() == key else problem}"
    for number, line in enumerate(lines, 1):
        for variable in OTHER_VARIABLE.findall(line):
            where = " outside a plugin" if PLUGIN_ROOT in variable else ""
            yield f"{label}:{number}: nexus does not replace {one_line(variable)}{where}"


def _check_fields(fields: Mapping[str, str], path: Path) -> Iterator[tuple[str, str]]:
    is_skill, is_agent = path.name == FILE, GuideKind.AGENT.place in path.parts[:-1]
    for key, value in fields.items():
        if key not in (AGENT_USED if is_agent else USED):
            yield key, f"{one_line(key)} is ignored"
        elif key == "allowed-tools":
            yield from ((key, f"{key}: {problem}") for problem in read_granted(value)[1])
        elif key in FLAGS and value not in ("true", "false"):
            yield key, f"{key} must be true or false"
    if is_agent:
        yield from check_agent_fields(fields)
    name = fields.get("name", "")
    if is_skill and name and name != path.parent.name:
        yield "name", f"name differs from its folder {one_line(path.parent.name)}"
    if is_skill and not fields.get("description"):
        yield "", "no description: nexus uses the first paragraph, and skips the skill if there is none"


def _line_of(lines: list[str], key: str) -> int:
    """Return the line of a key in the front matter, counted from 1; 1 if it is not found."""
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == FENCE:
            break
        if key and line.lower().startswith(f"{key}:"):
            return number
    return 1
