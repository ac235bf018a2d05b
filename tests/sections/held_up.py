"""Contributors that hang: their time limit is over at once, and no other one's ever, however loaded the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from nexus_cli.core.daemon_task import DaemonTask
from nexus_cli.sections import reader

AT_ONCE, NEVER = 0.05, 3600.0


def give_up(
    monkeypatch: pytest.MonkeyPatch, name: str, free: Event | None = None, *, rendering: bool = False
) -> list[DaemonTask[Any]]:
    """Give up on reading (or `rendering`) the contributor `name` at once while `free` is not set.

    Return the list to which each of its tasks is added.
    """
    tasks: list[DaemonTask[Any]] = []

    def make_task(call: Any, limit: float) -> DaemonTask[Any]:
        is_it = call.args[0].id == name and (call.func is reader._render) is rendering
        task = DaemonTask(call, AT_ONCE if is_it and not (free and free.is_set()) else NEVER)
        if is_it:
            tasks.append(task)
        return task

    monkeypatch.setattr(reader, "DaemonTask", make_task)
    return tasks


def wait_until(holds: Callable[[], object]) -> None:
    """Wait for another thread."""
    while not holds():
        time.sleep(0.01)
