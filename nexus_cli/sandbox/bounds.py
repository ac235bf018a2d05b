"""Bounds of a sandboxed program that a shell sets before it becomes the program."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Sequence

READER_BOUNDS = (
    ("c", resource.RLIMIT_CORE, 0, 1),
    ("v", resource.RLIMIT_AS, 8 << 30, 1024),
    ("f", resource.RLIMIT_FSIZE, 1 << 30, 512),
)
"""Option of `ulimit`, limit, value and unit, in the profile `read`: no core file, 8 GiB of memory for each process,
1 GiB in a file."""
_MORE_PROCESSES = 1024
"""Processes and threads that a reader may start beside those of the machine."""


def bound_command(argv: Sequence[str], bounds: Iterable[tuple[str, int, int, int]], before: str = "") -> list[str]:
    """Return a command line that sets the bounds and becomes `argv`: what bubblewrap has started escapes `prlimit`."""
    words = "".join(f"ulimit -{option} {least_limit(limit, value) // unit}; " for option, limit, value, unit in bounds)
    return ["/bin/sh", "-c", f'{before}{words}exec "$@"', "sh", *argv]


def bound_reader(argv: Sequence[str]) -> list[str]:
    """Return the command line that runs `argv` in the bounds of the profile `read`."""
    most = least_limit(resource.RLIMIT_NPROC, _count_processes() + _MORE_PROCESSES)
    # dash calls this limit -p, which is another one for bash.
    processes = f"if (ulimit -p {most}) 2>/dev/null; then ulimit -p {most}; else ulimit -u {most}; fi 2>/dev/null; "
    return bound_command(argv, READER_BOUNDS, processes)


def least_limit(limit: int, value: int) -> int:
    """Return `value`, or the person's own limit where that is lower."""
    hard = resource.getrlimit(limit)[1]
    return value if hard == resource.RLIM_INFINITY else min(hard, value)


def _count_processes() -> int:
    """Return the number of processes and threads of the machine."""
    try:
        with open("/proc/loadavg", encoding="utf-8") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return os.cpu_count() or 1
