"""The person's and the project's own guides as slash commands: `/NAME` sends a message that calls one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from nexus_cli.commands.arguments import resume_options
from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.commands.model import describe_cache_miss
from nexus_cli.context.sections.skills import COMMAND, SKILL, Skill, find_guides
from nexus_cli.core.effort import DEFAULT_EFFORT
from nexus_cli.core.elide import one_line
from nexus_cli.session.guide_model import read_guide_model
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
        after = await _use_model(context, guide) if {"model", "effort"} & set(guide.fields) else None
        context.start(f"/{guide.name} {rest}".rstrip(), typed=True, after=after)

    call.__doc__ = f"{guide.description or guide.kind} ({guide.origin})\n\nRead from {guide.path}."
    hint = one_line(guide.fields.get("argument-hint", ""))[:60] or "[ARGUMENTS]"
    return Command(guide.name, OWN, call, hint, idle=True, is_first=guide.kind == COMMAND)


async def _use_model(context: CommandContext, guide: Skill) -> Callable[[], Awaitable[None]] | None:
    """Switch to the model and effort that a guide asks for, and say what that costs; return how to switch back, None if
    nothing was switched. What cannot be applied is named with the turn."""
    model, effort = context.session.model, context.session.status().effort or ""
    asked = await asyncio.to_thread(read_guide_model, guide, model, context.settings, os.environ)
    if not asked.differs_from(model, effort):
        return None
    before = {"model": model, "effort": effort or DEFAULT_EFFORT}
    await context.reopen(resume_options(context, model=asked.model or model, effort=asked.effort or before["effort"]))
    info = context.session.state.lane_state.model.info
    price = "" if info.input_price is None else f" Price: ${info.input_price:g} / ${info.output_price:g} per million."
    missed = await describe_cache_miss(context)
    context.say(f"{asked} for /{guide.name}, then {model} again.{price} {missed}".rstrip())

    async def switch_back() -> None:
        if (context.session.model, context.session.status().effort or "") != (model, effort):
            await context.reopen(resume_options(context, **before))
            context.say(f"model {model} again. {await describe_cache_miss(context)}".rstrip())

    return switch_back


COMMANDS: tuple[Command, ...] = ()
"""None of its own."""
