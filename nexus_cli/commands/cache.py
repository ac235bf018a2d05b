"""`/cache`: what each request had from the provider's cache, and why one missed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, say_if_old, wrong
from nexus_cli.core.errors import NexusError
from nexus_cli.session.reports.cache import uses, why

LONGEST = 15
"""Digits of a step."""
OFFERED = 20
"""Requests that completion offers."""


async def run(desk: Desk, rest: str) -> None:
    """Show the cache use of each request.

    `why` explains the newest miss, `why STEP` what came of one request: what differed first from the one before it, the
    time, or the provider; and whether it was our doing.
    """
    ledger = ledger_of(desk)
    if not rest:
        say_if_old(desk)
        desk.show("cache", await asyncio.to_thread(uses, ledger, desk.session.id, desk.settings))
        return
    word, _, number = rest.partition(" ")
    number = number.strip()
    whole = number.isascii() and number.isdigit() and len(number) <= LONGEST and int(number) > 0
    if word.casefold() != "why" or (number and not whole):
        raise wrong("cache", rest, "it takes nothing, or `why` and the number of a request")
    step = int(number) if number else None
    say_if_old(desk)
    desk.show("miss", await asyncio.to_thread(why, ledger, desk.session.id, desk.settings, step))


def _words(desk: Desk) -> Sequence[str]:
    """`why`, and with the newest requests."""
    try:
        ledger = ledger_of(desk)
        last = ledger.log(desk.session.id).step()
    except NexusError:
        last = 0
    return ["why", *(f"why {step}" for step in range(last, max(0, last - OFFERED), -1))]


COMMAND = Command("cache", "context", run, "[why [STEP]]", complete=_words)
