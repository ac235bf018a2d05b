"""The warm process: imports what a run imports, then forks for each call. Started by `launch`, as a program.

It keeps no settings, key, ledger, connection or thread, and knows nothing of calls: what a connection wants is read in
the fork (`child`), so that no caller can hold it up.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from nexus_cli.warm import child, place
from nexus_cli.warm.call import HERE, peer_credentials

WAITING = 64
"""Callers that wait to be accepted. More than that run cold."""
NEW = f"{place.socket_name()}.new"
"""The socket until it is listened to."""


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


def serve(
    folder: str,
    minutes: float,
    import_run: Callable[[], None],
    take_in_hand: Callable[[], None],
    run: Callable[[], NoReturn],
) -> None:
    """Listen in `folder` until no call has come for so many minutes; each call is a fork that calls the last two."""
    _detach()
    if (where := _lock(folder)) is None:
        return
    world = child.World(place.identity(), dict(os.environ), minutes, take_in_hand, run)
    with _bind(where) as listener:
        reads = EnvironmentReads()
        reads.start()
        before = time.process_time()
        import_run()
        world.import_seconds = time.process_time() - before
        reads.stop()
        world.names = None if reads.all else frozenset(reads.names)
        if _thread_count() > 1:  # it would not be there after the fork, and what it had locked would stay locked
            os.unlink(NEW, dir_fd=where)
            return
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page of this process
        listener.listen(WAITING)
        listener.setblocking(False)
        os.rename(NEW, place.socket_name(), src_dir_fd=where, dst_dir_fd=where)
        _accept_calls(listener, world, where)


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


def _lock(folder: str) -> int | None:
    """Return a descriptor of the folder if it is ours alone and no other warm process listens in it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if place.folder_problem(where):
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(f"{place.socket_name()}.lock", flags, 0o600, dir_fd=where)  # until this process ends
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return where


def _bind(where: int) -> socket.socket:
    """Return a socket that is bound in the folder, before the imports: they are for nothing where that fails."""
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(NEW, dir_fd=where)
    os.fchdir(where)
    os.umask(0o177)
    listener.bind(NEW)
    os.umask(0o077)
    os.chdir("/")
    return listener


def _accept_calls(listener: socket.socket, world: child.World, where: int) -> None:
    """Fork for each connection. Between two of them this process sleeps; it wakes up to end."""
    name = place.socket_name()
    own = os.stat(name, dir_fd=where).st_ino

    def end(*_: object) -> None:
        try:
            if os.stat(name, dir_fd=where).st_ino == own:
                os.unlink(name, dir_fd=where)
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
