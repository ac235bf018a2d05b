"""Run a short coroutine to completion even if cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to completion even if cancelled, then re-raise `CancelledError`.

    For short work that saves what would otherwise be lost, such as a person's words.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise
        await asyncio.wait([task])
        task.result()
        raise
