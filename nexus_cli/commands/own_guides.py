"""The person's and the project's own guides as slash commands: `/NAME` sends a message that calls one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from pathlib import Path
from typing import Any

from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.context.sections.skills import COMMAND, SKILL, Skill, find_guides
from nexus_cli.core.elide import one_line
from nexus_cli.mcp.server_tools import Catalogue, describe_arguments
from nexus_cli.mcp.server_values import ServerEntry, ServerPrompt
from nexus_cli.session.skill_guides import find_callable


def own_commands(cwd: Path, built_in: Collection[str], servers: Iterable[ServerEntry] = ()) -> dict[str, Command]:
    """Return a command for each guide that the person may call in `cwd` and whose name is not built in (it may be an
    alias), and for each prompt that an MCP server has listed, `servers` of an editor too. Blocks; starts no
    server."""
    found = {name: _make_command(guide) for name, guide in find_callable(cwd).items() if name not in built_in}
    prompts = Catalogue.read(cwd, servers).prompts() if servers or may_have_servers(cwd) else {}
    return {**{name: _make_prompt(name, *prompt) for name, prompt in prompts.items()}, **found}


def describe_taken(cwd: Path, built_in: Collection[str]) -> list[str]:
    """Return a line for each guide whose name a built-in command has. Blocks."""
    found = [one for kind in (SKILL, COMMAND) for one in find_guides(cwd, kind)[0] if one.name in built_in]
    return [f"/{one.name} is built in; ${one.name} in a message calls {one.path}" for one in found if one.is_callable]


def _make_prompt(name: str, server: str, prompt: ServerPrompt) -> Command:
    call = _make_call(name)
    call.__doc__ = f"{one_line(prompt.description)[:200] or 'prompt'} (MCP server {server})"
    return Command(name, OWN, call, describe_arguments(prompt), idle=True)


def _make_call(name: str) -> Callable[[CommandContext, str], Coroutine[Any, Any, None]]:
    async def call(context: CommandContext, rest: str) -> None:
        context.start(f"/{name} {rest}".rstrip(), typed=True)

    return call


def _make_command(guide: Skill) -> Command:
    call = _make_call(guide.name)
    call.__doc__ = f"{guide.description or guide.kind} ({guide.origin})\n\nRead from {guide.path}."
    hint = one_line(guide.fields.get("argument-hint", ""))[:60] or "[ARGUMENTS]"
    return Command(guide.name, OWN, call, hint, idle=True, is_first=guide.kind == COMMAND)


COMMANDS: tuple[Command, ...] = ()
"""None of its own."""
