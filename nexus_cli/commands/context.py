"""`/context`: the current window, or the contents of an earlier request."""

from __future__ import annotations

import asyncio

from nexus_cli.commands.arguments import read_step, require_ledger, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.reports.context import sent_request_report
from nexus_cli.reports.context_summary import context_summary
from nexus_cli.reports.request_diff import request_difference

OPTIONS = ("all", "--step", "--diff")


async def show_context(context: CommandContext, rest: str) -> None:
    """Show the window: what the next request holds.

    Draws a bar of its parts and lists the largest items, the drops, and the next rewrite of the window. `all` lists
    each section with its form and the reason, the tools, drops and limits. --step N shows the contents of request N,
    --diff [N] its changes (or those of the newest) from the one before.
    """
    if rest in ("", "all"):
        warn_if_stale(context)
        form = "context" if rest else "context_summary"
        context.show(form, await asyncio.to_thread(context_summary, context.session.state))
        return
    option, _, number = rest.partition(" ")
    step = read_step(number)
    if option not in OPTIONS[1:] or (not step and (number.strip() or option == "--step")):
        raise usage_error("context", rest, "expected nothing, all, `--step N`, or `--diff` and the number of a request")
    ledger, session = require_ledger(context), context.session.id
    warn_if_stale(context)
    if option == "--step" and step:
        held = await asyncio.to_thread(sent_request_report, ledger, session, context.settings, step)
        context.show("context", held)
        return
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
        authority=Authority.READS,
    ),
)
