"""Protect this process, whose memory and environment contain keys, from other programs of the same person."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def make_process_private() -> None:
    """Disable core dumps, and `/proc/PID` and ptrace for all but root, permanently and in forks. Linux only."""
    if sys.platform != "linux":
        return
    import _ctypes  # noqa: PLC0415  (`ctypes` would cost 3 ms of each start)

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this program
    _ctypes.call_function(prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0))
