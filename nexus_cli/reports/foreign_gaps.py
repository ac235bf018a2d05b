"""Report, line by line, which files and settings of a project for Claude and other programs nexus does not apply. Runs
nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.foreign_items import (
    RULES,
    SERVERS,
    describe_unread,
    list_rules,
    list_texts,
    list_variables,
)
from nexus_cli.config.programs import find_program
from nexus_cli.config.unsupported import PLACES, find_unsupported, read_settings
from nexus_cli.context.prompt_loader import INSTRUCTION_FILES
from nexus_cli.core.elide import cut_at_word, one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.wire import as_table
from nexus_cli.hooks.hook_list import UNSUPPORTED, list_hooks
from nexus_cli.mcp.server_entries import parse_entry
from nexus_cli.plugins.installed_plugins import installed_plugins
from nexus_cli.plugins.marketplace import find_market
from nexus_cli.reports.skill_check import check_guides, join_lines
from nexus_cli.rules.claude_rules import map_project_rule
from nexus_cli.rules.rule_set import parse_rule
from nexus_cli.sections.instruction_files import BESIDE, instruction_layers
from nexus_cli.tools.registry import rule_tools

KEYS: Mapping[str, str] = {
    "model": "is ignored: a project cannot choose the model",
    "outputStyle": "is ignored: put style instructions in NEXUS.md",
    "statusLine": "is ignored: set your own with `nexus config set ui.status_command COMMAND`",
    "enableAllProjectMcpServers": "is ignored: `nexus trust` approves servers",
    "disabledMcpjsonServers": "is ignored: `nexus trust` approves servers",
    "enabledMcpjsonServers": "is ignored: `nexus trust` approves servers",
    "permissions.additionalDirectories": "is ignored: use `--add-dir DIR`",
    "permissions.defaultMode": "is ignored: choose a level yourself with `--allow LEVEL` or `/permissions`",
}
"""What becomes of keys of Claude's settings."""
APPLIED = ("hooks", "disableAllHooks", "permissions", "env", "$schema", "enabledPlugins", "extraKnownMarketplaces")
PROGRAM = re.compile(r"\s*([\w.+-]+)(?=\s|$)")
"""The program that a line of the shell begins with, by its name alone."""
SHELL_WORDS = frozenset(
    """
    case cd command declare eval exec export for function if let local read set source trap type umask unset until while
    """.split()
)
MOST = 40
"""Most lines."""


def list_gaps(project: Path) -> list[str]:
    """Return a line for each thing, `FILE: WHAT`. Blocks; never raises."""
    gaps = [f"{gap.path}: {PLACES[gap.path][1]}" for gap in find_unsupported(project) if gap.path in PLACES]
    gaps += [*_settings(project), *_hooks(project), *_servers(project), *_instructions(project), *_guides(project)]
    hidden_count = len(gaps) - MOST
    return [
        *gaps[:MOST],
        *(
            [f"{hidden_count} more not shown; `nexus hooks` lists hooks, `nexus skill check` checks guides"]
            if hidden_count > 0
            else []
        ),
    ]


def _settings(project: Path) -> Iterator[str]:
    for name in RULES:
        table = read_settings(project, name)
        if table is None:
            yield f"{name}: unreadable or not valid JSON"
            continue
        for key in table:
            if key not in APPLIED:
                yield one_line(f"{name}: {key} {KEYS.get(key, 'is ignored')}")
        yield from (f"{name}: {line}" for line in _permissions(table.get("permissions")))
        variables = table.get("env")
        set_here = list_variables(variables)
        for variable in as_table(variables):
            if variable not in set_here:
                yield one_line(
                    f"{name}: env {cut_at_word(variable, 100)} is ignored: a project cannot set this variable"
                )
        yield from (f"{name}: enabledPlugins: {line}" for line in _plugins(table.get("enabledPlugins"), project))


def _permissions(table: object) -> Iterator[str]:
    table = as_table(table)
    if allowed := list_texts(table.get("allow")):
        count = plural(len(allowed), "rule")
        yield f"permissions.allow ({count}) is ignored: a project cannot allow calls; use `nexus rules add allow RULE`"
    tools = rule_tools()
    for kind, text in list_rules(table):
        try:
            for ours in map_project_rule(kind, text):
                parse_rule(kind, ours, tools)
        except ValueError as error:
            yield one_line(f"permissions.{kind} {cut_at_word(text, 100)} is not in effect: {error}")
    for key in table:
        if key not in ("allow", "deny", "ask"):
            name = f"permissions.{key}"
            yield one_line(f"{name} {KEYS.get(name, 'is ignored')}")


def _plugins(table: object, project: Path) -> Iterator[str]:
    """Yield a line for each plugin that a project wants and the person does not have."""
    plugins = installed_plugins()
    installed_names = {
        name for plugin in plugins for name in (plugin.name, plugin.update_source.inner)
    }  # a marketplace may call it so
    for plugin_id in (str(plugin_name) for plugin_name, on in as_table(table).items() if on is True):
        plugin, _, market = plugin_id.partition("@")
        if plugin not in installed_names:
            hint = f"; run `nexus plugin add {plugin_id}`" if find_market(market, project) else ""
            yield one_line(f"{cut_at_word(plugin_id, 100)} is not installed{hint}")


def _hooks(project: Path) -> Iterator[str]:
    missing: Counter[tuple[str, str]] = Counter()
    for hook in list_hooks(project, ()):
        if hook.state == UNSUPPORTED:
            yield f"{hook.source}: {f'hook {hook.name}: ' if hook.name else ''}{hook.why}"
            continue
        program = PROGRAM.match(hook.table.command)
        if program and program[1] not in SHELL_WORDS and find_program(program[1]) is None:
            missing[hook.source, program[1]] += 1
    for (source, name), count in missing.items():
        yield f"{source}: {plural(count, 'hook')} cannot run: {name} was not found"


def _instructions(project: Path) -> Iterator[str]:
    """Yield a line for the files that NEXUS.md takes the place of, but for those that it imports."""
    own = project / INSTRUCTION_FILES[0]
    if own.is_file():
        read = {os.path.realpath(layer.path) for layer in instruction_layers(project) if layer.path}
        names = (*INSTRUCTION_FILES[1:], *BESIDE)
        unread = [name for name in names if (project / name).is_file() and os.path.realpath(project / name) not in read]
        if unread:
            yield f"{', '.join(unread)}: not read, because of {own.name}; to import a file, write @{unread[0]} there"


def _servers(project: Path) -> Iterator[str]:
    """Yield a line for each server that is skipped, and for keys of its entry that nexus does not read."""
    for file, key in SERVERS.items():
        for name, entry in as_table((read_settings(project, file) or {}).get(key)).items():
            try:
                parse_entry(name, entry, os.environ, "project", file, project)
                problem = describe_unread(entry)
            except ValueError as error:
                problem = f"skipped: {error}"
            if problem:
                yield one_line(f"{file}: server {cut_at_word(name, 100)}: {problem}")


def _guides(project: Path) -> Iterator[str]:
    with suppress(NexusError):
        yield from join_lines(check_guides(project))
