"""`/plan`: plan mode, in which the model is read-only and proposes a plan."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Act, Noun, Verb, print_act, report_act
from nexus_cli.core.limits import PLAN
from nexus_cli.core.option import Argument
from nexus_cli.core.run import parse_key
from nexus_cli.ledger import Ledger

_SCHEDULE = re.compile(r"(?:list|add|remove|pause|resume|run)(?:\s+(?P<name>\S.*))?", re.IGNORECASE)
"""Words for the shell command `nexus plan`, which is `/schedule` in a session, and for no task if the name is that of
a schedule."""


async def plan_mode(
    context: CommandContext,
    text: Annotated[str, Argument("TEXT", "The first message.", is_text=True, is_message=True)] = "",
) -> Act:
    """Turn plan mode on or off.

    In plan mode the model is read-only and proposes a plan, which you can then approve. Shift+Tab also turns plan mode
    on. `/plan on` turns it on, `/plan off` turns it off.
    """
    if await asyncio.to_thread(_is_for_schedule, context.session.ledger, text):
        hint = f"To manage schedules: /schedule {text}. To send this text as a task: /plan, then the text as a message"
        raise usage_error("plan", text, "/plan takes a task; schedules have their own command", hint)
    session = context.session
    is_on = session.status().allow == PLAN
    if text in ("on", "off"):
        is_on, text = text == "off", ""
    if is_on and not text:
        level = session.leave_plan()
        return print_act(f"Plan mode is off. Permission level: {level}.", level)
    if text:
        context.start(text, typed=True)
    if is_on:
        return report_act("")
    session.set_level(PLAN)
    return print_act("Plan mode is on: read-only; the model proposes a plan. /plan turns it off.", PLAN)


def _is_for_schedule(ledger: Ledger, text: str) -> bool:
    words = _SCHEDULE.fullmatch(text)
    if words is None or not (name := words["name"]) or parse_key(name, "plan") is not None:
        return words is not None
    return name in {plan.name for plan in ledger.plans.list_plans()}


NOUN = Noun("plan", "run", (Verb(plan_mode),), is_first=True, is_idle=True)
