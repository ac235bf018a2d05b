"""Blocking calls in daemon threads: bounded in time, in order, and none takes another one's time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

import pytest

from nexus_cli.core import daemon_task
from nexus_cli.core.daemon_task import TICK, DaemonTask, run_tasks

HUNG = """
import asyncio, time
from nexus_cli.core.daemon_task import DaemonTask, run_tasks

task = DaemonTask(lambda: time.sleep(600), 0.05)
asyncio.run(run_tasks([task]))
print("ended" if task.ended else "given up")
"""


def test_tasks_run_in_order_in_one_daemon_thread() -> None:
    seen: list[tuple[int, threading.Thread]] = []

    def note(number: int) -> int:
        seen.append((number, threading.current_thread()))
        return number

    tasks = [DaemonTask(partial(note, number), 5.0) for number in range(9)]
    asyncio.run(run_tasks(tasks))
    assert [task.value for task in tasks] == [number for number, _ in seen] == list(range(9))
    [thread] = {thread for _, thread in seen}
    assert thread.daemon and thread is not threading.current_thread()
    asyncio.run(run_tasks([]))


@pytest.mark.matrix
def test_a_thread_that_starts_late_gets_no_second_one_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[threading.Thread] = []

    class Late(threading.Thread):
        def start(self) -> None:
            begun.append(self)
            threading.Timer(4 * TICK, super().start).start()

    monkeypatch.setattr(threading, "Thread", Late)
    tasks = [DaemonTask(partial(int, number), 5.0) for number in range(9)]
    asyncio.run(run_tasks(tasks))
    assert [task.value for task in tasks] == list(range(9)) and len(begun) == 1


@pytest.mark.parametrize("error", [RuntimeError("x"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_stays_with_its_task(error: BaseException) -> None:
    def fail() -> None:
        raise error

    tasks: list[DaemonTask[Any]] = [DaemonTask(fail, 5.0), DaemonTask(lambda: "fine", 5.0)]
    asyncio.run(run_tasks(tasks))
    assert tasks[0].ended and tasks[0].error is error and not tasks[0].succeeded
    assert tasks[1].succeeded and tasks[1].value == "fine"


@pytest.mark.matrix
def test_tasks_that_hang_cost_their_own_limit_once_and_the_others_nothing() -> None:
    free = threading.Event()
    spent: list[list[float]] = []

    def hang_indent() -> bool:
        spent.append([one.spent for one in hung])
        return free.wait(60)

    hung = [DaemonTask(hang_indent, 2.0) for _ in range(3)]
    quick = [DaemonTask(lambda: "here", 2.0) for _ in range(3)]
    asyncio.run(run_tasks([one for pair in zip(hung, quick, strict=True) for one in pair]))
    assert len(spent) == 3 and max(spent[-1]) < 2.0, "not one limit after the other"
    assert all(task.succeeded for task in quick) and not any(task.ended for task in hung)
    free.set()
    for task in hung:
        task.limit = 30.0
    asyncio.run(run_tasks(hung))
    assert all(task.succeeded for task in hung), "they go on, and can be waited for again"


async def test_a_cancellation_ends_the_wait_at_once_and_what_has_not_started_never_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_task, "GRACE", 3600.0)
    free = threading.Event()
    tasks: list[DaemonTask[Any]] = [DaemonTask(free.wait, 3600.0), DaemonTask(lambda: None, 3600.0)]

    waiting = asyncio.create_task(run_tasks(tasks))
    while tasks[0].started is None:  # noqa: ASYNC110  (a thread sets it)
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    free.set()
    await asyncio.sleep(0.05)
    assert tasks[1].started is None


async def test_a_loop_that_was_held_up_is_not_charged_to_the_task() -> None:
    going = threading.Event()

    asyncio.get_running_loop().call_soon(time.sleep, 8 * TICK)
    asyncio.get_running_loop().call_later(9 * TICK, going.set)
    task = DaemonTask(lambda: going.wait(30), 5 * TICK)
    await run_tasks([task])
    assert task.ended, "the limit would have been over while nobody could run"


def test_without_threads_every_task_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", refuse)
    task = DaemonTask(lambda: None, 1.0)
    asyncio.run(run_tasks([task]))
    assert task.ended and str(task.error) == "can't start new thread"


@pytest.mark.matrix
def test_a_call_that_hangs_keeps_no_process_from_its_end() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "given up\n" and not done.stderr
