"""`/permissions`: the permission level; it also takes the verbs of `/rules`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.rules import ADD, REMOVE, add_rule
from nexus_cli.commands.verb import Act, Noun, Option, Source, Verb
from nexus_cli.core.limits import ASK, LEVELS, PLAN, Limits, parse_level
from nexus_cli.reports.permissions import describe_level, permissions_report
from nexus_cli.session.session import Session

Rule = Annotated[str, Option("RULE", "A tool, or TOOL(PATTERN): bash(npm test *).", is_argument=True, is_text=True)]


async def set_permissions(
    context: CommandContext,
    level: Annotated[str, Option("LEVEL", "What runs without asking from now on.", is_argument=True)] = "",
) -> None:
    """Show or set what runs without asking.

    Also lists the rules and the permissions you granted for the session. ask: reading inside the project, and read-only
    commands. edit: also editing inside it. auto: also commands confined to the project, without network. all:
    everything, unconfined. plan: read-only; the model proposes a plan (see /plan).
    """
    session = context.session
    if not level:
        context.show("permissions", await asyncio.to_thread(permissions_report, session.state))
        return
    asked, known = parse_level(level), (PLAN, *LEVELS)
    if asked not in known:
        raise usage_error("permissions", level, f"it must be one of {', '.join(known)}")
    session.set_level(asked)
    now = session.status().allow
    held = "" if now == asked else f" {asked} is more than {_describe_limit(session, asked)}."
    runs = await asyncio.to_thread(describe_level, session.state, now)
    context.say(f"permissions {now}: {runs}.{held}")


def allow(source: Source, rule: Rule) -> Act:
    """Add a rule that allows calls to your settings, with immediate effect."""
    return add_rule(source, ["allow", rule])


async def ask(
    context: CommandContext,
    rule: Annotated[
        str, Option("[RULE]", "A tool, or TOOL(PATTERN).", is_argument=True, is_text=True, permits=True)
    ] = "",
) -> None:
    """Add a rule that has calls ask you; without RULE set the level ask."""
    await (context.commands["rules"].run(context, f"add ask {rule}") if rule else set_permissions(context, ASK))


def deny(source: Source, rule: Rule) -> Act:
    """Add a rule that denies calls to your settings, with immediate effect."""
    return add_rule(source, ["deny", rule])


def _describe_limit(session: Session, level: str) -> str:
    """Return the bound that `level` exceeds, to follow "more than"."""
    most = session.state.options.most_allow if session.state.options else None
    if most is not None and (Limits(allow=level) & Limits(allow=most)).allow != level:
        return f"the server allows, {most}"
    return "your settings allow"


NOUN = Noun(
    "permissions",
    "setup",
    (
        Verb(set_permissions, complete=lambda source: (PLAN, *LEVELS)),
        replace(ADD, run=allow, name="allow", places=("slash",)),
        Verb(ask, "ask"),
        replace(ADD, run=deny, name="deny", places=("slash",)),
        replace(REMOVE, places=("slash",)),
    ),
    aliases=("approvals", "allowed-tools"),
    is_first=True,
)
