"""Work in a thread: its caller's cancellation waits for it, and what it did is still taken note of."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped, run_in_thread


async def test_a_cancelled_caller_waits_for_the_thread_and_notes_what_it_did() -> None:
    noted: list[str] = []
    begun, over = threading.Event(), threading.Event()

    def work(stop: StopFlag) -> str:
        begun.set()
        while not stop.is_urgent:
            over.wait(0.001)
        over.set()
        return "done"

    task = asyncio.create_task(run_in_thread(work, noted.append))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done(), "one press asks, it does not abandon"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert over.is_set()
    assert noted == ["done"]


async def test_work_that_gives_up_is_not_noted() -> None:
    noted: list[None] = []
    begun = threading.Event()

    def work(stop: StopFlag) -> None:
        begun.set()
        while True:
            stop.raise_if_pressed()

    task = asyncio.create_task(run_in_thread(work, noted.append))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert noted == []
    stop = StopFlag()
    stop.raise_if_pressed()
    stop.press()
    with pytest.raises(ThreadStopped):
        stop.raise_if_pressed()


async def test_work_with_a_flag_of_its_callers_needs_no_place_in_the_pool() -> None:
    over, loop = threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    held = loop.run_in_executor(None, over.wait, 20)
    try:
        assert await asyncio.wait_for(run_in_thread(lambda stop: "done", stop=StopFlag()), 300) == "done"
    finally:
        over.set()
        await held
