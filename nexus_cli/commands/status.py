"""`/status` and `/config`: the state of this session, and the settings with their origins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from nexus_cli.commands.arguments import parse_choice
from nexus_cli.commands.command import Command, CommandContext, always, usage_error
from nexus_cli.commands.help import apply_settings
from nexus_cli.config.paths import defaults_dir, places, project_root, with_tilde
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.setting_rules import RULES
from nexus_cli.config.settings import LoadedSettings, quote_part, shown_value, split_key
from nexus_cli.config.settings_file import write_setting
from nexus_cli.core.limits import name_level
from nexus_cli.reports.hooks import hooks_report
from nexus_cli.reports.tools import tools_report
from nexus_cli.session import capability_snapshot as reports

TOOLS = "tools"


async def show_status(context: CommandContext, rest: str) -> None:
    """Show what this session works with.

    Lists the model, tools, skills, credentials by name, trust of the project, and memory. With `tools`: each tool with
    its effect, the tokens of its schema in every request, and when it asks first. `nexus doctor` finds problems.
    """
    if rest:
        parse_choice("status", rest, (TOOLS,))
        context.show("tools", await asyncio.to_thread(tools_report, context.session.state))
        return
    session, tools = context.session, [tool.name for tool in context.session.tools()]
    value = await asyncio.to_thread(reports.status, session.folder, context.settings, os.environ, tools)
    value["hooks"] = await asyncio.to_thread(hooks_report, session.folder, context.settings.hook)
    probe = await asyncio.to_thread(session.dispatcher.permission.probe_backend)
    level = session.status().allow
    walls = {"sandbox": probe.to_json(), "allow": level, "level": name_level(level)} if probe is not None else {}
    if added := session.dispatcher.permission.added:
        walls["added"] = list(map(str, added))
    context.show("status", value | walls | {"model": session.model})


async def show_config(context: CommandContext, rest: str) -> None:
    """Show the settings, or change one.

    Each is shown with its origin; NAME limits the list to settings that contain it. KEY VALUE writes that setting to
    your config.toml and applies it at once. In a shell `nexus config unset KEY` removes it, and `nexus config edit`
    opens the file.
    """
    key, _, value = rest.partition(" ")
    if value.strip():
        await _change_setting(context, key, _value_of(value))
        return
    loaded = await asyncio.to_thread(_load, context)
    found = [
        {"key": key, "value": shown_value(key, value), "origin": with_tilde(loaded.origins[key])}
        for key, value in loaded.values.items()
        if rest.casefold() in key
    ]
    if not found:
        raise usage_error("config", rest, "no matching setting has a value", "/config lists all")
    path = with_tilde(places().settings)
    context.show("settings", {"version": 1, "settings": found, "path": path})


def _load(context: CommandContext) -> LoadedSettings:
    return load_settings_in(project_root(context.session.folder), places(), defaults_dir(), os.environ)


async def _change_setting(context: CommandContext, key: str, value: str) -> None:
    """Write the setting, and name the layer that overrides it here."""
    await asyncio.to_thread(write_setting, places(), defaults_dir(), key, value)
    path = str(places().settings)
    done = f"Set {key} in {with_tilde(path)}."
    is_running = context.session.engine.control.running
    context.say(f"{done} /reload applies it once the turn has ended." if is_running else done)
    if not is_running:
        await apply_settings(context)
    loaded = await asyncio.to_thread(_load, context)
    name = ".".join(map(quote_part, split_key(key)))
    if (origin := loaded.origins.get(name, path)) != path:
        context.say(f"Here {origin} overrides it: {shown_value(name, loaded.values[name])}")


def _value_of(text: str) -> str:
    """Parse a typed value; also accept the form that `/config` prints: `= "dark"`."""
    value = text.strip().removeprefix("=").strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _complete_key(context: CommandContext) -> Sequence[str]:
    return list(RULES)


COMMANDS = (
    Command(
        "status", "nexus", show_status, f"[{TOOLS}]", complete=lambda context: (TOOLS,), is_first=True, served=always
    ),
    Command(
        "config",
        "nexus",
        show_config,
        "[NAME | KEY VALUE]",
        complete=_complete_key,
        aliases=("settings",),
        served=lambda context, rest: " " not in rest,
    ),
)
