"""Cache values made from files, as long as the files have not changed."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

SETTLED = 3.0
"""Seconds after a change until a file's times show the next one on every file system."""
Value = TypeVar("Value")


class VersionMemo(Generic[Value]):
    """Values by key, each for one version of its source. Emptied when it is full."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._values: dict[Hashable, tuple[Hashable, Value]] = {}
        self._most, self._most_bytes, self._size = most, most_bytes, 0

    def find(self, key: Hashable, version: Hashable) -> Value | None:
        """Return the value of this version, None if it is not known."""
        entry = self._values.get(key)
        return entry[1] if entry and entry[0] == version else None

    def keep(self, key: Hashable, version: Hashable, value: Value, size: int) -> None:
        """Store a value whose source has `size` bytes."""
        if len(self._values) >= self._most or self._size + size > self._most_bytes:
            self._values, self._size = {}, 0
        self._values[key] = (version, value)
        self._size += size


def file_version(status: os.stat_result) -> tuple[int, ...]:
    """Return the values of a status that differ once the file has changed; its times are in nanoseconds."""
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_version(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return the `file_version` of the file that a path leads to; () if there is none."""
    try:
        return file_version(os.stat(path))
    except OSError:
        return ()


def is_settled(status: os.stat_result) -> bool:
    """Return True if another change of the file would show in `file_version`: the last one was not just now."""
    return time.time() - max(status.st_ctime, status.st_mtime) >= SETTLED
