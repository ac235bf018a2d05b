"""The limit of open files of this process."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_file_limit(most: int) -> int:
    """Raise the soft limit of open files to `most`, at most to the hard limit; return the number that may be open, at
    most `most` without a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    new_limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(OSError, ValueError):
        if soft < new_limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
            return new_limit
    return soft
