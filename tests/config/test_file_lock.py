"""`FileLock`: released means free, whoever has a copy of the handle."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nexus_cli.config.file_lock import FileLock


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
