"""Quote the person's words, pins and the assistant's answers in a summary or a marker (law 6). Pure.

The newest get room first. A pasted text does not displace typed words: a message larger than the whole room is cut to a
part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.core.elide import Count, elide_text, plain_marker

MIN_QUOTED_TOKENS = 64
"""Fewest tokens of a message's part that is worth quoting."""
LONG_SHARE = 0.25
"""Share of the room for one message that exceeds all of it."""
LONG_TOTAL_SHARE = 0.5
"""Share of the room for all such messages, so that several pastes do not displace typed words either."""
MAX_LONG = 16
"""Most such messages that are read."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation of one message."""

    entry: int
    text: str
    whole: bool = True
    """False if its middle was left out."""
    tokens: int = 0
    """Tokens of the quotation."""
    pin: str = ""
    """`p1`, `p2`, ... if the person pinned the text; the entry is 0 for words that are no message."""

    @property
    def labelled(self) -> str:
        """The quotation below a line with its pin and its message."""
        place = ", ".join(filter(None, (self.pin, f"message {self.entry}" if self.entry else "")))
        return f"[{place}]\n{quote_lines(self.text)}"

    def labelled_tokens(self, count: Count) -> int:
        """Return the tokens of the labelled quotation in the window."""
        return count(self.labelled) + 2


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Counts and chooses quotations."""

    count: Count

    def cost(self, words: str) -> int:
        """Return the tokens of the quotation."""
        return self.count(quote_lines(words)) + 2

    def newest(self, texts: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
        """Return the first items of `texts`, up to one that does not fit into `room` tokens; the rest is not read."""
        fitting, remaining, long = [], room, 0
        for entry, text in texts:
            fitting.append((entry, text))
            cost = self.cost(text)
            long += cost > room
            remaining -= cost if cost <= room else 0
            if remaining < 0 or long > MAX_LONG:
                break
        return fitting

    def choose_quotes(self, texts: Iterable[tuple[int, str]], room: int) -> tuple[Quote, ...]:
        """Return the quotations of `texts` that fit, oldest first; the newest get room first.

        A text larger than the whole room is cut to its share. The first other text that does not fit is cut to the rest
        of the room, and is the last one.
        """
        quotes, remaining, remaining_of_long = list[Quote](), room, int(room * LONG_TOTAL_SHARE)
        for entry, text in sorted(texts, reverse=True):
            cost = self.cost(text)
            most = remaining if cost <= room else min(remaining, int(room * LONG_SHARE), remaining_of_long)
            if cost <= most:
                quotes.append(Quote(entry, text, tokens=cost))
                remaining -= cost
                continue
            if short := self._cut(text, most):
                quotes.append(Quote(entry, short, whole=False, tokens=self.cost(short)))
                remaining -= quotes[-1].tokens
                remaining_of_long -= quotes[-1].tokens
            if cost <= room:
                break
        return tuple(reversed(quotes))

    def _cut(self, text: str, room: int) -> str:
        """Return `text` cut to `room` tokens as a quotation; "" if too little would remain."""
        share = min(1.0, self.count(text) / max(1, self.count(quote_lines(text))))
        limit = int((room - 4) * share)
        while limit > MIN_QUOTED_TOKENS:  # the remaining lines may be shorter than average, and need more marks
            short = elide_text(text, limit, self.count, plain_marker).text
            if self.cost(short) <= room:
                return short
            limit = limit * 3 // 4
        return ""


def fit_labelled(quotes: Sequence[Quote], room: int, count: Count) -> list[Quote]:
    """Return the labelled quotations that fit `room` tokens, in their order; the last get room first."""
    fitting = []
    for quote in reversed(quotes):
        if (cost := quote.labelled_tokens(count)) <= room:
            room -= cost
            fitting.append(quote)
    return fitting[::-1]


def missing_line(number: int, noun: str, drop_id: str, recalls: bool) -> str:
    """Return the line that replaces missing content: `[15 earlier messages: recall("d5")]`."""
    plural = f"{number} {noun}{'s' if number > 1 else ''}"
    return f'[{plural}: recall("{drop_id}")]' if recalls else f"[{plural}: left out]"


def quote_lines(words: str) -> str:
    """Return `words` with `> ` before each line."""
    return "\n".join(f"> {line}" for line in words.split("\n"))


def list_labelled(title: str, quotes: Sequence[Quote]) -> str:
    """Return the labelled quotations below their title; "" for none."""
    return "\n".join([title, *(quote.labelled for quote in quotes)]) if quotes else ""
