"""Notify a person who is away when work is done or waits: bell, window title, desktop notification.

A person who has pressed a key within `AWAY_SECONDS` seconds is present. The terminal is never queried.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from nexus_cli.core.shared_types import TakeText
from nexus_cli.text.cells import cut, one_line

AWAY_SECONDS = 10.0
"""Seconds without a key after which the person counts as away."""
LONGEST = 120
"""Most cells of a notification."""
PLAIN_TITLE = "nexus"
_KNOWN_TERMINALS = ("ghostty", "WezTerm", "iTerm.app")
"""`TERM_PROGRAM` of terminals that support OSC 9, some of them OSC 777 as well: they get only one of the two."""


class Notifier:
    """Writes the notifications; `note_key` marks the person as present."""

    def __init__(self, write: TakeText, *, enabled: bool) -> None:
        """`write` sends its text to the terminal unchanged."""
        self._write = write
        self.enabled = enabled
        self.run: Callable[[str], object] | None = None
        """Runs the person's own command with the line of a notification."""
        self._key_at = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._waiting = ""
        """Line about work that waits for the person now."""
        self._called = False

    def note_key(self) -> None:
        """Record a key, or the start of the screen, and restore the window title."""
        self._key_at = asyncio.get_running_loop().time()
        if self._waiting:
            self.notify(self._waiting, waits=True)
        if self._called:
            self._called = False
            # A terminal without a title stack keeps the plain title.
            self._write(f"\x1b]2;{PLAIN_TITLE}\x07\x1b[23;2t")

    def notify(self, text: str, *, waits: bool = False) -> None:
        """Notify the person with `text` if they are away; if work `waits`, also later. Replaces what waits."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._waiting = text if waits else ""
        if not text or not (self.enabled or self.run):
            return
        loop = asyncio.get_running_loop()
        delay = self._key_at + AWAY_SECONDS - loop.time()
        if delay <= 0:
            self._call(text)
        elif waits:
            self._due = loop.call_later(delay, self._call, text)

    def end(self) -> None:
        """End all notifications and restore the window title."""
        self.enabled, self.run = False, None
        self.notify("")
        self.note_key()

    def _call(self, text: str) -> None:
        if self.run:
            self.run(one_line(text))
        if not self.enabled:
            return
        text = cut(one_line(text), LONGEST, "...").replace(";", ",")
        title = ("" if self._called else "\x1b[22;2t") + f"\x1b]2;{PLAIN_TITLE}: {text}\x07"
        self._called = True
        self._write(f"\x07{title}{self._desktop(text)}")

    def _desktop(self, text: str) -> str:
        """Return the desktop notification in each form that the terminal may support, through tmux if it runs."""
        forms = [f"\x1b]9;{PLAIN_TITLE}: {text}\x07", f"\x1b]777;notify;{PLAIN_TITLE};{text}\x07"]
        if os.environ.get("TERM_PROGRAM") in _KNOWN_TERMINALS or os.environ.get("KITTY_WINDOW_ID"):
            del forms[1]
        if not os.environ.get("TMUX"):
            return "".join(forms)
        doubled = (form.replace("\x1b", "\x1b\x1b") for form in forms)
        return "".join(f"\x1bPtmux;{form}\x1b\\" for form in doubled)
