"""Find the trusted skills, commands, hooks, servers and rules of a folder's project, and say which wait for trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from nexus_cli.config.foreign_items import KINDS, PARENT_PREFIX
from nexus_cli.config.paths import project_root
from nexus_cli.config.trust import Configuration, read_configuration, trusted_configuration, trusted_items
from nexus_cli.core.elide import join_with_and, plural
from nexus_cli.core.shared_types import Paths

NOUNS = {
    "skill": "skill",
    "command": "command",
    "agent": "agent",
    "hook": "hook",
    "server": "MCP server",
    "rule": "rule",
    "variable": "variable",
}
"""Kinds of items beside `.nexus`, with their names for people."""


def project_folders(cwd: Path) -> Paths:
    """Return the folders whose configuration counts in `cwd`: the project's root, and those below it down to `cwd`."""
    root = project_root(cwd)
    return (root, *folders_between(root, cwd))


def folders_between(root: Path, cwd: Path) -> Paths:
    """Return the folders below `root` down to `cwd`."""
    below = [folder for folder in (cwd, *cwd.parents) if folder != root and folder.is_relative_to(root)]
    return tuple(reversed(below))


def trusted_folders(cwd: Path, beside: Collection[str]) -> Iterator[tuple[Path, Configuration]]:
    """Yield each of `project_folders` that has trusted items, with these: all in `.nexus`, and those of the kinds
    `beside` next to it."""
    for folder in project_folders(cwd):
        configuration = read_configuration(folder, beside)
        in_force = trusted_configuration(folder, configuration)
        if in_force.items:
            yield folder, in_force


def trusted_variables(cwd: Path) -> dict[str, str]:
    """Return the variables that trusted settings of Claude set for commands in `cwd`. Blocks."""
    items = (item for _, trusted in trusted_folders(cwd, ("variable",)) for item in trusted.items.values())
    pairs = (item.definition.partition("=") for item in items if item.kind == "variable")
    return {name: value for name, _, value in pairs}


def describe_waiting(project: Path, own: Collection[str] = ()) -> str:
    """Return a line such as `Not active in this project: 3 skills and 1 hook (see ...)`, "" if it has
    none beside `.nexus` that waits for trust, nor of the kinds `own` in it."""
    configuration = read_configuration(project, KINDS)
    in_force = trusted_items(project, configuration)
    waiting = Counter(
        item.kind
        for key, item in configuration.items.items()
        if key not in in_force and (item.kind in own or any(name.startswith(PARENT_PREFIX) for name in item.parts))
    )
    counts = [plural(count, noun) for kind, noun in NOUNS.items() if (count := waiting[kind])]
    return f"Not active in this project: {join_with_and(counts)} (see `nexus trust`)" if counts else ""
