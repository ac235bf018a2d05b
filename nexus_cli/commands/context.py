"""`/context`: the window as it is, and what an earlier request held."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import require_ledger, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.reports.context import sent_request_report
from nexus_cli.reports.live import context_summary
from nexus_cli.reports.request_diff import request_difference

LONGEST = 15
"""Digits of a step."""
OPTIONS = ("all", "--step", "--diff")


async def show_context(context: CommandContext, rest: str) -> None:
    """Show the window: what the next request holds.

    A bar of its parts, the largest items, what was left out, and when the window is rewritten. `all` shows each section
    with its form and why, the tools, drops and limits. --step N shows what request N held, --diff [N] what it (or the
    newest) has more or less than the one before it.
    """
    if rest in ("", "all"):
        warn_if_stale(context)
        form = "context" if rest else "context_summary"
        context.show(form, await asyncio.to_thread(context_summary, context.session.state))
        return
    option, _, number = rest.partition(" ")
    number = number.strip()
    whole = number.isascii() and number.isdigit() and len(number) <= LONGEST and int(number) > 0
    if option not in OPTIONS[1:] or (number and not whole) or (option == "--step" and not number):
        raise usage_error("context", rest, "expected nothing, all, `--step N`, or `--diff` and the number of a request")
    ledger, session = require_ledger(context), context.session.id
    warn_if_stale(context)
    if option == "--step":
        held = await asyncio.to_thread(sent_request_report, ledger, session, context.settings, int(number))
        context.show("context", held)
        return
    step = int(number) if number else None
    context.show("between", await asyncio.to_thread(request_difference, ledger, session, context.settings, step))


COMMANDS = (
    Command(
        "context",
        "context",
        show_context,
        "[all | --step N | --diff [N]]",
        complete=lambda context: OPTIONS,
        aliases=("tokens",),
        is_first=True,
    ),
)
