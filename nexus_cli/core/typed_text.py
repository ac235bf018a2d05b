"""Separate the typed text of a message from the attachments after it, and find their contents."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape

from nexus_cli.core.elide import one_line

CONTINUE_MESSAGE = "Continue where you stopped."
"""Message of a session that resumes without a prompt after an unfinished reply."""
NOT_DONE = "Not done yet: "
"""Beginning of a message of `--until`. Its first sentence says how the command ended."""
LONGEST_TYPED = 4_000
"""Most characters of typed text: a longer one probably contains a paste (a log, a page)."""
_BLOCKS = ("stdin", "file", "folder", "shell", "recalled", "skill", "command", "agent", "resource")
"""Tags of the blocks with attachments, which follow the typed text."""
_BLOCK = re.compile(rf"^[^\S\n]*<(?:{'|'.join(_BLOCKS)})\b", re.MULTILINE)
_ATTACHED = re.compile(rf"^<(?:stdin\b|(?:{'|'.join(_BLOCKS)}) \w+=)", re.MULTILINE)
"""The beginning of a block as nexus writes it: all but `stdin` have an attribute."""
_OPENING = re.compile(
    r'^<(?:(?P<stdin>stdin)|file path="(?P<path>[^"\n]*)"'
    r'(?: lines="(?P<line>\d+)-\d+"| (?:pages|cells)="[\d-]+" of="\d+")?)>\n',
    re.MULTILINE,
)
GIVEN_BLOCK = re.compile(r'<(shell|recalled) \w+="([^"\n]*)".*?\n</\1>(?:\n\n(?=<)|\Z)', re.DOTALL)
"""An attached block that the words of its message do not name, to match at the beginning of the attachments: output of
a `!` command, or a recalled drop. The second group is the command, escaped, or the id."""
_CLOSED = tuple(f"</{name}>" for name in _BLOCKS)
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b\d[.])(?<!\b\d\d[.])(?<!\bvs[.])(?<!\bi[.]e[.])(?<!\be[.]g[.])(?<!\betc[.])(?<!\bcf[.])\s+"
    r"|(?<=[\u3002\uff01\uff1f])\s*",
    re.IGNORECASE,
)
"""The gap between two sentences; numbers and abbreviations end none."""
_ENDS = (".", "!", "?", ":", "\u3002", "\uff01", "\uff1f", "\uff1a")
"""Last characters of a line that end a paragraph."""
_COLONS = (":", "\uff1a")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s")
"""The beginning of a list item."""
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts without spaces between words, as a character range of a regular expression."""
_LETTER = rf"[^\W{UNSPACED}]"
"""A letter or digit of a script with spaces between words."""
_HOLE = re.compile(r"^\[\.\.\. [\d,]{1,12} tokens ", re.MULTILINE)
"""The marker of an elided middle, in which a block may have begun."""
_TAG = 64
"""Characters after the longest typed text that are searched for the first block."""


@dataclass(frozen=True, slots=True)
class AttachedText:
    """The content of a `<stdin>` or `<file>` block: `text[start:end]` of its message."""

    name: str
    start: int
    end: int
    first_line: int = 1
    """Number of its first line."""


def find_attached_texts(message: str) -> list[AttachedText]:
    """Return the contents of the attached blocks of `message`, in order; a block without an end is none."""
    attached_texts: list[AttachedText] = []
    opening = _OPENING.search(message)
    while opening:
        start, closing = opening.end(), "\n</stdin>" if opening["stdin"] else "\n</file>"
        # stdin is attached last, whatever tags it contains.
        end = message.rfind(closing, start) if opening["stdin"] else message.find(closing, start)
        if end < start:
            break
        name = "stdin" if opening["stdin"] else one_line(unescape(opening["path"]))
        attached_texts.append(AttachedText(name, start, end + 1, int(opening["line"] or 1)))
        opening = _OPENING.search(message, end)
    return attached_texts


