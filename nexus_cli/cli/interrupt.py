"""What SIGINT, SIGTERM and SIGHUP mean while a turn runs: the first cancels it, a second ends the process at once.

The handlers are Python's own (not the loop's), so that they run also while a write to a slow reader blocks.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType

from nexus_cli.cli import process
from nexus_cli.cli.tell import tell
from nexus_cli.tools.process import kill_all

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _ignore(number: int) -> None:
    """Do nothing about a signal."""


class Interrupt:
    """Holds the three signals from `take` to `release`."""

    def __init__(self) -> None:
        self.signal = 0
        """The first signal that arrived, or 0."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancel: Callable[[], None] | None = None
        self._last_words = ""
        self._told: Callable[[int], None] = _ignore

    @property
    def status(self) -> int:
        """The exit status of the signal that arrived: 130, 143 or 129."""
        return 128 + self.signal

    def take(self, cancel: Callable[[], None], last_words: str = "", told: Callable[[int], None] = _ignore) -> None:
        """From now on the first signal calls `cancel` in the running loop; a second leaves with `last_words`.

        `told` gets the number of the first one at once, also while the loop is blocked.
        """
        self._last_words = last_words
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._cancel = cancel
        for number in NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._arrived)

    def release(self) -> None:
        """From now on a signal ends the process again, as it did before `take`."""
        self._cancel = None
        process.take_signals()

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.signal or self._loop is None or self._cancel is None:
            kill_all()
            if self._last_words:
                tell(self._last_words)
            process.leave(128 + (self.signal or number))
        self.signal = number
        self._told(number)
        self._loop.call_soon_threadsafe(self._cancel)
