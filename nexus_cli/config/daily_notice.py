"""Note in the cache that a notice was shown, so that it is shown once a day."""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256

from nexus_cli.config.paths import places, private_dir

DAY = 86_400.0


def is_first_today(key: str, *, notes: bool) -> bool:
    """Return True if `key` was not noted in the cache within the last day, or nothing can be noted; note it, if it
    `notes`."""
    mark = places().cache / "notices" / sha256(key.encode()).hexdigest()[:32]
    with suppress(OSError):
        if mark.exists() and time.time() - mark.stat().st_mtime < DAY:
            return False
        if notes:
            private_dir(mark.parent)
            mark.touch()
    return True
