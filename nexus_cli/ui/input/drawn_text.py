"""How the text of the input box is drawn: pastes by their labels, invisible characters visible, tabs as spaces.

Owns the way between places in the text and columns of the box. What a character stands for is known in `paste`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from nexus_cli.ui.input.paste import MARKS
from nexus_cli.ui.terminal_sanitizer import sanitize

TAB = "    "
_SPECIAL = re.compile(
    f"{MARKS.pattern}|[\t\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
"""What is not drawn as itself. Other controls are made visible by prompt-toolkit."""


class VisibleCharacters(Processor):
    """Draws special characters as something longer; comes after every other processor."""

    def __init__(self, label: Callable[[str], str | None]) -> None:
        self._label = label

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """The fragments of one line, and the ways between its characters and its columns."""
        fragments = transformation_input.fragments
        if not any(_SPECIAL.search(fragment[1]) for fragment in fragments):
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, char, *_ in explode_text_fragments(fragments):
            text, extra = self._text(char) if _SPECIAL.match(char) else (char, "")
            shown.append((f"{style} {extra}" if extra else style, text))
            starts.append(starts[-1] + len(text))
        starts.append(starts[-1] + 1)

        def source_to_display(place: int) -> int:
            return starts[min(place, len(starts) - 1)]

        def display_to_source(column: int) -> int:
            return max(i for i, start in enumerate(starts) if start <= column)

        return Transformation(shown, source_to_display, display_to_source)

    def _text(self, char: str) -> tuple[str, str]:
        if char == "\t":
            return TAB, ""
        label = self._label(char)
        if label:
            return label, "class:input.paste bold"
        visible = sanitize(char)
        return visible if visible != char else f"<U+{ord(char):X}>", ""
