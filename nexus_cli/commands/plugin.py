"""Plugins: skills, commands, hooks and servers that others made. A shell command adds and updates them."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, report_act
from nexus_cli.core.option import Argument

Name = Annotated[str, Argument("NAME", "The plugin's name.")]


def build_list(source: Source) -> Report[Annotated[Any, "reports.plugins.PluginsReport"]]:
    """List plugin folders with their items and state, and Python plugins."""
    from nexus_cli.commands.own_guides import admit_plugins  # noqa: PLC0415  (few people have plugins)
    from nexus_cli.plugins.installed_plugins import installed_plugins  # noqa: PLC0415
    from nexus_cli.plugins.python_plugins import python_plugins  # noqa: PLC0415
    from nexus_cli.reports.plugins import find_problems, installed_object, python_object  # noqa: PLC0415

    admit_plugins()
    installed = installed_plugins()
    problems = find_problems(installed, source.folder()) if installed else {}
    plugins = [installed_object(plugin, problems[plugin.name]) for plugin in installed]
    return Report(
        "plugins", {"version": 1, "plugins": plugins, "python": [python_object(plugin) for plugin in python_plugins()]}
    )


def remove(source: Source, name: Name) -> Act:
    """Remove a plugin and its accepted items."""
    from nexus_cli.plugins.installed_plugins import find_plugin  # noqa: PLC0415
    from nexus_cli.plugins.store_plugin import remove_plugin  # noqa: PLC0415

    find_plugin(name)
    remove_plugin(name)
    return report_act(f"plugin {name} was removed.", name)


NOUN = Noun(
    "plugin",
    "setup",
    (
        Verb(build_list, "list", opens="nothing"),
        Verb(remove, "remove", Authority.PERMITS, "nothing"),
    ),
    "Manage plugins: skills, hooks and servers.",
    in_shell=("add", "update"),
    aliases=("plugins", "extensions"),
)
