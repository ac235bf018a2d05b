"""Find files in a project that nexus recognizes but does not read: planned features, and files of other tools.

When one of them becomes supported, remove its row here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.foreign_items import RULES
from nexus_cli.config.project_items import describe_waiting
from nexus_cli.config.record_file import RecordFile
from nexus_cli.config.trust_files import UnfitError, resolve_inside
from nexus_cli.core.real_files import read_regular

PLACES: Mapping[str, str] = {
    ".claude/agents": "agents",
    ".claude/output-styles": "output styles",
    ".cursor/mcp.json": "MCP servers",
    ".cursor/commands": "commands",
    ".opencode/command": "commands",
}
"""Paths in a project, and their contents."""
SETTINGS_KEYS = ("permissions", "statusLine", "outputStyle", "env")
"""Keys of these files worth reporting; files without them are ignored."""
TOLD = RecordFile("unsupported.json", "projects")
"""The hash of the line that was shown last, by project and front end."""
MOST_BYTES = 1 << 20
"""Most bytes read of a settings file."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An existing file or folder that nexus does not read."""

    path: str
    """Relative to the project."""
    what: str


def find_unsupported(project: Path) -> tuple[Unsupported, ...]:
    """Return the unsupported files of `project`, in the order of the table. Never raises."""
    found = [Unsupported(path, what) for path, what in PLACES.items() if os.path.exists(project / path)]
    return (*found, *(Unsupported(path, what) for path in RULES for what in _settings_keys(project, path)))


def read_project_file(project: Path, name: str) -> bytes:
    """Return a file of the project of at most `MOST_BYTES`, also by links that stay inside; raise `OSError`, and
    `UnfitError` for a link that leads out."""
    root = os.path.realpath(project)
    return read_regular(resolve_inside(name, f"{root}/{name}", root), MOST_BYTES)


def describe_unsupported(found: tuple[Unsupported, ...]) -> str:
    """Return a line such as `Found .claude/commands, .mcp.json (MCP servers): not supported`, "" for none."""
    whats: dict[str, list[str]] = {}
    for one in found:
        whats.setdefault(one.path, []).append(one.what)
    named = [path if path.endswith(what[0]) else f"{path} ({', '.join(what)})" for path, what in whats.items()]
    return f"Found {', '.join(named)}: not supported, `nexus doctor` says line by line what" if named else ""


def new_unsupported_line(project: Path, front: str = "") -> str:
    """Return the lines of `describe_waiting` and `describe_unsupported` for `project`, if that has changed since the
    last call for this front end, else ""."""
    lines = (describe_waiting(project), describe_unsupported(find_unsupported(project)))
    line = "\n".join(filter(None, lines))
    return line if is_news(f"{front}{os.path.realpath(project)}", line) else ""


def is_news(key: str, line: str) -> bool:
    """Return True if `line` differs from that of the last call with this key, and record it; "" is none at first."""
    now = hashlib.sha256(line.encode()).hexdigest()[:16]
    told = TOLD.read()
    if told.get(key, "") == now or not (line or key in told):
        return False
    with suppress(OSError):  # the line is shown again then
        TOLD.write({**told, key: now})
    return True


def _settings_keys(project: Path, name: str) -> Iterator[str]:
    try:
        table = json.loads(read_project_file(project, name))
    except (OSError, UnfitError, ValueError, RecursionError):
        return
    for key in SETTINGS_KEYS if isinstance(table, dict) else ():
        value = table.get(key)
        if value and (key != "permissions" or not isinstance(value, dict) or set(value) - {"deny", "ask"}):
            yield key
