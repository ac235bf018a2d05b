"""Work aside: a thread for each, bounded; what hangs is let go, and takes nobody else's time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nexus_cli.context.aside import TICK, Aside, within

HUNG = """
import asyncio, time
from nexus_cli.context.aside import Aside, within

async def main():
    work = Aside(lambda here: here.drive(asyncio.to_thread(time.sleep, 600)))
    await within({work: 0.05})
    print("done" if work.done else "let go")

asyncio.run(main())
"""


def driven(work: Callable[[], Coroutine[Any, Any, Any]]) -> Aside[Any]:
    return Aside(lambda here: here.drive(work()))


def ended(*work: Aside[Any], seconds: float = 30.0) -> None:
    asyncio.run(within(dict.fromkeys(work, seconds)))


def test_a_coroutine_runs_in_a_thread_of_its_own_and_so_does_what_it_hands_to_threads() -> None:
    async def work() -> list[str]:
        await asyncio.sleep(0)
        return [threading.current_thread().name, await asyncio.to_thread(lambda: threading.current_thread().name)]

    one = driven(work)
    ended(one)
    assert set(one.value) == {"nexus-aside"} and threading.current_thread().name not in one.value


@pytest.mark.parametrize("error", [RuntimeError("x"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_stays_with_the_work(error: BaseException) -> None:
    async def work() -> None:
        raise error

    one = driven(work)
    ended(one)
    assert one.done and type(one.error) is type(error)


def test_what_hangs_is_let_go_when_it_is_stopped_and_the_others_are_heard() -> None:
    hung, quick = driven(lambda: asyncio.sleep(3600)), driven(lambda: asyncio.sleep(0, "here"))
    asyncio.run(within({hung: 0.05, quick: 30.0}))
    assert not hung.done and quick.value == "here"
    hung.stop()
    ended(hung)
    assert isinstance(hung.error, asyncio.CancelledError)


def test_a_loop_that_was_held_up_counts_as_a_tick() -> None:
    going = threading.Event()

    async def main() -> Aside[Any]:
        asyncio.get_running_loop().call_soon(time.sleep, 8 * TICK)
        asyncio.get_running_loop().call_later(9 * TICK, going.set)
        one: Aside[Any] = Aside(lambda here: going.wait(30))
        await within({one: 5 * TICK})
        return one

    assert asyncio.run(main()).done, "the bound would have been over while nobody could run"


def test_a_thread_that_hangs_keeps_no_process_from_its_end() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "let go\n" and not done.stderr
