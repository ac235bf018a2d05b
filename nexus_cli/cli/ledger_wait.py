"""Wait for the server of the ledger before a session is opened."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.ui.print.stream import write_stderr_line

PAUSE = 1.0
"""Seconds between two attempts."""


@dataclass
class LedgerWait:
    """Waits at most `seconds`, after a line on stderr; Ctrl+C ends the process."""

    seconds: float
    _deadline: float | None = None

    def __call__(self, error: NexusError) -> bool:
        """Wait a moment; return False when the time is over."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.seconds
            if self.seconds:
                write_stderr_line(f"nexus: {error.message}; waiting for the server (Ctrl+C to stop)")
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(PAUSE)
        return True