def typed_text(message: str) -> str:
    """Return the text before the first attached block, or "" if it is longer than `LONGEST_TYPED`."""
    head = message[: LONGEST_TYPED + _TAG]
    block = _BLOCK.search(head)
    typed = head[: block.start()] if block else head
    return typed if len(typed) <= LONGEST_TYPED else ""


def typed_words(message: str, pasted: Iterable[str]) -> str:
    """Return the words of a message that a person typed, without attachments and with a space for each `pasted`
    text."""
    words = split_attachments(message)[0]
    for text in pasted:
        words = words.replace(text, " ")
    return words


def split_attachments(message: str) -> tuple[str, str]:
    """Split a message into the typed text, of any length, and the attachments.

    A message has attachments only if it ends with a closing tag. They begin with the first block as nexus writes it and
    extend to the end of the message, whatever text a file in them contains.
    """
    if not message.rstrip().endswith(_CLOSED):
        return message, ""
    match = _ATTACHED.search(message) or _HOLE.search(message)
    return (message[: match.start()].rstrip(), message[match.start() :]) if match else (message, "")


def enclosing_words(text: str, quote: str) -> str:
    """Return the sentences of `text` that contain `quote`, see `QuotedText.find`."""
    return QuotedText(text).find(quote)


class QuotedText:
    """A text, split and folded once, in which quotations are searched."""

    def __init__(self, text: str) -> None:
        self._paragraphs = _paragraphs(text)
        numbered_parts = enumerate(self._paragraphs)
        self._units = [
            (number, unit) for number, part in numbered_parts for unit in _SENTENCE.split(part) if unit.strip()
        ]
        self._starts, pieces, end = list[int](), list[str](), 0
        for _, sentence in self._units:
            self._starts.append(end)
            pieces.append(f"{_fold(sentence)} ")
            end += len(pieces[-1])
        self._joined = "".join(pieces)

    @property
    def sentences(self) -> list[str]:
        """The sentences, in their order."""
        return [sentence.strip() for _, sentence in self._units]

    def find(self, quote: str) -> str:
        """Return the sentences that contain `quote`, ignoring white space and case; "" if there are none.

        A part of a sentence may mean the opposite of the whole ("push to main" of "never push to main"). A line after
        one that ends in a colon is returned with that line for the same reason.
        """
        folded_quote = _fold(quote)
        if not any(map(str.isalnum, folded_quote)):
            return ""
        position = _find_words(self._joined, folded_quote)
        if position < 0:
            return ""
        units = self._units
        first = bisect_right(self._starts, position) - 1
        last = bisect_right(self._starts, position + len(folded_quote) - 1) - 1
        return _introduction(self._paragraphs, units[first][0]) + "\n".join(
            " ".join(sentence.strip() for number, sentence in units[first : last + 1] if number == paragraph)
            for paragraph in dict.fromkeys(number for number, _ in units[first : last + 1])
        )


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs and list items of `text`, with wrapped lines joined."""
    paragraphs, is_open = list[str](), False
    for line in text.split("\n"):
        if is_open and line.strip() and not _ITEM.match(line):
            paragraphs[-1] += f" {line.strip()}"
        elif line.strip():
            paragraphs.append(line)
        is_open = bool(line.strip()) and not line.rstrip().endswith(_ENDS)
    return paragraphs


def _introduction(paragraphs: Sequence[str], number: int) -> str:
    """Return the sentence ending in a colon that introduces paragraph `number` or its list, "" if there is none."""
    above = list(paragraphs[:number])
    while above and _ITEM.match(paragraphs[number]) and _ITEM.match(above[-1]):
        above.pop()
    last = _SENTENCE.split(above[-1].strip())[-1] if above else ""
    return f"{last}\n" if last.endswith(_COLONS) else ""


def _find_words(joined: str, words: str) -> int:
    """Return the offset of `words` as whole words, -1 if it does not occur."""
    if words not in joined:  # ten times as fast as the expression below
        return -1
    before = f"(?<!{_LETTER})" if words[0].isalnum() else ""
    after = f"(?!{_LETTER})" if words[-1].isalnum() else ""
    match = re.search(f"{before}{re.escape(words)}{after}", joined)
    return match.start() if match else -1


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
