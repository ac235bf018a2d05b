"""`/cache`: what each request had from the provider's cache, and why one missed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.commands.arguments import require_ledger, usage_error, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.session.reports.cache import uses, why

LONGEST = 15
"""Digits of a step."""
OFFERED = 20
"""Requests that completion offers."""


async def run(context: CommandContext, rest: str) -> None:
    """Show the cache use of each request.

    `why` explains the newest miss, `why STEP` what came of one request: what differed first from the one before it, the
    time, or the provider; and whether it was our doing.
    """
    ledger = require_ledger(context)
    if not rest:
        warn_if_stale(context)
        context.show("cache", await asyncio.to_thread(uses, ledger, context.session.id, context.settings))
        return
    word, _, number = rest.partition(" ")
    number = number.strip()
    whole = number.isascii() and number.isdigit() and len(number) <= LONGEST and int(number) > 0
    if word.casefold() != "why" or (number and not whole):
        raise usage_error("cache", rest, "it takes nothing, or `why` and the number of a request")
    step = int(number) if number else None
    warn_if_stale(context)
    context.show("miss", await asyncio.to_thread(why, ledger, context.session.id, context.settings, step))


def _words(context: CommandContext) -> Sequence[str]:
    """`why`, and with the newest requests."""
    try:
        ledger = require_ledger(context)
        last = ledger.log(context.session.id).step()
    except NexusError:
        last = 0
    return ["why", *(f"why {step}" for step in range(last, max(0, last - OFFERED), -1))]


COMMAND = Command("cache", "context", run, "[why [STEP]]", complete=_words)
