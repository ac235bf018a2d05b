"""Report plugins: what each contains, what it would run, and which items are in effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from nexus_cli.config.foreign_items import PARENT_PREFIX, PLUGIN_ROOT
from nexus_cli.config.trust import part_text
from nexus_cli.core.elide import one_line
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.guides.skills import GuideKind, find_guides
from nexus_cli.hooks.hook_list import CHANGED, list_plugin_hooks
from nexus_cli.mcp.server_entries import read_servers
from nexus_cli.plugins.installed_plugins import InstalledPlugin, ItemState
from nexus_cli.plugins.plugin_folder import PluginFolder
from nexus_cli.plugins.python_plugins import PythonPlugin
from nexus_cli.reports.skill_check import check_files, join_lines
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, paragraphs
from nexus_cli.reports.trust import describe_item, diff_parts
from nexus_cli.sections.find_recipe import find_all_agents

NONE = "No plugins. In a shell, add a plugin with `nexus plugin add PATH` or `nexus plugin add OWNER/REPO[:PLUGIN]`"
STATES: Mapping[str, str] = {
    "active": "",
    "off": "not accepted",
    "changed": "changed, not in effect",
    "new": "new",
    "removed": "removed",
}


class PluginItem(TypedDict):
    """A skill, command, agent, hook or server of a plugin."""

    kind: Literal["skill", "command", "agent", "hook", "server"]
    name: str
    what: str
    """What a guide permits and runs, or the entry of a server; for a hook, `name` has the command."""
    state: ItemState
    """`active`: accepted, and in effect unless it has a `problem`. `off`: not accepted. `changed`, `new`, `removed`:
    different from what was accepted; not in effect."""
    problem: str
    """Why it would have no effect in this folder, accepted or not; else ""."""


class PluginObject(TypedDict):
    """A plugin folder."""

    name: str
    version: str
    description: str
    source: str
    """PATH, or REPOSITORY@COMMIT[:FOLDER]."""
    path: str
    """The folder of the installed copy."""
    problem: str
    """The reason why the plugin is inactive, or the items that are off because they changed; else ""."""
    items: list[PluginItem]
    left_out: list[str]
    """Content that nexus does not support or cannot read."""


class PythonPluginObject(TypedDict):
    name: str
    package: str
    """Name and version of its package."""
    adds: list[str]
    """Kind and name of each addition."""
    problems: list[str]
    """The ignored parts, with the reason."""


class PluginsReport(VersionedReport):
    """Plugins with their items."""

    plugins: list[PluginObject]
    python: NotRequired[list[PythonPluginObject]]
    """Of `list`: the packages with an entry point `nexus.plugins`."""
    diff: NotRequired[str]
    """Of `update`: the changes of files since the installed copy."""


def find_problems(plugins: Sequence[InstalledPlugin], cwd: Path) -> dict[str, dict[str, str]]:
    """Return the reasons that accepted items of plugins have no effect in `cwd`, by plugin and key, as the readers of a
    session find it; "" for those that have. Blocks."""
    guides = [guide for kind in (GuideKind.SKILL, GuideKind.COMMAND) for guide in find_guides(cwd, kind, plugins)[0]]
    guides += find_all_agents(cwd, plugins)[0]
    hidden = {(str(guide.kind), guide.path): guide.problem or "its name is taken" * guide.shadowed for guide in guides}
    servers = read_servers(cwd, plugins=plugins)
    by_plugin: dict[str, dict[str, str]] = {}
    for plugin in plugins:
        problems = {hook.item: hook.why for hook in list_plugin_hooks(plugin) if hook.state != CHANGED}
        for item, _ in plugin.items(*GuideKind):
            problems[item.key] = hidden.get((item.kind, one_line(str(plugin.root / item.file))), "")
        for item, state in plugin.items("server"):
            if state == "active":
                problems[item.key] = servers.explain_missing(plugin.name, item.name)
        by_plugin[plugin.name] = problems
    return by_plugin


def installed_object(plugin: InstalledPlugin, problems: Mapping[str, str]) -> PluginObject:
    """Return an installed plugin with the states of its items, and the `problems` of them by key."""
    states = {item.key: state for item, state in plugin.items("skill", "command", "agent", "hook", "server")}
    states |= {key: "removed" for key in plugin.accepted if key not in states}
    installed = plugin_object(plugin.folder, plugin.source.text, states, problems, plugin)
    return {**installed, "name": plugin.name, "problem": plugin.describe_change()}


def plugin_object(
    folder: PluginFolder | None,
    source: str,
    states: Mapping[str, ItemState],
    problems: Mapping[str, str],
    installed: InstalledPlugin | None = None,
) -> PluginObject:
    """Return the plugin in `folder` with these states and problems of its items, by key."""
    rows: list[PluginItem] = []
    for key, state in states.items():
        item = folder.items.get(key) if folder else None
        kind, _, name = key.partition(" ")
        description = describe_item(item) if item else ""
        row = {"kind": kind, "name": name, "what": description, "state": state, "problem": problems.get(key, "")}
        rows.append(row)  # type: ignore[arg-type]
    return {
        "name": folder.name if folder else "",
        "version": folder.version if folder else "",
        "description": folder.description if folder else "",
        "source": source,
        "path": str(installed.root) if installed else "",
        "problem": "",
        "items": rows,
        "left_out": [*folder.left_out, *_check_guides(folder)] if folder else [],
    }


def _check_guides(folder: PluginFolder) -> Iterator[str]:
    """Yield a line for each thing that the guides of a plugin use and nexus lacks; their own folder is filled in."""
    paths = [folder.root / item.file for item in folder.items.values() if item.kind in (*GuideKind,)]
    return join_lines(line for line in check_files(folder.root, paths) if PLUGIN_ROOT not in line)


def python_object(plugin: PythonPlugin) -> PythonPluginObject:
    """Return a Python plugin with what it adds."""
    adds = [f"{kind[:-1]} {_name(added)}" for kind, objects in plugin.objects.items() for added in objects]
    adds += [hook for hook in ("nexus_recall", "nexus_tool_line") if plugin.has(hook)]
    return {
        "name": plugin.entry.name,
        "package": plugin.entry.package,
        "adds": list(map(one_line, adds)),
        "problems": list(plugin.problems),
    }


def _name(added: object) -> str:
    return str(next((getattr(added, key) for key in ("name", "id") if hasattr(added, key)), type(added).__name__))


def compare_files(before: PluginFolder | None, now: PluginFolder) -> str:
    """Return the difference of all files as a unified diff; of binary and large files a line."""
    old = {PARENT_PREFIX + name: part_text(data) for name, data in before.files.items()} if before else {}
    return diff_parts(old, {PARENT_PREFIX + name: part_text(data) for name, data in now.files.items()})


def plugins_text(value: JsonObject) -> Blocks:
    """List each plugin with its items; `numbers` by which a person chooses stand before theirs."""
    numbers = value.get("numbers", {})
    if not value["plugins"] and not value.get("python"):
        yield NONE
        return
    for place, plugin in enumerate(value["plugins"]):
        if place:
            yield ""
        yield Paragraph(f"{plugin['name']} {plugin['version']}", "  ")
        origin = filter(None, (plugin["description"], f"from {plugin['source']}"))
        yield from paragraphs(origin, "  ", "  ")
        for item in plugin["items"]:
            is_first = item["state"] == "new" and not value.get("diff")
            state = f" [{STATES[item['state']]}]" if STATES[item["state"]] and not is_first else ""
            description = f": {item['what']}" if item["what"] else ""
            key = f"{item['kind']} {item['name']}"
            mark = f"{numbers[key]:>2} " if key in numbers else "  "
            problem = f" [no effect: {item['problem']}]" if item["problem"] else ""
            yield Paragraph(f"{key}{description}{state}{problem}", " " * 6, mark)
        yield from paragraphs((f"skipped: {omission}" for omission in plugin["left_out"]), " " * 6, "  ")
        if plugin["problem"]:
            yield Paragraph(plugin["problem"], "  ", "  ")
    for place, plugin in enumerate(value.get("python", ()), len(value["plugins"])):
        if place:
            yield ""
        yield Paragraph(f"{plugin['name']} (Python, {plugin['package']})", "  ")
        yield from paragraphs((*plugin["adds"], *plugin["problems"]), " " * 6, "  ")
    yield Verbatim(value.get("diff", ""), "  ")
