"""Which notices a person has had today."""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256

from nexus_cli.config.paths import places, private_dir

DAY = 86_400.0


def is_first_today(what: str) -> bool:
    """Return True, and note it in the cache, if `what` was not noted within the last day; True if nothing can be
    noted."""
    mark = places().cache / "notices" / sha256(what.encode()).hexdigest()[:32]
    with suppress(OSError):
        if mark.exists() and time.time() - mark.stat().st_mtime < DAY:
            return False
        private_dir(mark.parent)
        mark.touch()
    return True
