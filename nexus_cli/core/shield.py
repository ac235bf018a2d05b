"""Run a short coroutine to completion even if cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to completion even if cancelled, then re-raise `CancelledError`.

    For short work that saves data, such as a message that the person typed.
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
