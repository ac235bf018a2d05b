"""`/cache` and `/cost`: cache use of each request; tokens and dollars."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.arguments import read_source, read_step, require_ledger, show_report, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, always, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MAX_INT
from nexus_cli.reports.cache import cache_report, miss_report
from nexus_cli.reports.cost import cost_report

OFFERED = 20
"""Most requests that completion offers."""


def build_cache(source: Source) -> Report:
    """Show what each request of a session was expected to have, and had, from the provider's cache."""
    return Report("cache", cache_report(source.ledger, source.session(), source.settings()))


def build_miss(
    source: Source,
    step: Annotated[
        int | None, Option("STEP", "Default: the newest request that missed.", is_argument=True, least=-MAX_INT)
    ] = None,
) -> Report:
    """Explain what made a request miss the cache: what differed first from the one before, time, or the provider."""
    return Report("miss", miss_report(source.ledger, source.session(), source.settings(), step))


async def show_cache(context: CommandContext, rest: str) -> None:
    """Show the cache use of each request.

    `why` explains the newest miss, `why STEP` one request: the first difference from the one before it, the elapsed
    time or the provider, and if nexus caused it.
    """
    source = read_source(context)
    if not rest:
        warn_if_stale(context)
        show_report(context, await asyncio.to_thread(build_cache, source))
        return
    word, _, number = rest.partition(" ")
    step = read_step(number)
    if word.casefold() != "why" or (number.strip() and not step):
        raise usage_error("cache", rest, "expected nothing, or `why` and the number of a request")
    warn_if_stale(context)
    show_report(context, await asyncio.to_thread(build_miss, source, step))


def _complete_cache(context: CommandContext) -> Sequence[str]:
    """Return `why`, and `why N` for the newest requests."""
    try:
        ledger = require_ledger(context)
        last = ledger.log(context.session.id).step()
    except NexusError:
        last = 0
    return ["why", *(f"why {step}" for step in range(last, max(0, last - OFFERED), -1))]


async def show_cost(context: CommandContext, rest: str) -> None:
    """Show the tokens and dollars of this session.

    A plot of its requests, then by model, by kind of request, and for each of the last turns. `nexus usage` sums all
    sessions.
    """
    warn_if_stale(context)
    context.show("cost", await asyncio.to_thread(cost_report, require_ledger(context), context.session.id))


COMMANDS = (
    Command("cache", "context", show_cache, "[why [STEP]]", complete=_complete_cache, served=always),
    Command("cost", "context", show_cost, aliases=("usage",), is_first=True, served=always),
)
TWINS = (Twin(build_cache, of_session=True), Twin(build_miss, "why", of_session=True))
