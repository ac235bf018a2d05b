"""Find what a project has beside `.nexus`: skills, commands, agents, hooks and MCP servers of other programs.

Each is an item of its own (`trust_items`) and takes effect by the same record of trust. An item that cannot be read is
left out alone, because such folders are not ours: the other items stay valid.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from nexus_cli.config.foreign_items import (
    AGENTS,
    CODEX_RULES,
    COMMANDS,
    GUIDES,
    PARENT_PREFIX,
    PATHS,
    find_scripts,
    is_guide_file,
)
from nexus_cli.config.trust_files import (
    LARGE_TOTAL_BYTES,
    MAX_TOTAL_BYTES,
    FoundFiles,
    LeftOut,
    UnfitError,
    find_below,
    find_below_entry,
    list_entries,
    read_part,
    read_parts,
    resolve_inside,
)
from nexus_cli.config.unasked_files import UnaskedFiles

MAX_ENTRIES = 2500
"""Most guides of one folder."""
MAX_SKILL_FILES = 300
"""Most files of one skill."""
UNREAD = b"not read: "
"""How the content of a script begins that cannot be read, whose hook does not run."""


def read_beside(project: Path, kinds: Collection[str]) -> tuple[dict[str, bytes], list[LeftOut]]:
    """Read the files of `kinds` beside `.nexus`, by path behind `ABOVE`, and what is left out. Never raises."""
    root, files, left_out = os.path.realpath(project), dict[str, bytes](), list[LeftOut]()
    remaining, gate = MAX_TOTAL_BYTES, UnaskedFiles(project)
    for name, parts in _find_items(project, root, kinds, left_out):
        try:
            item = _read_item(name, parts, gate)
            remaining -= sum(map(len, item.values()))
            if remaining < 0:
                raise UnfitError(name, LARGE_TOTAL_BYTES)
        except UnfitError as unfit:
            left_out.append(unfit.left_out)
        except OSError as error:
            left_out.append(LeftOut(name, f"cannot be read ({error.strerror})"))
        else:
            files |= item
    return files, left_out


def _find_items(
    project: Path, root: str, kinds: Collection[str], left_out: list[LeftOut]
) -> Iterator[tuple[str, FoundFiles]]:
    """Yield the name of every file, and of every entry of a folder, that may be an item of these kinds; with each the
    names and real paths of its files."""
    paths = [path for kind in PATHS if kind in kinds for path in PATHS[kind] if os.path.lexists(project / path)]
    for path in paths:
        name = PARENT_PREFIX + path
        if path not in (*GUIDES, CODEX_RULES):
            yield name, find_below(name, str(project / path), root)
            continue
        try:
            listed = list_entries(name, resolve_inside(name, str(project / path), root))
        except UnfitError as unfit:
            left_out.append(unfit.left_out)
            continue
        entries = [entry for entry in listed if not entry.name.startswith(".")]
        for entry in entries[:MAX_ENTRIES]:
            yield f"{name}/{entry.name}", find_below_entry(f"{name}/{entry.name}", entry, root)
        if len(entries) > MAX_ENTRIES:
            left_out.append(LeftOut(name, f"has more than {MAX_ENTRIES} entries; the rest are ignored"))


def _read_item(name: str, parts: FoundFiles, gate: UnaskedFiles) -> dict[str, bytes]:
    """Return the files of one item; only guides, unless it is a skill. Raises `UnfitError` and `OSError`."""
    most = MAX_SKILL_FILES
    if any(name.startswith(f"{PARENT_PREFIX}{folder}/") for folder in (*COMMANDS, *AGENTS)):
        parts, most = ((part, real) for part, real in parts if is_guide_file(part)), MAX_ENTRIES
    return {part: data for part, _, data in read_parts(parts, gate, most, name)}


def read_scripts(lines: Iterable[str], project: Path) -> dict[str, bytes]:
    """Return the project's files that the commands of hooks and servers name: they are parts of these items."""
    root, scripts, gate = os.path.realpath(project), dict[str, bytes](), UnaskedFiles(project)
    for line in lines:
        for path in find_scripts(line):
            try:
                if os.path.isfile(project / path):
                    real = resolve_inside(PARENT_PREFIX + path, str(project / path), root)
                    scripts[PARENT_PREFIX + path] = read_part(PARENT_PREFIX + path, real, gate)
            except (UnfitError, OSError) as error:
                scripts[PARENT_PREFIX + path] = UNREAD + str(error).encode(errors="replace")  # so it counts as changed
            except ValueError:
                continue
    return scripts
