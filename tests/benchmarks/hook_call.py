"""What one hook adds to a call, wall time: a shell that reads its input, unconfined and in the sandbox, beside the same
shell started plainly.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import in_turns, milliseconds, scene
from benchmarks.row import Benchmark, Row

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.hooks.hook_list import Hook
from nexus_cli.hooks.run_hook import OK, run_hook
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.tools.cancellable_thread import run_in_thread

COMMAND = "read -r given"
GIVEN = json.dumps({"tool_name": "edit_file", "tool_input": {"path": "a.py", "content": "x" * 2000}}).encode() + b"\n"


def plain(folder: Path) -> float:
    """Seconds of the shell alone."""
    since = time.perf_counter()
    subprocess.run(("/bin/bash", "-c", COMMAND), cwd=folder, input=GIVEN, check=True)
    return time.perf_counter() - since


def hooked(hook: Hook, folder: Path, permission: CallPermission) -> float:
    """Seconds of one run of the hook."""

    async def run() -> float:
        since = time.perf_counter()
        done = await run_in_thread(lambda stop: run_hook(hook, GIVEN, folder, permission, stop))
        assert done.outcome == OK, done
        return time.perf_counter() - since

    return asyncio.run(run())


def rows(times: int) -> Iterator[Row]:
    """In the sandbox only where there is one."""
    with scene() as here:
        permission = CallPermission(here.folder, here.folder, (), SandboxSettings())
        table = HookTable("PreToolUse", COMMAND)
        measures: list[Callable[[], float]] = [partial(plain, here.folder)]
        measures.append(partial(hooked, Hook(table, "config.toml"), here.folder, permission))
        if permission.has_sandbox():
            own = Hook(table, ".claude/settings.json", here.folder.resolve())
            measures.append(partial(hooked, own, here.folder, permission))
        base, *figures = map(milliseconds, in_turns(times, *measures))
        names = (("a hook of one's own", 12.0), ("a hook of a project, in the sandbox", 35.0))
        for (what, most), figure in zip(names, figures, strict=False):
            yield Row(what, figure, "ms", base, "the shell alone", most)
        permission.close()


BENCHMARK = Benchmark("a hook's cost per call", rows)
