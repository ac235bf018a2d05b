"""Time limits for what may never end: a search with a foreign regular expression, an answer that comes byte by byte."""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer

from nexus_cli.core.shared_types import T

CHUNK = 65_536


def call_in_fork(function: Callable[[], T], seconds: float) -> T | None:
    """Return the result of `function` in a fork of this process, through JSON; None if it raises or takes longer.

    Blocks. The function must change nothing, and wait for no other thread: the fork has this one alone. It ends after
    about `seconds` of CPU time even if this process was killed meanwhile.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            cpu_seconds = math.ceil(seconds) + 1
            with suppress(ValueError):  # a lower limit holds
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    try:
        return _read(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _read(descriptor: int, ends: float) -> T | None:
    """Return the JSON up to the end of the input; None if that is not there at the time `ends` (monotonic)."""
    data = b""
    while select.select([descriptor], [], [], max(0.0, ends - time.monotonic()))[0]:
        piece = os.read(descriptor, CHUNK)
        if not piece:
            answer: T | None = json.loads(data) if data else None
            return answer
        data += piece
    return None


@contextmanager
def shut_down_at(connection: socket.socket, ends: float) -> Iterator[None]:
    """Shut down a connection at the time `ends` (monotonic), even if it keeps receiving data."""
    duplicate = socket.socket(fileno=os.dup(connection.fileno()))  # TLS takes over the other one

    def end() -> None:
        with suppress(OSError):
            duplicate.shutdown(socket.SHUT_RDWR)

    timer = Timer(max(0.0, ends - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        duplicate.close()
