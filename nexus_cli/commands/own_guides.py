"""The person's and the project's own guides as slash commands: `/NAME` sends a message that calls one."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.context.sections.skills import COMMAND, SKILL, Skill, find_guides
from nexus_cli.core.elide import one_line
from nexus_cli.session.skill_guides import find_callable


def own_commands(cwd: Path, built_in: Collection[str]) -> dict[str, Command]:
    """Return a command for each guide that the person may call in `cwd` and whose name is not built in; that of a
    plugin is `PLUGIN:NAME` then. Blocks."""
    found = find_callable(cwd)
    second = {one.whole_name for one in found.values() if one.whole_name != one.name and one.name not in built_in}
    return {
        name: _make_command(guide, name)
        for name, guide in found.items()
        if name not in built_in and not (name in second and name != guide.name)
    }


def describe_taken(cwd: Path, built_in: Collection[str]) -> list[str]:
    """Return a line for each guide whose name a built-in command has. Blocks."""
    found = [one for kind in (SKILL, COMMAND) for one in find_guides(cwd, kind)[0] if one.name in built_in]
    calls = {id(one): f"/{one.whole_name}" if one.plugin else f"${one.name} in a message" for one in found}
    return [f"/{one.name} is built in; {calls[id(one)]} calls {one.path}" for one in found if one.is_callable]


def _make_command(guide: Skill, name: str) -> Command:
    async def call(context: CommandContext, rest: str) -> None:
        context.start(f"/{name} {rest}".rstrip(), typed=True)

    call.__doc__ = f"{guide.description or guide.kind} ({guide.shown_origin})\n\nRead from {guide.path}."
    hint = one_line(guide.fields.get("argument-hint", ""))[:60] or "[ARGUMENTS]"
    return Command(name, OWN, call, hint, idle=True, is_first=guide.kind == COMMAND)


COMMANDS: tuple[Command, ...] = ()
"""None of its own."""
