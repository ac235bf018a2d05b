"""The warm process: imports what a run imports, then forks for each call. Started by `launch`, as a program.

It keeps no settings, key, ledger, connection or thread, and knows nothing of calls: what a connection wants is read in
the fork (`child`), so that no caller can hold it up.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from nexus_cli.warm import child, place
from nexus_cli.warm.call import HERE, peer_credentials

WAITING = 64
"""Callers that wait to be accepted. More than that run cold."""


class EnvironmentReads:
    """Notes the names of the environment variables that are read, from `start` to `stop`."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.all = False
        """The whole environment was read at once."""

    def start(self) -> None:
        kind = type(os.environ)
        self._before = kind.__getitem__, kind.__iter__
        get, iterate = self._before

        def note(environ: os._Environ[str], name: str) -> str:
            self.names.add(name)
            return get(environ, name)

        def note_all(environ: os._Environ[str]) -> object:
            self.all = True
            return iterate(environ)

        kind.__getitem__ = note  # type: ignore[method-assign]
        kind.__iter__ = note_all  # type: ignore[method-assign, assignment]

    def stop(self) -> None:
        kind = type(os.environ)
        kind.__getitem__, kind.__iter__ = self._before  # type: ignore[method-assign]


def serve(folder: str, minutes: float, import_run: Callable[[], None], run: Callable[[], NoReturn]) -> None:
    """Listen in `folder` until no call has come for so many minutes; each call is a fork that calls `run`."""
    _detach()
    if (path := _lock(folder)) is None:
        return
    world = child.World(place.identity(), dict(os.environ), minutes, run)
    reads = EnvironmentReads()
    reads.start()
    import_run()
    reads.stop()
    world.names = None if reads.all else frozenset(reads.names)
    if _thread_count() > 1:
        return  # it would not be there after the fork, and what it had locked would stay locked
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page of this process
    with socket.socket(socket.AF_UNIX) as listener:
        Path(path).unlink(missing_ok=True)
        os.chdir(folder)
        os.umask(0o177)
        listener.bind(place.socket_name())
        os.umask(0o077)
        os.chdir("/")
        listener.listen(WAITING)
        listener.setblocking(False)
        _accept_calls(listener, world, path)


def _thread_count() -> int:
    """Return the number of threads of this process, those of libraries of C included where the system tells it."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _detach() -> None:
    """Leave the session, folder, streams and descriptors of the process that started this one."""
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN if number in (signal.SIGPIPE, signal.SIGXFSZ) else signal.SIG_DFL)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.setsid()
    except PermissionError:  # it leads one already
        pass
    os.chdir("/")
    os.umask(0o077)
    child.close_all_but(())
    child.open_null_streams()


def _lock(folder: str) -> str | None:
    """Return the path of the socket to bind if no other warm process has it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if place.folder_problem(folder):
        return None
    path = place.socket_path(folder)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # until this process ends
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return path


def _accept_calls(listener: socket.socket, world: child.World, path: str) -> None:
    """Fork for each connection. Between two of them this process sleeps; it wakes up to end."""
    own = os.stat(path).st_ino

    def end(*_: object) -> None:
        try:
            if os.stat(path).st_ino == own:
                os.unlink(path)
        except OSError:
            pass
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork ended; its caller was told
    begun, world.begun = os.pipe()
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    waiting.register(begun, select.POLLIN)
    deadline = time.monotonic() + world.minutes * 60
    while (left := deadline - time.monotonic()) > 0:
        ready = [number for number, _ in waiting.poll(min(left * 1000 + 1, 2**31 - 1))]
        if begun in ready:
            world.calls += len(os.read(begun, 4096))
            deadline = time.monotonic() + world.minutes * 60
        if listener.fileno() in ready:
            _fork(listener, world)
    end()


def _fork(listener: socket.socket, world: child.World) -> None:
    """Accept a connection and fork what looks after it. Where that fails the caller runs cold."""
    try:
        connection, _ = listener.accept()
    except BlockingIOError:  # the caller has left
        return
    except OSError:  # too many open files: callers are turned away as soon as there are fewer
        time.sleep(0.05)
        return
    with connection:
        if peer_credentials(connection)[1] != os.getuid():
            return
        try:
            connection.send(HERE)
            pid = os.fork()
        except OSError:  # the caller has left, or no process is left
            return
        if pid == 0:
            listener.close()
            child.supervise(connection, world)
