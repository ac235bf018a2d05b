"""Read a marketplace: `.claude-plugin/marketplace.json` of a folder, which names plugins and where they are.

The form is that of Claude Code. An entry may describe its plugin by itself, in place of a plugin.json.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.foreign_items import RULES, read_json
from nexus_cli.config.paths import home_folder, project_root
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import join_path, read_regular
from nexus_cli.core.wire import as_table
from nexus_cli.plugins.installed_plugins import PluginSource

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
FILE = ".claude-plugin/marketplace.json"
MAX_BYTES = 4 << 20
"""Most bytes of a marketplace's file."""
OFFICIAL = "claude-plugins-official"
"""The marketplace that Claude Code knows by itself: no settings give its name to another one."""
MAX_NAMED = 40
"""Most plugins that an error names."""


@dataclass(frozen=True, slots=True)
class MarketPlugin:
    """A plugin that a marketplace names."""

    source: PluginSource
    """Where it is; its `place` is "" for a folder of the marketplace itself."""
    manifest: JsonObject
    """The entry, which adds to the plugin.json."""


def find_market_plugin(folder: Path, name: str, *, is_folder: bool) -> MarketPlugin | None:
    """Return the plugin `name` of the marketplace in a folder, the only one for ""; None if the folder is none.

    Raises `NexusError`: `usage` with the names if there is no such plugin, and `name` is no folder (`is_folder`) with
    one; `config` if the entry cannot be used.
    """
    try:
        value = as_table(read_json(read_regular(folder / FILE, MAX_BYTES)))
    except OSError:
        return None
    rows = value.get("plugins")
    if not isinstance(rows, list):
        if is_folder:
            return None
        raise NexusError("config", one_line(str(folder / FILE)), "is not a JSON object with a list of plugins")
    plugins_by_name = {
        str(row["name"]): row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)
    }
    only = len(plugins_by_name) == 1 and not (name or is_folder)
    chosen = plugins_by_name.get(name) or (next(iter(plugins_by_name.values())) if only else None)
    if chosen is None:
        if is_folder:
            return None
        choices = (
            f"Add SOURCE:PLUGIN with one of these plugins: {one_line(name_first(sorted(plugins_by_name), MAX_NAMED))}"
            if plugins_by_name
            else "The marketplace has no plugins"
        )
        hint = f"{suggest_name(name, plugins_by_name, '')} {choices}".lstrip()
        what = f"plugin {one_line(name)[:80]!r}" if name else "no plugin was specified"
        why = "there is no such plugin in the marketplace" if name else "the source is a marketplace"
        raise UsageError(what, why, hint)
    return MarketPlugin(_read_place(str(chosen["name"]), chosen.get("source"), value), chosen)


def _read_place(name: str, source: object, market: JsonObject) -> PluginSource:
    """Return the source of an entry's plugin, in the forms of Claude Code."""
    if isinstance(source, str):
        inner = join_path(str(as_table(market.get("metadata")).get("pluginRoot") or ""), source)
        if not inner.startswith(("/", "..")):
            return PluginSource("", inner="" if inner == "." else inner)
    if place := read_repository(as_table(source)):
        return place
    why = f"the marketplace lists no usable source for this plugin ({one_line(str(source))[:200]})"
    raise NexusError("config", f"plugin {one_line(name)[:80]}", why, "Add its folder or repository directly")


def read_repository(source: JsonObject) -> PluginSource | None:
    """Return the repository that a `source` object names: `github` with `repo`, `url` or `git-subdir` with `url`."""
    kind, repo, url = source.get("source"), source.get("repo"), source.get("url")
    place = github_address(repo) if kind == "github" and isinstance(repo, str) else url
    if kind not in ("github", "url", "git", "git-subdir") or not isinstance(place, str) or place.startswith("-"):
        return None
    commit, ref, inner = (str(source.get(key) or "") for key in ("sha", "ref", "path"))
    inner = os.path.normpath(inner) if inner else ""
    if inner.startswith(("/", "..")) or (commit and not COMMIT.fullmatch(commit)):  # a branch moves, a part is no pin
        return None
    return PluginSource(place, commit, inner, ref or "HEAD")


def github_address(repository: str) -> str:
    """Return the address of `OWNER/REPO`."""
    return f"https://github.com/{repository}"


def find_market(name: str, cwd: Path) -> PluginSource | None:
    """Return the repository or folder of a marketplace: the official one of Claude Code, or one that its settings in
    `cwd` or of the person, or its own list, name; None if no one does."""
    if name == OFFICIAL:
        return PluginSource(github_address(f"anthropics/{OFFICIAL}"), ref="HEAD")
    home = Path(home_folder(), ".claude")
    theirs = (project_root(cwd) / file for file in RULES)
    for path in (*theirs, home / "settings.json", home / "plugins/known_marketplaces.json"):
        for market_name, place in _list_markets(path):
            if market_name == name:
                return place
    return None


def _list_markets(path: Path) -> Iterator[tuple[str, PluginSource]]:
    try:
        value = as_table(read_json(read_regular(path, MAX_BYTES)))
    except OSError:
        return
    for name, entry in as_table(value.get("extraKnownMarketplaces", value)).items():
        source = as_table(as_table(entry).get("source"))
        if source.get("source") in ("directory", "file") and source.get("path"):
            yield name, PluginSource(os.path.join(path.parent.parent, os.path.expanduser(str(source["path"]))))
        elif place := read_repository(source):
            yield name, place
