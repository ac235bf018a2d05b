"""Fold big pastes: the input box has one character for each, drawn as `[pasted 214 lines]`.

Owns these characters, their labels and texts, and the drawing of special characters in the box. Each is one unit for
every key: moving, deleting, killing, yanking and undoing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from nexus_cli.core.attachment import Trigger
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.piped import MAX_INPUT

FOLDED_LINES = 10
FOLDED_CHARACTERS = 1000
"""Lines or characters above which a paste is folded."""
REMEMBERED = 64 * 1024
"""Most characters of a folded paste that the history keeps; for longer ones it keeps the label."""

# The last private-use plane: no font has glyphs there.
_FIRST, _LAST = 0x100000, 0x10FFFD
MARKS = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
"""Matches the characters that may represent a paste."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text to send with a message."""

    text: str
    what: str
    """Its description for the person until then."""


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """One message taken from the input box."""

    text: str
    """The whole text, with pastes unfolded."""
    display: str
    """The text as shown in the box: `[pasted 214 lines]` for a folded paste."""
    pasted: tuple[str, ...] = ()
    """Its pastes, folded or not."""
    files: tuple[str, ...] = ()
    """Mentions of the files that are shown as `[Image #1]`."""
    attached: tuple[Attachment, ...] = ()
    """Texts that it took along."""
    trigger: Trigger | None = None
    """The message with the files that it mentions; None before they are read."""


@dataclass(frozen=True, slots=True)
class _Paste:
    label: str
    text: str
    is_file: bool
    """True if the text is the mention of a file to attach."""


def normalize_newlines(data: str) -> str:
    """Return `data` with `\n` as the only line ending."""
    return data.replace("\r\n", "\n").replace("\r", "\n") if "\r" in data else data


def cut_to_bytes(data: str, most: int = MAX_INPUT) -> str:
    """Return the longest beginning of `data` that takes at most `most` bytes."""
    if len(data) * 4 <= most:
        return data
    if data.isascii():
        return data[:most]
    encoded = data.encode("utf-8", "surrogatepass")
    return data if len(encoded) <= most else encoded[:most].decode("utf-8", "ignore")


class Pastes:
    """The pastes of one input box."""

    def __init__(self) -> None:
        self._pastes: dict[str, _Paste] = {}
        self._next = _FIRST
        self._inserted: list[str] = []
        """All pastes since the last message."""

    def fold_if_long(self, text: str, beside: str, *, cut: bool = False) -> str:
        """Return the text to insert for a pasted `text`: itself, or a character for it if `beside` leaves no room."""
        self._inserted.append(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        small = lines <= FOLDED_LINES and len(text) <= FOLDED_CHARACTERS
        if small and not cut and (text.isascii() or not any(mark in self._pastes for mark in MARKS.findall(text))):
            return text
        size = f"{lines:,} lines" if lines > FOLDED_LINES else f"{len(text):,} characters"
        return self.fold(text, f"pasted {size}" + (f", cut at {MAX_INPUT >> 20} MiB" if cut else ""), beside)

    def fold(self, text: str, title: str, beside: str, *, is_file: bool = False) -> str:
        """Return a character for `text`, shown as `[title]`, with a number if `beside` has one with that label. The
        mention of a file always has a number."""
        used_labels = {self._pastes[mark].label for mark in self._marks(beside)}
        numbers = range(1, len(used_labels) + 2)
        labels = (f"[{title} #{number}]" if is_file or number > 1 else f"[{title}]" for number in numbers)
        mark = self._mark(beside)
        self._pastes[mark] = _Paste(next(label for label in labels if label not in used_labels), text, is_file)
        return mark

    def label(self, mark: str) -> str | None:
        """Return the label of a character of `MARKS`, None if it represents no paste."""
        paste = self._pastes.get(mark)
        return paste.label if paste else None

    def expand(self, text: str) -> str:
        """Return `text` with all pastes unfolded."""
        return self._replaced(text, lambda paste: paste.text)

    def label_pastes(self, text: str) -> str:
        return self._replaced(text, lambda paste: paste.label)

    def for_history(self, text: str) -> str:
        """Return `text` for the history: pastes unfolded, except for long ones, whose size is given."""

        def shorten(paste: _Paste) -> str:
            if len(paste.text) <= REMEMBERED:
                return paste.text
            if "characters" in paste.label:
                return paste.label
            return f"{paste.label[:-1]}: {len(paste.text):,} characters]"

        return self._replaced(text, shorten)

    def list_files(self, text: str) -> tuple[str, ...]:
        """Return the mentions of files that `text` has as characters."""
        pastes = (self._pastes[mark] for mark in self._marks(text))
        return tuple(paste.text for paste in pastes if paste.is_file)

    def take_inserted(self, text: str) -> tuple[str, ...]:
        """Return the pastes since the last message that `text` contains, and forget them all."""
        inserted, self._inserted = self._inserted, []
        return tuple(dict.fromkeys(piece for piece in inserted if piece.strip() and piece in text))

    def _replaced(self, text: str, by: Callable[[_Paste], str]) -> str:
        if text.isascii() or not self._pastes:
            return text

        def replaced(match: re.Match[str]) -> str:
            paste = self._pastes.get(match[0])
            return match[0] if paste is None else by(paste)

        return MARKS.sub(replaced, text)

    def _marks(self, text: str) -> Iterator[str]:
        return (mark for mark in MARKS.findall(text) if mark in self._pastes)

    def _mark(self, beside: str) -> str:
        while True:
            mark = chr(self._next)
            self._next = self._next + 1 if self._next < _LAST else _FIRST
            if mark not in beside:
                return mark


TAB = "    "
_SPECIAL = re.compile(
    f"{MARKS.pattern}|[\t\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
"""Characters with a different drawing. prompt-toolkit makes other control characters visible."""


class VisibleCharacters(Processor):
    """Draws special characters as longer text; must be the last processor."""

    def __init__(self, label: Callable[[str], str | None]) -> None:
        self._label = label

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the fragments of one line, and the mappings between its characters and its columns."""
        fragments = transformation_input.fragments
        if not any(_SPECIAL.search(fragment[1]) for fragment in fragments):
            return Transformation(fragments)
        visible: StyleAndTextTuples = []
        starts = [0]
        for style, char, *_ in explode_text_fragments(fragments):
            text, extra = self._text(char) if _SPECIAL.match(char) else (char, "")
            visible.append((f"{style} {extra}" if extra else style, text))
            starts.append(starts[-1] + len(text))
        starts.append(starts[-1] + 1)

        def source_to_display(place: int) -> int:
            return starts[min(place, len(starts) - 1)]

        def display_to_source(column: int) -> int:
            return max(i for i, start in enumerate(starts) if start <= column)

        return Transformation(visible, source_to_display, display_to_source)

    def _text(self, char: str) -> tuple[str, str]:
        if char == "\t":
            return TAB, ""
        label = self._label(char)
        if label:
            return label, "class:input.paste bold"
        visible = sanitize(char)
        return visible if visible != char else f"<U+{ord(char):X}>", ""
