"""When a letter that is typed at a question is the answer, and when it begins words: one rule for every terminal.

No speed of typing approves anything. A question takes keys once it has been seen, nobody has typed for `QUIET` seconds
and no draft stands in the box. Then the letters of `ALONE_ANSWERS`, typed into the empty field after as long a silence,
answer by themselves when nothing follows for `ALONE` seconds. Every other answer takes Enter.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.ui.render.question_text import AnswerKey, find_key

QUIET = 1.0
"""Seconds without a key before a question takes keys, and before a letter that answers alone."""
ALONE = 1.0
"""Seconds after which a letter is an answer: who types words is not as slow."""
ALONE_ANSWERS = ("y", "n")
"""Answers that store nothing and hold for nothing but this call."""


class LoneKey:
    """Knows whether what stands in the field is one letter that was typed after a silence."""

    def __init__(self) -> None:
        self._at = 0.0
        self._paused = False
        """The newest key came after a silence."""
        self._text = ""

    def press(self, now: float) -> None:
        """Note that a key comes, whatever it does."""
        self._paused, self._at = now - self._at >= QUIET, now

    def rest(self, now: float) -> None:
        """Note that keys went elsewhere until now."""
        self._at, self._paused = now, False

    def find(self, text: str, keys: Sequence[AnswerKey]) -> AnswerKey | None:
        """Note that the newest key has made the field read `text`; return what it answers if nothing follows."""
        before, self._text = self._text, text
        found = find_key(text, keys)
        answers = found is not None and found.key in ALONE_ANSWERS and not found.lasts
        return found if answers and self._paused and not before else None


def describe_key(key: AnswerKey | None, alone: bool) -> str:
    """Return what makes the letter in the field an answer; "" where it is none."""
    return "" if key is None else "Enter, or wait a moment" if alone else "press Enter"
