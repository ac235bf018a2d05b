"""Lock a file across processes. The system releases the lock however the process ends.

Uses flock(2), which belongs to the open file: a second `FileLock` of the same process waits too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from nexus_cli.config.paths import private_dir


class FileLock:
    """One lock file, held until `release` or the end of the process."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle

    @classmethod
    def take(cls, path: Path) -> FileLock | None:
        """Return the lock at `path`, None if another has it; raise `OSError` if the file cannot be created."""
        return cls._take(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def wait(cls, path: Path, *, shared: bool = False) -> FileLock:
        """Wait for the lock at `path`; raise as `take`. Shared locks exclude only exclusive ones."""
        while True:
            lock = cls._take(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            if lock is not None:
                return lock

    @classmethod
    def wait_for(cls, path: Path, seconds: float) -> FileLock:
        """Wait for the lock at `path`; raise `TimeoutError` after `seconds`, and as `take`."""
        end = time.monotonic() + seconds
        while (lock := cls.take(path)) is None:
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "locked by another process")
            time.sleep(0.005)
        return lock

    @classmethod
    def _take(cls, path: Path, how: int) -> FileLock | None:
        private_dir(path.parent)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, how)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if _is_still(path, handle):
                return cls(path, handle)
            os.close(handle)  # its owner removed the file while we waited: lock the new one

    def write(self, line: str) -> None:
        """Replace the content of the file, which says who has the lock; without effect on a full disk. Meanwhile it may
        be read with blanks behind it."""
        data = line.encode()
        with suppress(OSError):
            os.pwrite(self._handle, data.ljust(os.fstat(self._handle).st_size), 0)
            os.ftruncate(self._handle, len(data))

    def append(self, data: bytes) -> None:
        """Write `data` behind what this lock has written, and wait until the disk has it; raise `OSError`."""
        while data:
            data = data[os.write(self._handle, data) :]
        os.fsync(self._handle)

    def release(self, *, remove: bool = False) -> None:
        """Release the lock, and `remove` the file. May be called twice."""
        if self._handle < 0:
            return
        if remove:
            self._path.unlink(missing_ok=True)
        # Closing alone would leave the lock with a child that another thread has forked and that has not called exec.
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def is_locked(file: IO[bytes]) -> bool:
    """Return True if another process has locked an open file alone; else share the lock until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def read_held(path: Path) -> bytes | None:
    """Return the content of a lock file that a process has locked alone, None if none has. Creates nothing; raises
    `OSError`."""
    with path.open("rb") as file:
        if is_locked(file):
            return file.read()
        # Closing alone would leave the lock with a child that another thread has forked.
        fcntl.flock(file, fcntl.LOCK_UN)
    return None


def _is_still(path: Path, handle: int) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(handle)
    return (status.st_dev, status.st_ino) == (ours.st_dev, ours.st_ino)
