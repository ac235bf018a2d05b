"""`/permissions`: the permission level; it also takes the verbs of `/rules`."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import parse_choice
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.core.limits import LEVELS, PLAN, Limits, parse_level
from nexus_cli.reports.permissions import describe_level, permissions_report
from nexus_cli.session.session import Session

EDITS = ("allow", "ask", "deny", "remove")
"""Actions of `/permissions` on a rule."""


async def set_permissions(context: CommandContext, rest: str) -> None:
    """Show or set what runs without asking.

    It also lists the rules and the permissions granted for the session. ask: reading inside the project, and read-only
    commands. edit: also editing inside it. auto: also commands, sandboxed to the project without network. all:
    everything, without a sandbox. plan: read-only; the model proposes a plan (see /plan).

    allow RULE, ask RULE and deny RULE add a rule to your settings and remove RULE removes it, with immediate effect:
    allow bash(npm test *). remove also revokes a permission granted for the session, by its listed name.
    """
    session = context.session
    verb, _, rule = rest.partition(" ")
    if not rest:
        context.show("permissions", await asyncio.to_thread(permissions_report, session.state))
    elif _edits_rules(rest):
        if not rule.strip():
            raise usage_error(
                "permissions", rest, "the rule is missing", "For instance: /permissions allow bash(npm test *)"
            )
        await context.commands["rules"].run(context, f"remove {rule.strip()}" if verb == "remove" else f"add {rest}")
    else:
        level = parse_choice("permissions", parse_level(rest), (PLAN, *LEVELS))
        session.set_level(level)
        now = session.status().allow
        held = "" if now == level else f" {level} is more than {_describe_limit(session, level)}."
        runs = await asyncio.to_thread(describe_level, session.state, now)
        context.say(f"permissions {now}: {runs}.{held}")


def _describe_limit(session: Session, level: str) -> str:
    """Return the bound that `level` exceeds, to follow "more than"."""
    most = session.state.options.most_allow if session.state.options else None
    if most is not None and (Limits(allow=level) & Limits(allow=most)).allow != level:
        return f"the server allows, {most}"
    return "your settings allow"


def _edits_rules(rest: str) -> bool:
    """True if the arguments are an action on a rule; `ask` alone is a level."""
    verb, _, rule = rest.partition(" ")
    return verb in EDITS and bool(rule.strip() or verb not in LEVELS)


COMMANDS = (
    Command(
        "permissions",
        "setup",
        set_permissions,
        "[LEVEL | allow|ask|deny|remove RULE]",
        complete=lambda context: (PLAN, *LEVELS, *EDITS),
        aliases=("approvals",),
        is_first=True,
        authority=lambda context, rest: Authority.PERMITS if _edits_rules(rest) else Authority.ACTS,
    ),
)
