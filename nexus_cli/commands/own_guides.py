"""The person's and the project's own guides as slash commands: `/NAME` sends a message that calls one."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

from nexus_cli.commands import discover as list_commands
from nexus_cli.commands.arguments import resume_options
from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.commands.model import describe_cache_miss
from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.core.effort import DEFAULT_EFFORT
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.calls.edit_checks import plugin_checks
from nexus_cli.guides.guide_model import GuideModel
from nexus_cli.guides.skills import GuideKind, Skill, find_callable, find_guides
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.mcp.server_values import ServerEntry
from nexus_cli.plugins.python_plugins import admit_objects, describe_error
from nexus_cli.reports.text.lines import join_names
from nexus_cli.sections.contributor import discover as list_contributors
from nexus_cli.tools.registry import plugin_tools

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")


def own_commands(cwd: Path, built_in: Collection[str]) -> dict[str, Command]:
    """Return the commands of Python plugins, and those of `message_commands` with other names. Blocks."""
    commands = plugin_commands(built_in)
    return commands | message_commands(cwd, {*built_in, *commands})


def message_commands(cwd: Path, built_in: Collection[str], servers: Iterable[ServerEntry] = ()) -> dict[str, Command]:
    """Return a command that sends a message for each guide that the person may call in `cwd` whose name is not built
    in (that of a plugin is `PLUGIN:NAME` then), and for each prompt that an MCP server has listed, `servers` of an
    editor too. Blocks; starts no server."""
    prompts = Catalogue.read(cwd, servers).prompts() if servers or may_have_servers(cwd) else {}
    guides = find_callable(cwd)
    second = {
        skill.whole_name for skill in guides.values() if skill.whole_name != skill.name and skill.name not in built_in
    }
    return {
        name: make_typed_command(
            name, prompt.usage, f"{one_line(prompt.description)[:200] or 'prompt'} (MCP server {server})"
        )
        for name, (server, prompt) in prompts.items()
    } | {
        name: _make_command(guide, name)
        for name, guide in guides.items()
        if name not in built_in and not (name in second and name != guide.name)
    }


def plugin_commands(built_in: Collection[str]) -> dict[str, Command]:
    """Return the commands of Python plugins; none has a name or alias that is `built_in`."""
    admitted = admit_objects("commands", _is_valid, attrgetter("names"), built_in)
    return {name: _guard_command(command, plugin.entry.name) for name, (command, plugin) in admitted.items()}


def admit_plugins() -> None:
    """Compare the names of all objects of Python plugins with ours, to find out which objects are left out."""
    list_contributors()
    plugin_tools()
    plugin_checks()
    plugin_commands({name for command in list_commands().values() for name in command.names})


def _is_valid(command: Any) -> bool:
    if not isinstance(command, Command) or not inspect.iscoroutinefunction(command.run):
        return False
    return bool(command.summary) and all(_NAME.fullmatch(name) for name in command.names)


def _guard_command(command: Command, plugin: str) -> Command:
    """Return a command of a plugin that names it in its help, and in the error if it fails."""

    async def call(context: CommandContext, arguments: str) -> None:
        try:
            await command.run(context, arguments)
        except NexusError:
            raise
        except Exception as error:  # foreign code may raise anything
            why = f"plugin {plugin} {describe_error(error)}"
            raise NexusError(
                "internal", f"/{command.name}", why, "To start without plugins: nexus --no-plugins"
            ) from error

    text, _, more = command.help.partition("\n")
    call.__doc__ = f"{text.removesuffix('.')} (plugin {plugin}).\n{more}"
    return Command(
        command.name, OWN, call, command.usage, command.idle, aliases=command.aliases, is_first=command.is_first
    )


def describe_shadowed(cwd: Path, built_in: Collection[str]) -> str:
    """Return a line that names the guides whose name a built-in command has, "" for none. Blocks."""
    kinds = (GuideKind.SKILL, GuideKind.COMMAND)
    guides = [guide for kind in kinds for guide in find_guides(cwd, kind)[0] if guide.name in built_in]
    calls = {
        guide.name: f"/{guide.whole_name}" if guide.plugin else f"${guide.name}"
        for guide in guides
        if guide.is_callable
    }
    if not calls:
        return ""
    names, verb = join_names([f"/{name}" for name in calls]), "is" if len(calls) == 1 else "are"
    return f"{names} {verb} built in; to use your own, type {join_names([*calls.values()])}"


def make_typed_command(name: str, usage: str, text: str) -> Command:
    """Return a command that sends what the person typed, with `text` as its help."""

    async def call(context: CommandContext, arguments: str) -> None:
        context.start(f"/{name} {arguments}".rstrip(), typed=True)

    call.__doc__ = text
    return Command(name, OWN, call, usage, idle=True)


def _make_command(guide: Skill, name: str) -> Command:
    async def call(context: CommandContext, arguments: str) -> None:
        after = await _use_model(context, guide) if {"model", "effort"} & set(guide.fields) else None
        context.start(f"/{name} {arguments}".rstrip(), typed=True, after=after)

    call.__doc__ = f"{guide.description or guide.kind} ({guide.shown_origin})\n\nRead from {guide.path}."
    hint = one_line(guide.fields.get("argument-hint", ""))[:60] or "[ARGUMENTS]"
    return Command(name, OWN, call, hint, idle=True, is_first=guide.kind == GuideKind.COMMAND)


async def _use_model(context: CommandContext, guide: Skill) -> Callable[[], Awaitable[None]] | None:
    """Switch to the model and effort that a guide asks for, and say what that costs; return how to switch back, None if
    nothing was switched. What cannot be applied is named with the turn."""
    model, effort = context.session.model, context.session.status().effort
    guide_model = await asyncio.to_thread(GuideModel.read, guide, model, context.settings)
    if not guide_model.differs_from(model, effort):
        return None
    before = {"model": model, "effort": effort or DEFAULT_EFFORT}
    await context.reopen(
        resume_options(context, model=guide_model.model or model, effort=guide_model.effort or before["effort"])
    )
    info = context.session.engine.model.info
    price = ""
    if info.input_price is not None:
        price = f" Price: ${info.input_price:g} in / ${info.output_price:g} out per million tokens."
    missed = await describe_cache_miss(context)
    context.say(f"Using {guide_model} for /{guide.name}, then {model} again.{price} {missed}".rstrip())

    async def switch_back() -> None:
        if (context.session.model, context.session.status().effort) != (model, effort):
            await context.reopen(resume_options(context, **before))
            context.say(f"Using {model} again. {await describe_cache_miss(context)}".rstrip())

    return switch_back
