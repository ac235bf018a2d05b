"""Starting `true` inside walls beside starting it plainly: CPU of a start and its end, in turns.

bwrap is measured as what it adds. The comparison of protected places before and after is a row of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import in_turns, milliseconds, scene
from benchmarks.row import Benchmark, Row

from nexus_cli.config.paths import Places
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.command_guard import CommandGuard
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.guarded_places import MAX_FOLDERS
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.sandbox.profile import SandboxProfile, make_profile

ROUND = 20
"""Starts in one measurement."""


def spent(start: Callable[..., subprocess.Popen[bytes]], folder: Path) -> float:
    """Seconds of CPU of one start to its end, ours and the child's: the mean of a round."""
    before = _cpu()
    for _ in range(ROUND):
        start(("/bin/true",), cwd=folder, env={}).wait()
    return (_cpu() - before) / ROUND


def _cpu() -> float:
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def plain(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """As without walls."""
    return subprocess.Popen(argv, **options)


def compared(profile: SandboxProfile) -> float:
    """Seconds of CPU to look at the protected places before and after a command, the contents known."""
    CommandGuard(profile).end()
    since = time.process_time()
    for _ in range(ROUND):
        CommandGuard(profile).end()
    return (time.process_time() - since) / ROUND


def rows(times: int) -> Iterator[Row]:
    """Only backends that hold here."""
    with scene() as here:
        own = Places(*(here.folder.parent / name for name in ("config", "data", "cache", "log")))
        subprocess.run(("git", "init", "-q"), cwd=here.folder, check=True)
        os.utime(here.folder / ".git/config", (1, 1))
        profile = make_profile("write", project=here.folder, cwd=here.folder, own=own, temp=None)
        for backend in (Backend.LANDLOCK, Backend.BWRAP):
            probe = find_backend(backend, own=own, keep=False)
            if probe.backend is not backend:
                continue
            walls = Confinement(profile, probe)
            measures = [partial(spent, start, here.folder) for start in (walls.start, plain)]
            inside, outside = in_turns(times, *measures)
            if backend is Backend.LANDLOCK:
                base = milliseconds(outside)
                yield Row("starting `true` in Landlock", milliseconds(inside), "ms", base, "plainly", 3.0)
            else:
                yield Row("what bubblewrap adds to a start", milliseconds(inside - outside), "ms", most=15.0)
            walls.close()
        time.sleep(2.5)
        (cost,) = in_turns(times, lambda: compared(profile))
        yield Row("comparing protected places", milliseconds(cost), "ms", most=3.0)
        for number in range(MAX_FOLDERS):
            (here.folder / f"{number % 10}/{number // 10 % 10}/{number // 100}").mkdir(parents=True)
        time.sleep(2.5)
        (cost,) = in_turns(times, lambda: compared(profile))
        yield Row("the same with 1,000 folders", milliseconds(cost), "ms", most=12.0)


BENCHMARK = Benchmark("starting commands in walls", rows)
