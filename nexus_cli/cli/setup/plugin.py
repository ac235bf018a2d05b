"""`nexus plugin add | update`: the person accepts each item of a plugin. `commands/plugin.py` has the other verbs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.cli.confirm import choose_several
from nexus_cli.commands.plugin import Name
from nexus_cli.commands.verb import Authority, Report, Source, Verb
from nexus_cli.config.trust_items import TrustItem
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.option import Argument, Option
from nexus_cli.plugins.installed_plugins import InstalledPlugin, ItemState, PluginSource, find_plugin, installed_plugins
from nexus_cli.plugins.plugin_folder import PluginFolder, read_plugin
from nexus_cli.plugins.plugin_source import open_source, parse_source
from nexus_cli.plugins.store_plugin import store_plugin
from nexus_cli.reports.plugins import (
    PluginObject,
    PluginsReport,
    compare_files,
    find_problems,
    installed_object,
    plugin_object,
)

All = Annotated[bool, Option(None, "Accept every item without asking.", "--all")]
Yes = Annotated[list[str] | None, Option("ITEM", "Accept items whose kind and name start with ITEM; repeatable.")]


def add(
    source: Source,
    place: Annotated[
        str,
        Argument(
            "SOURCE",
            "PATH, OWNER/REPO[:PLUGIN], REPOSITORY[@REF][:FOLDER] or PLUGIN@MARKETPLACE.",
            least=0,
        ),
    ],
    accept_all: All = False,
    yes: Yes = None,
) -> Report[Annotated[Any, PluginsReport]]:
    """Copy a plugin folder and choose which of its items to accept. Adding runs no code of the plugin.

    A branch or tag is resolved to its commit. Accepted items are pinned: an item that changes later is inactive.

    nexus plugin add ~/src/hookify

    nexus plugin add --all obra/superpowers@v4.0.0
    """
    named_source = parse_source(place, Path.cwd())
    with open_source(named_source) as opened:
        plugin = read_plugin(opened.folder, listed=opened.manifest)
        if any(installed_plugin.name == plugin.name for installed_plugin in installed_plugins()):
            hint = f"To update: nexus plugin update {plugin.name}. To remove: nexus plugin remove {plugin.name}"
            raise UsageError(f"plugin {plugin.name}", "a plugin with this name is installed", hint)
        return _accept(source, plugin, opened.source, named_source, None, accept_all, yes or ())


def update(
    source: Source,
    name: Name,
    place: Annotated[str, Argument("[SOURCE]", "Another folder or repository, branch, tag or commit.", least=0)] = "",
    accept_all: All = False,
    yes: Yes = None,
) -> Report[Annotated[Any, PluginsReport]]:
    """Update a plugin: copy its folder again, show the differences, and ask about each inactive item.

    Without SOURCE, nexus resolves the plugin's branch or tag again. A plugin that was added from a
    commit keeps that commit until you name another one.
    """
    installed = find_plugin(name)
    installed_source = installed.source
    if place and installed_source.commit and "@" not in place and not os.path.isdir(place):
        place = replace(installed_source, commit=place).text
    chosen = parse_source(place, Path.cwd()) if place else installed.update_source
    with open_source(chosen) as opened:
        plugin = read_plugin(opened.folder, listed=opened.manifest)
        if plugin.name != name:
            why = f"the plugin in this source is called {plugin.name}"
            raise UsageError(f"plugin {name}", why, f"Run: nexus plugin add {one_line(chosen.text)}")
        return _accept(source, plugin, opened.source, chosen, installed, accept_all, yes or ())


def _accept(
    source: Source,
    plugin: PluginFolder,
    place: PluginSource,
    named_source: PluginSource,
    before: InstalledPlugin | None,
    accept_all: bool,
    yes: Sequence[str],
) -> Report[Any]:
    """Show the plugin, ask for its items, and store it with those that are accepted."""
    if not plugin.items:
        raise NexusError(
            "config", f"plugin {plugin.name}", "contains no skills, commands, agents, hooks or servers", ""
        )
    diff = compare_files(before.folder, plugin) if before else ""
    states = {key: _compare(item, before) for key, item in plugin.items.items()}
    problems = _find_ineffective_items(plugin, source.folder())
    active_keys = [key for key, state in states.items() if state == "active"]
    is_same = before is not None and (place, named_source) == (before.source, before.update_source)
    if before and is_same and not diff and not before.changed and len(active_keys) == len(states):
        pinned = f" It is pinned to a commit; to use a newer commit: nexus plugin update {plugin.name} BRANCH"
        source.say(f"{plugin.name} has not changed since you accepted it.{pinned if named_source.commit else ''}")
    else:
        asking = [key for key in states if key not in active_keys]
        plugin_value = plugin_object(plugin, place.text, states, problems)
        chosen = _choose(source, plugin_value, asking, diff, accept_all, yes)
        if not [*active_keys, *chosen]:
            source.say("nothing was accepted, so nothing was changed.")
            return Report("", {"version": 1, "plugins": []})
        store_plugin(plugin, place, [*active_keys, *chosen], named_source, is_new=before is None)
        count = sum(not problems[key] for key in (*active_keys, *chosen))
        source.say(f"{plugin.name} is installed; {count} of {plural(len(states), 'item')} in effect.")
    value = {"version": 1, "plugins": [installed_object(find_plugin(plugin.name), problems)]}
    return Report("", value | ({"diff": diff} if before else {}))


def _find_ineffective_items(plugin: PluginFolder, cwd: Path) -> dict[str, str]:
    """Return the reasons that items of a plugin would have no effect in `cwd`, by key, if all of them were accepted."""
    hashes = {key: item.sha256 for key, item in plugin.items.items()}
    other_plugins = [
        installed_plugin for installed_plugin in installed_plugins() if installed_plugin.name != plugin.name
    ]
    candidate = InstalledPlugin(plugin.name, PluginSource(""), hashes, plugin)
    plugins = sorted([*other_plugins, candidate], key=lambda installed_plugin: installed_plugin.name)
    return find_problems(plugins, cwd)[plugin.name]


def _compare(item: TrustItem, before: InstalledPlugin | None) -> ItemState:
    """Return the state of an item of a source against what was accepted of it."""
    state = before.state(item) if before else "off"
    is_known = before and before.folder and item.key in before.folder.items
    return "new" if state == "off" and not is_known else state


def _choose(
    source: Source,
    plugin_value: PluginObject,
    asking: Sequence[str],
    diff: str,
    accept_all: bool,
    yes: Sequence[str],
) -> list[str]:
    """Show the plugin, and return the keys of the items in `asking` that the person accepts."""
    states = {f"{item['kind']} {item['name']}": item["state"] for item in plugin_value["items"]}
    value: JsonDict = {"version": 1, "plugins": [plugin_value], "diff": diff}
    if source.confirm and len(asking) > 1 and not (accept_all or yes):
        value["numbers"] = {key: number for number, key in enumerate(asking, 1)}
    if not source.is_json or (source.confirm and not (accept_all or yes)):
        source.show(Report("plugins", value))
    if accept_all:
        return list(asking)
    if yes:
        for text in yes:
            if not text.strip() or not any(key.startswith(text) for key in states):
                raise UsageError(f"--yes {one_line(text)}", "no item starts with this text", f"Items: {_names(states)}")
        return [key for key in asking if any(key.startswith(text) for text in yes)]
    if not asking:
        return []
    if source.confirm is None:
        why = "the items need your approval, but stdin is not a terminal"
        hint = f"Accept items with --yes ITEM or --all; items: {_names(asking)}"
        failed = "was not updated" if diff or "new" not in states.values() else "was not installed"
        raise UsageError(f"plugin {plugin_value['name']} {failed}", why, hint)
    if len(asking) == 1:
        return [key for key in asking if source.confirm(f"Accept {one_line(key)[:200]}?")]
    return [asking[place] for place in choose_several("Accept which?", len(asking))]


def _names(keys: Mapping[str, object] | Sequence[str]) -> str:
    return one_line("; ".join(keys))[:400]


VERBS = (
    Verb(add, "add", Authority.PERMITS, "nothing"),
    Verb(update, "update", Authority.PERMITS, "nothing"),
)
