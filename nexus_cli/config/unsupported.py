"""Find files in a project that nexus recognizes but does not read: planned features, and files of other tools.

When one of them becomes supported, remove its row here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.foreign_items import RULES, read_json
from nexus_cli.config.paths import home_folder
from nexus_cli.config.project_items import describe_waiting
from nexus_cli.config.record_file import RecordFile
from nexus_cli.config.trust_files import UnfitError, resolve_inside
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import read_regular

PLACES: Mapping[str, tuple[str, str]] = {
    ".claude/output-styles": ("output styles", "output styles are not supported; put style instructions in NEXUS.md"),
    ".claude/workflows": ("workflows", "workflows are not run"),
    ".codex/config.toml": (
        "settings",
        "not read: `nexus import codex` imports your own; put the servers of a project in .mcp.json",
    ),
    ".cursor/rules": ("rules", "rules are not read; put them in .claude/rules"),
    ".cursor/mcp.json": ("MCP servers", "MCP servers are not read"),
    ".cursor/commands": ("commands", "commands are not read"),
    ".opencode/command": ("commands", "commands are not read"),
    ".pi/prompts": ("commands", "commands are not read; put them in .claude/commands"),
    ".pi/skills": ("skills", "skills are not read; put them in .agents/skills"),
    ".pi/extensions": ("extensions", "extensions are not run"),
}
"""Paths in a project, their contents, and what becomes of these."""
SETTINGS_KEYS = ("statusLine", "outputStyle")
"""Keys of these files worth reporting; files without them are ignored."""
PERMISSION_KEYS = ("allow", "additionalDirectories", "defaultMode")
"""Keys of `permissions` worth reporting: not its rules that ask or deny."""
LAST_SHOWN = RecordFile("unsupported.json", "projects")
"""The hash of the line that was shown last, by project and front end."""
MAX_BYTES = 1 << 20
"""Most bytes read of a settings file."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An existing file or folder that nexus does not read."""

    path: str
    """Relative to the project."""
    what: str


def find_unsupported(project: Path) -> tuple[Unsupported, ...]:
    """Return the unsupported files of `project`, in the order of the table, of which the home folder has none: there
    they are the person's own. Never raises."""
    is_home = os.path.realpath(project) == os.path.realpath(home_folder())
    places = {} if is_home else PLACES
    items = [Unsupported(path, label) for path, (label, _) in places.items() if os.path.exists(project / path)]
    for path in RULES:
        table = read_settings(project, path) or {}
        permissions = table.get("permissions")
        if isinstance(permissions, dict):
            items += [Unsupported(path, f"permissions.{key}") for key in filter(permissions.get, PERMISSION_KEYS)]
        items += [Unsupported(path, key) for key in filter(table.get, SETTINGS_KEYS)]
    return tuple(items)


def read_settings(project: Path, name: str) -> JsonObject | None:
    """Return Claude's settings in a file of the project, {} if there are none or they lead out of it; None if they are
    no JSON."""
    root = os.path.realpath(project)
    try:
        value = read_json(read_regular(resolve_inside(name, f"{root}/{name}", root), MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError, UnfitError):
        return {}
    except OSError:
        return None
    return value if isinstance(value, dict) else {} if value is not None else None


def describe_unsupported(unsupported: tuple[Unsupported, ...]) -> str:
    """Return a line such as `Found .claude/commands, .mcp.json (MCP servers): not supported`, "" for none."""
    labels_by_path = group_pairs((item.path, item.what) for item in unsupported)
    descriptions = [
        path if path.endswith(labels[0]) else f"{path} ({', '.join(labels)})" for path, labels in labels_by_path.items()
    ]
    return f"Found {', '.join(descriptions)}: not supported (details: `nexus doctor`)" if descriptions else ""


def new_unsupported_line(project: Path, front: str = "") -> str:
    """Return the lines of `describe_waiting` and `describe_unsupported` for `project`, if that has changed since the
    last call for this front end, else ""."""
    lines = (describe_waiting(project), describe_unsupported(find_unsupported(project)))
    line = "\n".join(filter(None, lines))
    return line if is_new_line(f"{front}{os.path.realpath(project)}", line) else ""


def is_new_line(key: str, line: str) -> bool:
    """Return True if `line` differs from that of the last call with this key, and record it; "" is none at first."""
    now = hashlib.sha256(line.encode()).hexdigest()[:16]
    hashes = LAST_SHOWN.read()
    if hashes.get(key, "") == now or not (line or key in hashes):
        return False
    with suppress(OSError):  # the line is shown again then
        LAST_SHOWN.write({**hashes, key: now})
    return True
