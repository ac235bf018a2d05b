"""Decide if a letter typed at a question is the answer or the beginning of words: one rule for every terminal.

No speed of typing approves anything. A question accepts keys once it has been drawn, no key has come for `QUIET`
seconds and the box has no draft. A letter of `ALONE_ANSWERS` that is typed into the empty field after another such
pause answers by itself if nothing follows for `ALONE` seconds. Every other answer needs Enter.
"""

from __future__ import annotations

from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion, find_key

QUIET = 1.0
"""Seconds without a key before a question accepts keys, and before a letter that answers alone."""
ALONE = 1.0
"""Seconds after which a letter is an answer: words are typed faster."""
ALONE_ANSWERS = ("y", "n", *"123456789")
"""Answers that store nothing and apply only to this call, and the numbers of choices."""


class AnswerField:
    """The field of one question: the key that is marked, and whether the text is one letter that was typed after a
    pause."""

    def __init__(self, question: AskedQuestion) -> None:
        self._asked = question
        self.marked = question.marked
        """The place of the key that Enter takes in an empty field, None for none."""
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

    def move(self, by: int) -> None:
        """Mark the next or the previous key."""
        index = self.marked if self.marked is not None else -1 if by > 0 else 0
        self.marked = (index + by) % len(self._asked.keys)

    def type(self, text: str) -> AnswerKey | None:
        """Record that the newest key changed the text; return the key that this answers if nothing follows."""
        before, self._text = self._text, text
        keys, answer_key = self._asked.keys, self._found
        self.marked = keys.index(answer_key) if answer_key is not None else None if text else self._asked.marked
        answers = answer_key is not None and answer_key.key in ALONE_ANSWERS and not answer_key.lasts
        return answer_key if answers and self._paused and not before else None

    def enter(self, text: str) -> str | None:
        """Return the answer that Enter gives: the text, else the marked key; None if none is."""
        if text or not self._asked.keys:
            return text
        return self._asked.keys[self.marked].key if self.marked is not None else None

    def describe_key(self, *, alone: bool) -> str:
        """Describe how the letter in the field becomes an answer, `alone` if nothing follows; "" if it is none."""
        return "" if self._found is None else "Enter, or wait a moment" if alone else "press Enter"

    @property
    def _found(self) -> AnswerKey | None:
        return find_key(self._text, self._asked.keys)
