"""What a test run inherits from the shell that started it, replaced by the same for everybody.

Owns the environment, the umask, the limits and the signals of the process that runs tests, and so of every child of
theirs. The home folder of each test is `conftest.py`'s.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import ParamSpec, TypeVar
from unittest import mock

P = ParamSpec("P")
T = TypeVar("T")

KEPT = re.compile(r"PATH|HOME|TMPDIR|LD_LIBRARY_PATH|DYLD_\w+|PYTEST_VERSION|HYPOTHESIS_PROFILE|SCREENS|NEXUS_TEST_GIT")
"""Variables that say where programs and temporary folders are, or how the tests are to be run. No other stays."""
FIXED = {"LANG": "C.UTF-8", "CI": "true", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""`CI`: programs that the tests start ask nobody."""
FILES = 4096
"""Open files that the tests may need, if the hard limit allows so many; macOS begins with 256."""


def replace_inherited() -> None:
    """Make this process, and what it starts from now on, independent of the shell that started it."""
    for name in list(os.environ):
        if not KEPT.fullmatch(name):
            del os.environ[name]
    os.environ.update(FIXED)
    time.tzset()
    os.umask(0o022)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    _restore_signals()


def _restore_signals() -> None:
    """Give children the default actions, while this process stays as deaf as `nohup` has made it.

    A program that is started inherits ignored and blocked signals, but no handler.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python's own, which it restores itself
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Receive a signal that was ignored."""


def with_variables(environ: Mapping[str, str], work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what `work` returns while these variables are set too."""
    with mock.patch.dict(os.environ, environ):
        return work(*arguments, **options)
