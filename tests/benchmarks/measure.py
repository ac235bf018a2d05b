"""CPU and memory of child processes, and repetitions that take turns so that noise hits both sides alike.

CPU is user + system, in seconds, of the child and of the children that it waited for. `running_cpu` and `resident` look
at a live child and need Linux.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

NEXUS = str(Path(sysconfig.get_path("scripts")) / "nexus")
PASS = (sys.executable, "-c", "pass")
CHILD_SECONDS = 300
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")


class ChildFailedError(RuntimeError):
    """A measured child did not end as it should."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A folder to work in and an environment without anything of the person's own."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, command: Sequence[str], expect: int = 0) -> float:
        """The CPU of `command` from start to end; `ChildFailedError` when it does not exit with `expect`."""
        return self.child(command, expect).cpu

    def child(self, command: Sequence[str], expect: int = 0) -> Child:
        """`command`, run to its end; `ChildFailedError` when it does not exit with `expect`."""
        child = Child(command, self)
        child.end(expect)
        return child


@contextmanager
def scene(**variables: str) -> Iterator[Scene]:
    """A scene in a temporary folder, with `variables` added to its environment."""
    with TemporaryDirectory(prefix="nexus-bench-") as name:
        folder = Path(name) / "project"
        folder.mkdir()
        kept = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        own = {"HOME": name, "NEXUS_HOME": str(Path(name) / "nexus"), "NO_PROXY": "127.0.0.1"}
        yield Scene(folder, kept | own | variables)


@dataclass
class Child:
    """One measured process."""

    command: Sequence[str]
    scene: Scene
    cpu: float = 0.0
    """Seconds of CPU, known after `end`."""
    peak: float = 0.0
    """Most bytes resident, of it or of one of its children, known after `end`. Linux."""
    printed: str = ""
    """What it wrote to stdout and stderr, known after `end`."""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.output = (self.scene.folder.parent / f"output-{time.monotonic_ns()}").open("w+b")
        self.process = subprocess.Popen(
            self.command,
            cwd=self.scene.folder,
            env=dict(self.scene.environment),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
        )
        self._alarm = threading.Timer(CHILD_SECONDS, self.process.kill)
        self._alarm.daemon = True
        self._alarm.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def kill(self) -> None:
        """End it at once; `end(-9)` then gives its CPU so far."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self, expect: int = 0) -> None:
        """Wait for it; `ChildFailedError` with what it printed when it does not exit with `expect`."""
        _, status, used = os.wait4(self.pid, 0)
        self._alarm.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu, self.peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0
        self.output.seek(0)
        self.printed = self.output.read().decode("utf-8", "replace")
        self.output.close()
        os.unlink(self.output.name)
        if self.process.returncode != expect:
            what = f"{' '.join(self.command)} exited with {self.process.returncode}"
            raise ChildFailedError(f"{what}: {self.printed[-2000:]}")


def running_cpu(pid: int) -> float:
    """Seconds of CPU of a live process so far, with its children, live or waited for, and theirs. Linux.

    All its threads count, also those that have ended; the share of children that it waited for is exact to a tick of
    the kernel (10 ms).
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    live = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    return time.clock_gettime((~pid << 3) | 2) + ended + sum(map(running_cpu, live))


def resident(pid: int) -> float:
    """Bytes of a live process in memory. Linux."""
    return float(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_turns(times: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure over `times` rounds in which they take turns, after one round that does not count."""
    figures: list[list[float]] = [[] for _ in measures]
    for round_number in range(times + 1):
        for measure, taken in zip(measures, figures, strict=True):
            value = measure()
            if round_number:
                taken.append(value)
    return [statistics.median(taken) for taken in figures]


def milliseconds(seconds: float) -> float:
    """For rows."""
    return seconds * 1000
