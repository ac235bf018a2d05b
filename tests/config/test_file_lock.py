"""`FileLock`: released means free, whoever has a copy of the handle."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from nexus_cli.config.file_lock import FileLock, read_held


def test_a_released_lock_is_free_while_a_forked_child_still_has_its_handle(tmp_path: Path) -> None:
    lock = FileLock.take(tmp_path / "lock")
    assert lock is not None and FileLock.take(tmp_path / "lock") is None
    child = os.fork()
    if not child:  # between fork and exec, as a thread that starts a program
        time.sleep(30)
        os._exit(0)
    try:
        lock.release()
        again = FileLock.take(tmp_path / "lock")
        assert again is not None
        again.release()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_what_a_lock_file_says_is_whole_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.lock"
    lock = FileLock.take(path)
    assert lock is not None and read_held(path) == b""
    lock.write(json.dumps(["long"] * 9))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("ftruncate", "pwrite"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            lock.write("[]")
        assert json.loads(read_held(path) or "") == []
    lock.release()
    assert read_held(path) is None
    lock = FileLock.take(path)
    assert lock is not None, "looking at it keeps nobody out"
    lock.release()
