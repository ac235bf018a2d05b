"""Work that is not left half done: a cancellation waits until it has ended, and then takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives; cancelled meanwhile it ends all the same, and `CancelledError` is raised afterwards.

    For short work that keeps what would else be lost, such as a person's words.
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
