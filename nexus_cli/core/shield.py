"""Run a short coroutine to completion even if cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
