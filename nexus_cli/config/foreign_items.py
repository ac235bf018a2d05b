"""Name the files for agents that a project has beside `.nexus`; read and write the hooks of Claude and codex."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import places

ABOVE = "../"
"""Before the path of a file beside `.nexus`."""
SKILLS = (".agents/skills", ".claude/skills")
COMMANDS = (".claude/commands",)
HOOKS = (".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json")
SERVERS: Mapping[str, str] = {".mcp.json": "mcpServers", ".vscode/mcp.json": "servers"}
"""Files with MCP servers, and the key that they are below."""
MOST_HOOKS = 200
"""Most hooks of one file."""
MOST_WORDS = 40
"""Most words of a hook's command that are looked for in the project."""
_FOLDERS = "(?:CLAUDE_PROJECT_DIR|NEXUS_PROJECT_DIR|PWD)"
_PROJECT = re.compile(rf"[\"']?\$(?:\{{{_FOLDERS}[^}}]*\}}|{_FOLDERS}\b)[\"']?/?")
"""The project's folder, as hooks name it."""
_WORD = re.compile(r"[\w@%+=:,.~/-]+")


def may_have_servers(cwd: Path) -> bool:
    """Return True if a file around `cwd` may name MCP servers. Parses none, because most folders have none."""
    own, names = places().config, (*SERVERS, ".nexus/mcp.json", ".nexus/config.toml")
    around = (f"{folder}/{name}" for folder in (cwd, *cwd.parents) for name in names)
    if any(os.path.isfile(path) for path in (f"{own}/mcp.json", *around)):
        return True
    try:
        with open(f"{own}/config.toml", "rb") as file:
            return b"mcp" in file.read()
    except OSError:
        return False


def read_hooks(data: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    """Return event, matcher and definition of every hook of a file in the form that Claude and codex share. An invalid
    file has none."""
    try:
        table = json.loads(data.decode("utf-8-sig")).get("hooks")
        return [
            (str(event), str(group.get("matcher") or ""), hook)
            for event, groups in table.items()
            for group in groups
            for hook in group.get("hooks", ())
            if isinstance(hook, dict)
        ][:MOST_HOOKS]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def write_hooks(kept: Iterable[tuple[str, str, dict[str, Any]]]) -> bytes:
    """Return a file with the hooks `kept`."""
    events: dict[str, list[Any]] = {}
    for event, matcher, hook in kept:
        events.setdefault(event, []).append({"matcher": matcher, "hooks": [hook]})
    return json.dumps({"hooks": events}).encode()


def command_line(hook: Mapping[str, Any]) -> str:
    """Return the command of a hook with its `args`, "" if it has none."""
    args = hook.get("args")
    words = [hook.get("command", ""), *(args if isinstance(args, list) else [])]
    return " ".join(map(str, words))


def find_scripts(command: str) -> list[str]:
    """Return what may be a path in the project in a line of the shell, relative to it, whatever quotes and signs are
    around it. A name in a folder that the line names (`cd .claude && sh ./check.sh`) is there too."""
    plain = _PROJECT.sub("./", command)
    words = list(dict.fromkeys(_WORD.findall(plain)))[:MOST_WORDS]
    paths: dict[str, None] = {}
    for word in words:
        parts = [part for part in os.path.normpath(word).split("/") if part not in ("", ".", "..", "~")]
        # An absolute path may lead into the project: every end of it is looked for.
        starts = range(len(parts)) if word.startswith(("/", "~", "..")) else range(min(1, len(parts)))
        paths |= dict.fromkeys("/".join(parts[start:]) for start in starts)
    inner = [f"{folder}/{path}" for folder in paths for path in paths if folder != path]
    return [*paths, *inner]
