"""Find and kill the processes of a child: its group, its descendants, and those that inherited its mark.

A mark is an environment variable with a unique value. It identifies a process that left the group and whose parents
have ended, if /proc shows environments (Linux) and the process was not started with a new one. Zombies do not count as
running.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from nexus_cli.config.programs import end_group, run_program, start_helper

if TYPE_CHECKING:
    from nexus_cli.tools.cancellable_thread import StopFlag

RUNNING: dict[tuple[int, str], StopFlag] = {}
"""Pid and mark of each running child of this process, and the flag that stops it."""
_PROC = Path("/proc")
_NUMBERS_PER_SECOND = 327_680
"""More numbers of processes than a system gives out in a second: two cores take half a second for 32,768."""


@dataclass(frozen=True, slots=True)
class Process:
    """A running process; not equal to a later one with the same pid (if there is /proc)."""

    pid: int
    start_ticks: str = ""
    """Start time in the system's clock ticks; "" if unknown."""


def find_tree(pid: int, mark: str = "") -> set[Process]:
    """Return the running processes of the group that `pid` leads, those with `mark`, and all their descendants."""
    table = _read_table()
    members = {number for number, (_, _, group) in table.items() if group == pid}
    members |= ({pid} | _find_marked(mark)) & table.keys()
    grown = True
    while grown:
        children = {number for number, (_, parent, _) in table.items() if parent in members} - members
        members |= children
        grown = bool(children)
    return {table[number][0] for number in members}


def find_remaining(pid: int, mark: str, seconds: float = math.inf) -> set[Process]:
    """Return the running processes of the group that `pid` led, and those with `mark`; `pid` was started `seconds` ago.
    Cheap if there are none."""
    marked = _find_marked(mark, pid if seconds < _count_numbers() / _NUMBERS_PER_SECOND else 0)
    if not marked:
        return find_group(pid)
    return {process for number, (process, _, leader) in _read_table().items() if leader == pid or number in marked}


ProcessTable = dict[int, tuple[Process, int, int]]
"""Processes by pid, each with its parent and group."""


def _count_numbers() -> int:
    """Return the least count of numbers that the system gives out to processes before it begins again."""
    try:
        return int((_PROC / "sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        return 32_768


def find_group(pid: int) -> set[Process]:
    """Return the running processes of the group that `pid` led. Cheap if there are none."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return set()
    except PermissionError:
        # macOS raises this for a group with only zombies.
        pass
    return {process for process, _, leader in _read_table().values() if leader == pid}


def still_running(processes: Iterable[Process]) -> set[Process]:
    """Return the processes that still run."""
    table = _read_table()
    return {process for process in processes if process.pid in table and table[process.pid][0] == process}


def send_signal(pid: int, processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to the group that `pid` leads, and to each of `processes` that still exists.

    The leader comes first: a shell that briefly outlives its children might treat their end as success.
    """
    if find_group(pid):
        end_group(pid, number)
    for process in sorted(processes, key=lambda candidate: candidate.pid != pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def kill_all(*, only_stopping: bool = False) -> None:
    """Kill the process tree of every running child, before an immediate exit, or only of those that are to stop."""
    for (pid, mark), stop in tuple(RUNNING.items()):
        if stop.is_pressed or not only_stopping:
            send_signal(pid, find_tree(pid, mark), signal.SIGKILL)


def _find_marked(mark: str, first: int = 0) -> set[int]:
    """Return the pids of processes with `mark` in their environment, as far as that is readable. None of them is older
    than the process `first`, if that is given, since whose start the system cannot have given out all numbers."""
    processes: set[int] = set()
    if not mark or not (_PROC / "self/environ").exists():
        return processes
    newest = 0
    with suppress(OSError, ValueError, IndexError):  # a /proc that shows processes alone does not have it
        newest = int((_PROC / "loadavg").read_text().split()[-1]) if first else 0
    first = first if newest >= first else 0  # else the numbers have begun again, or may have
    mark_bytes = mark.encode()
    for name in filter(str.isdigit, os.listdir(_PROC)):
        if int(name) < first:
            continue
        try:
            with open(f"{_PROC}/{name}/environ", "rb", buffering=0) as file:
                if mark_bytes in file.read():
                    processes.add(int(name))
        except OSError:
            continue
    return processes


def _read_table() -> ProcessTable:
    """Return every running process by pid, with its parent and group."""
    return _from_proc() if (_PROC / "self/stat").exists() else _from_ps()


def read_stat(pid: int | str) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the process's state on, see proc_pid_stat(5); raise `OSError` without
    it."""
    with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:
        # The command is in parentheses and may contain parentheses itself.
        return file.read().rpartition(b")")[2].split()


def _from_proc() -> ProcessTable:
    table = {}
    for name in filter(str.isdigit, os.listdir(_PROC)):
        try:
            fields = read_stat(name)
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            table[int(name)] = (Process(int(name), fields[19].decode()), int(fields[1]), int(fields[2]))
    return table


def _from_ps() -> ProcessTable:
    process = run_program(["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat="], env={})
    table = {}
    for line in process.stdout.decode(errors="replace").splitlines():
        fields = line.split()
        if len(fields) == 4 and not fields[3].startswith("Z"):
            table[int(fields[0])] = (Process(int(fields[0])), int(fields[1]), int(fields[2]))
    return table


_SCRIPT = """
read -r group
read -r _ && exit
test -z "$group" || kill -s KILL -- "-$group"
for found in $(grep -alsF -e "$1" /proc/[0-9]*/environ); do
    found=${found#/proc/}
    kill -s KILL "${found%/environ}"
done
"""


class OrphanGuard:
    """Kills the processes with a mark if this process is killed within the context. Raises `OSError` if its shell
    cannot be started."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._end = b"\n\n"

    def __enter__(self) -> OrphanGuard:
        self._shell = start_helper(("/bin/sh", "-c", _SCRIPT, "guard", self._mark))
        return self

    def watch(self, group: int) -> None:
        """Set the process group that the child leads; call it once."""
        assert self._shell.stdin is not None
        self._end = b"\n"
        # If somebody has killed the shell, the child continues without it.
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write(b"%d\n" % group)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.communicate(self._end)
