"""Decide if a letter typed at a question is the answer or the beginning of words: one rule for every terminal.

No speed of typing approves anything. A question accepts keys once it has been drawn, no key has come for `QUIET`
seconds and the box has no draft. A letter of `ALONE_ANSWERS` that is typed into the empty field after another such
pause answers by itself if nothing follows for `ALONE` seconds. Every other answer needs Enter.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.ui.asked_question import AnswerKey, find_key

QUIET = 1.0
"""Seconds without a key before a question accepts keys, and before a letter that answers alone."""
ALONE = 1.0
"""Seconds after which a letter is an answer: words are typed faster."""
ALONE_ANSWERS = ("y", "n", *"123456789")
"""Answers that store nothing and apply only to this call, and the numbers of choices."""


class LoneKey:
    """Detects if the field has one letter that was typed after a pause."""

    def __init__(self) -> None:
        self._at = 0.0
        self._paused = False
        """True if the newest key came after a pause."""
        self._text = ""

    def press(self, now: float) -> None:
        """Record a key, whatever it does."""
        self._paused, self._at = now - self._at >= QUIET, now

    def rest(self, now: float) -> None:
        """Record that keys went elsewhere until now."""
        self._at, self._paused = now, False

    def find(self, text: str, keys: Sequence[AnswerKey]) -> AnswerKey | None:
        """Record that the newest key changed the field to `text`; return its answer if nothing follows."""
        before, self._text = self._text, text
        found = find_key(text, keys)
        answers = found is not None and found.key in ALONE_ANSWERS and not found.lasts
        return found if answers and self._paused and not before else None


def describe_key(key: AnswerKey | None, alone: bool) -> str:
    """Describe how the letter in the field becomes an answer; "" if it is none."""
    return "" if key is None else "Enter, or wait a moment" if alone else "press Enter"
