"""The person's and the project's own guides as slash commands: `/NAME` sends a message that calls one."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.context.sections.skills import COMMAND, SKILL, Skill, find_guides
from nexus_cli.core.elide import one_line
from nexus_cli.session.skill_guides import find_callable


def own_commands(cwd: Path, built_in: Collection[str]) -> dict[str, Command]:
    """Return a command for each guide that the person may call in `cwd` and whose name is not built in; it
    may be an alias. Blocks."""
    return {name: _make_command(guide) for name, guide in find_callable(cwd).items() if name not in built_in}


def describe_taken(cwd: Path, built_in: Collection[str]) -> list[str]:
    """Return a line for each guide whose name a built-in command has. Blocks."""
    found = [one for kind in (SKILL, COMMAND) for one in find_guides(cwd, kind)[0] if one.name in built_in]
    return [f"/{one.name} is built in; ${one.name} in a message calls {one.path}" for one in found if one.is_callable]


def _make_command(guide: Skill) -> Command:
    async def call(context: CommandContext, rest: str) -> None:
        context.start(f"/{guide.name} {rest}".rstrip(), typed=True)

    call.__doc__ = f"{guide.description or guide.kind} ({guide.origin})\n\nRead from {guide.path}."
    hint = one_line(guide.fields.get("argument-hint", ""))[:60] or "[ARGUMENTS]"
    return Command(guide.name, OWN, call, hint, idle=True, is_first=guide.kind == COMMAND)


COMMANDS: tuple[Command, ...] = ()
"""None of its own."""
