"""Text that is to be printed above the app: given out in pieces, at a cost that grows with its length and no faster."""

from __future__ import annotations

from collections import deque


class PrintQueue:
    """What was put and is not printed yet, in order. Everything in it ends in a newline."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._at = 0
        """Where the rest of the first text begins."""

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        """`text` comes after all that is there; it ends in a newline."""
        self._texts.append(text)

    def take(self, most: int) -> str:
        """The next whole lines, of `most` characters and what is missing to the end of the last line."""
        parts: list[str] = []
        missing = most
        while self._texts and missing > 0:
            text, begin = self._texts[0], self._at
            end = text.find("\n", begin + missing - 1) + 1 or len(text)
            parts.append(text[begin:end])
            missing -= end - begin
            if end < len(text):
                self._at = end
            else:
                self._texts.popleft()
                self._at = 0
        return "".join(parts)

    def all(self) -> str:
        """Everything."""
        return self.take(1 << 62)
