"""Report line by line what a project has for Claude and other programs and nexus does not apply. Runs nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nexus_cli.config.programs import find_program
from nexus_cli.config.unsupported import MOST_BYTES, SETTINGS, find_unsupported
from nexus_cli.context.text_file import read_text
from nexus_cli.core.elide import cut_at_word, one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.hooks.hook_list import UNSUPPORTED, list_hooks
from nexus_cli.reports.skill_check import check_guides

PLACES: Mapping[str, str] = {
    "agents": "workers have no instructions of their own: a command that names one gets a general worker",
    "output styles": "are not applied: say in NEXUS.md how to answer",
}
"""What becomes of the files that `find_unsupported` names by these words."""
KEYS: Mapping[str, str] = {
    "env": "variables are not set for commands",
    "model": "is not applied: a project chooses no model",
    "outputStyle": "is not applied: say in NEXUS.md how to answer",
    "statusLine": "is not run: the status line is nexus's own",
    "enabledPlugins": "are not installed",
    "enableAllProjectMcpServers": "is not applied: `nexus trust` decides on servers",
    "enabledMcpjsonServers": "is not applied: `nexus trust` decides on servers",
}
"""What becomes of keys of Claude's settings."""
APPLIED = ("hooks", "permissions", "$schema")
TOOLS = {"Bash": "bash", "Read": "read_file", "Edit": "edit_file", "Write": "write_file", "WebFetch": "fetch"}
"""Claude's tools in rules, and ours."""
RULE = re.compile(r"(\w+)(?:\((.*)\))?")
IMPORT = re.compile(r"(?:^|\s)@((?:~|\.{0,2}/)?[\w][\w./-]*\.\w+)")
PROGRAM = re.compile(r"\s*([\w.+-]+)(?=\s|$)")
"""The program that a line of the shell begins with, by its name alone."""
SHELL_WORDS = frozenset(
    """
    case cd command declare eval exec export for function if let local read set source trap type umask unset until while
    """.split()
)
INSTRUCTIONS = ("CLAUDE.md", ".claude/CLAUDE.md")
MOST = 40
"""Most lines."""


def list_gaps(project: Path) -> list[str]:
    """Return a line for each thing, `FILE: WHAT`. Blocks; never raises."""
    found = [*_places(project), *_settings(project), *_hooks(project), *_guides(project), *_imports(project)]
    more = len(found) - MOST
    return [*found[:MOST], *([f"{more} more: /hooks and `nexus skill check` list them"] if more > 0 else [])]


def _places(project: Path) -> Iterator[str]:
    for one in find_unsupported(project):
        if one.path not in SETTINGS:
            yield f"{one.path}: {PLACES.get(one.what, f'{one.what} are not read')}"


def _settings(project: Path) -> Iterator[str]:
    for name in SETTINGS:
        path = project / name
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                table = json.loads(file.read(MOST_BYTES).decode("utf-8-sig"))
        except (OSError, ValueError, RecursionError):
            yield f"{name}: it is no JSON"
            continue
        if not isinstance(table, dict):
            continue
        for key in table:
            if key not in APPLIED:
                yield one_line(f"{name}: {key} {KEYS.get(key, 'is not read')}")
        permissions = table.get("permissions")
        yield from (f"{name}: {line}" for line in _permissions(permissions if isinstance(permissions, dict) else {}))


def _permissions(table: Mapping[str, Any]) -> Iterator[str]:
    if allowed := _texts(table.get("allow")):
        yield f"permissions.allow ({len(allowed)}) permits nothing: your own rules do (`nexus rules add allow RULE`)"
    for kind in ("deny", "ask"):
        for text in _texts(table.get(kind)):
            ours = translate_rule(text)
            said = f"`nexus rules add {kind} {shlex.quote(ours)}`" if ours else "there is no such rule here"
            yield one_line(f"permissions.{kind} {cut_at_word(text, 100)} is not in force: {said}")
    for key in table:
        if key not in ("allow", "deny", "ask"):
            yield one_line(f"permissions.{key} is not applied")


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def translate_rule(text: str) -> str:
    """Return a rule of Claude's settings as one of ours, "" if there is none that says the same."""
    found = RULE.fullmatch(text.strip())
    if found is None:
        return ""
    tool, inner = TOOLS.get(found[1], found[1] if found[1].startswith("mcp__") else ""), found[2]
    if not tool or not inner:
        return tool
    if tool == "bash":
        inner = re.sub(r":\*$", " *", inner)
        return f"bash({inner})" if "*" not in inner.removesuffix(" *") else ""
    if tool == "fetch":
        return f"fetch({inner.removeprefix('domain:')})" if inner.startswith("domain:") else ""
    return (
        f"{tool}({inner.removeprefix('./').removeprefix('//')})"
        if not inner.startswith("//")
        else f"{tool}({inner[1:]})"
    )


def _hooks(project: Path) -> Iterator[str]:
    missing: Counter[tuple[str, str]] = Counter()
    for hook in list_hooks(project, ()):
        if hook.state == UNSUPPORTED:
            yield f"{hook.source}: hook {hook.name}: {hook.why}"
            continue
        program = PROGRAM.match(hook.table.command)
        if program and program[1] not in SHELL_WORDS and find_program(program[1]) is None:
            missing[hook.source, program[1]] += 1
    for (source, name), count in missing.items():
        yield f"{source}: {plural(count, 'hook')} cannot run: {name} is not installed"


def _guides(project: Path) -> Iterator[str]:
    """Yield the lines of the guides, those that say the same of several files as one."""
    try:
        lines = check_guides(project)
    except NexusError:
        return
    files: dict[str, list[str]] = {}
    for line in lines:
        where, _, said = line.partition(": ")
        files.setdefault(said, []).append(where.rpartition(":")[0] or where)
    for said, names in files.items():
        yield f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {said}"


def _imports(project: Path) -> Iterator[str]:
    for name in INSTRUCTIONS:
        try:
            found = read_text(project / name)
        except NexusError:
            continue
        is_code = False
        for number, line in enumerate(found.text.splitlines() if found else (), 1):
            is_code ^= line.lstrip().startswith("```")
            for path in IMPORT.findall("" if is_code else line):
                if os.path.isfile(project / os.path.expanduser(path)):
                    yield one_line(f"{name}:{number}: @{path} is not read with it: the model reads the file if needed")
