"""Make room in a window that is too full: compaction first, unless it cannot help, then truncation.

`context_fit` decides when, and refuses a request that still does not fit.
"""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.budget import preamble_room
from nexus_cli.engine.compaction.compact import compact
from nexus_cli.engine.compaction.file_states import look_at_files
from nexus_cli.engine.compaction.prune import draft_cheaper_pruning
from nexus_cli.engine.requests.engine import Engine

TRUNCATION = "truncation"
"""Cause of the epoch."""
MAX_TRUNCATIONS = 3
"""Most truncations before one request."""


async def make_room(engine: Engine, *, fits: bool) -> None:
    """Prune or compact the window, then truncate it until the next request fits."""
    target = engine.settings.compact.to
    hopeless = fits and engine.backoff.has_free_refusal and engine.compactor.plan(target) is None
    if not hopeless and engine.backoff.may_compact(fits=fits):
        if rewrite := draft_cheaper_pruning(engine):
            engine.begin_epoch(rewrite)
        else:
            await compact(engine, "window", target)
    await _truncate_until_fits(engine)


async def make_room_after_overflow(engine: Engine) -> None:
    """Compact to a lower target than usual, else truncate: the provider refused the request as too long."""
    may = engine.backoff.may_compact(fits=False)
    if not may or not await compact(engine, "overflow", engine.settings.compact.overflow_to):
        engine.begin_epoch(await draft_truncation(engine))
    await _truncate_until_fits(engine)


async def _truncate_until_fits(engine: Engine) -> None:
    """Truncate until the window fits. One pass may not suffice: the rest may have more tokens per counted token."""
    for _ in range(MAX_TRUNCATIONS):
        before = engine.conversation.counted
        if engine.window_request().fits:
            return
        engine.begin_epoch(await draft_truncation(engine))
        if engine.conversation.counted >= before:
            return


async def draft_truncation(engine: Engine) -> Rewrite:
    """Return the rewrite that truncates the window to the low-water mark. Changes nothing but takes the ids of its
    drops. Reads the files of the work; leaves room for the event sections that must be sent again."""
    await engine.read_work()
    context = engine.context
    reserved = preamble_room(context.budget.window)
    within = replace(engine.compactor, budget=context.countable(context.room))
    head, drops = within.cut(await look_at_files(within.make_record()), reserved)
    return engine.draft_rewrite(engine.conversation.make_epoch(head, TRUNCATION), drops=drops)
