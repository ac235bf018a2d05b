"""Complete work although the task that waits for it is cancelled, or a running event loop stands in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nexus_cli.core.shared_types import T


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run short work that saves data to its end even if cancelled, then re-raise `CancelledError`."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise
        await asyncio.wait([task])
        task.result()
        raise


async def wait_uncancelled(work: Coroutine[Any, Any, T], stopped: Callable[[], object] = lambda: None) -> T:
    """Return the result of `work`, which runs in a thread. A cancellation calls `stopped` and does not end the wait, so
    that work which has begun is completed and shown."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopped()
        return await asyncio.shield(task)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result, even inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
