"""`/context`: the window as it is, and what an earlier request held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, say_if_old, wrong
from nexus_cli.session.reports.context import difference_in, of_request

LONGEST = 15
"""Digits of a step."""
OPTIONS = ("--step", "--diff")


async def run(desk: Desk, rest: str) -> None:
    """Show the window: what the next request holds.

    A bar per layer, what the cache covers, the largest items, each section with its form and why, what was left out,
    and the limits in force. --step N shows what request N held, --diff [N] what it (or the newest) has more or less
    than the one before it.
    """
    if not rest:
        say_if_old(desk)
        desk.show("context", await asyncio.to_thread(desk.session.report))
        return
    option, _, number = rest.partition(" ")
    number = number.strip()
    whole = number.isascii() and number.isdigit() and len(number) <= LONGEST and int(number) > 0
    if option not in OPTIONS or (number and not whole) or (option == "--step" and not number):
        raise wrong("context", rest, "it takes nothing, `--step N`, or `--diff` and the number of a request")
    ledger, session = ledger_of(desk), desk.session.id
    say_if_old(desk)
    if option == "--step":
        held = await asyncio.to_thread(of_request, ledger, session, desk.settings, int(number))
        desk.show("context", held)
        return
    step = int(number) if number else None
    desk.show("between", await asyncio.to_thread(difference_in, ledger, session, desk.settings, step))


def _words(desk: Desk) -> Sequence[str]:
    return OPTIONS


COMMAND = Command("context", "context", run, "[--step N | --diff [N]]", complete=_words)
