"""Report bugs of nexus: one line for the person, the stack trace in the log file (law 9)."""

from __future__ import annotations

import errno
import os
import traceback

from nexus_cli.config.paths import places, private_dir
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import NexusError

LOG_BYTES = 1_000_000
"""Size at which the log is renamed to `nexus.log.1`."""


def report_bug(bug: BaseException) -> NexusError:
    """Return the error for an unexpected exception, and log its type and stack trace, but never any message text.

    "Can't start new thread" and "Too many open files" are reported as system limits, not as bugs.
    """
    if isinstance(bug, OSError) and bug.errno in (errno.EMFILE, errno.ENFILE):
        why = "this process or this machine has reached its limit"
        return NexusError("internal", "too many open files", why, "Raise the limit, for example with ulimit -n 4096")
    if isinstance(bug, RuntimeError) and "can't start new thread" in str(bug):
        why = "a limit on processes or memory has been reached"
        return NexusError(
            "internal", "cannot start a thread", why, "Close other programs; `ulimit -u` shows your process limit"
        )
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(bug.__traceback__)]
    try:
        path = private_dir(places().log) / "nexus.log"
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{utc_now()} {type(bug).__name__} at {' < '.join(reversed(frames))}\n")
        hint = f"Report this bug with the last lines of {path}"
    except (OSError, NexusError):
        hint = "Report this bug"
    location = frames[-1] if frames else "an unknown location"
    return NexusError("internal", "a bug in nexus", f"{type(bug).__name__} at {location}", hint)
