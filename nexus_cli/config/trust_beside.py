"""Find what a project has for agents beside `.nexus`: skills, commands, hooks and MCP servers of other programs.

Each is an item of its own (`trust_items`) and takes effect by the same record of trust. One that cannot be read is left
out by itself, because such folders are not ours: it makes nothing else invalid.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from nexus_cli.config.foreign_items import (
    ABOVE,
    COMMANDS,
    HOOKS,
    SERVERS,
    SKILLS,
    find_scripts,
)
from nexus_cli.config.trust_files import MOST_IN_ALL, UnfitError, find_below, read_part, shown_path
from nexus_cli.config.trust_items import command_lines
from nexus_cli.core.elide import one_line

MOST_ENTRIES = 2500
"""Most skills and commands of one folder."""
MOST_FILES_OF_ONE = 300
"""Most files of one skill."""
UNREAD = b"not read: "
"""How the content of a script begins that cannot be read, whose hook does not run."""


def read_beside(project: Path) -> tuple[dict[str, bytes], list[str]]:
    """Read the files beside `.nexus`; return their content by path, each with `ABOVE` before it, and a line for each
    item that is left out. Never raises."""
    root, files, left_out = os.path.realpath(project), dict[str, bytes](), list[str]()
    left = MOST_IN_ALL
    for name, path in _find_items(project, left_out):
        try:
            item = _read_item(name, path, root)
            left -= sum(map(len, item.values()))
            if left < 0:
                raise UnfitError(name, f"makes all files together larger than {MOST_IN_ALL // 2**20} MiB")
        except UnfitError as unfit:
            left_out.append(one_line(str(unfit)))
        except OSError as error:
            left_out.append(one_line(f"{shown_path(name)} cannot be read ({error.strerror})"))
        else:
            files |= item
    return {**read_scripts(command_lines(files), project), **files}, left_out


def _find_items(project: Path, left_out: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and path of every file, and of every skill's folder, that may be an item."""
    for name in (*HOOKS, *SERVERS):
        if os.path.lexists(project / name):
            yield ABOVE + name, str(project / name)
    for folder in (*SKILLS, *COMMANDS):
        try:
            entries = sorted(os.listdir(project / folder))
        except FileNotFoundError:
            continue
        except OSError as error:
            left_out.append(f"{folder} cannot be read ({error.strerror})")
            continue
        shown = [entry for entry in entries if not entry.startswith(".")]
        for entry in shown[:MOST_ENTRIES]:
            yield f"{ABOVE}{folder}/{entry}", str(project / folder / entry)
        if len(shown) > MOST_ENTRIES:
            left_out.append(f"{folder} has more than {MOST_ENTRIES} entries; the others")


def _read_item(name: str, path: str, root: str) -> dict[str, bytes]:
    """Return the files of one item; of commands, only the Markdown. Raises `UnfitError` and `OSError`."""
    is_command = any(name.startswith(f"{ABOVE}{folder}/") for folder in COMMANDS)
    item: dict[str, bytes] = {}
    for part, place in find_below(name, path, root, frozenset()):
        if is_command and not part.endswith(".md"):
            continue
        if len(item) >= (MOST_ENTRIES if is_command else MOST_FILES_OF_ONE):
            raise UnfitError(name, f"has more than {len(item)} files")
        item[part] = read_part(part, place, root)
    return item


def read_scripts(lines: Iterable[str], project: Path) -> dict[str, bytes]:
    """Return the files in the project that the commands of hooks and servers name, by path: they are parts of these
    items."""
    root, found = os.path.realpath(project), dict[str, bytes]()
    for line in lines:
        for path in find_scripts(line):
            try:
                if os.path.isfile(project / path):
                    found[ABOVE + path] = read_part(ABOVE + path, str(project / path), root)
            except (UnfitError, OSError) as error:
                found[ABOVE + path] = UNREAD + str(error).encode(errors="replace")  # so it counts as changed
            except ValueError:
                continue
    return found
