"""The completion menu: rows below the input box, one for each choice, the selected one with a sign.

Owns how the rows look in the columns there are. What is offered, and which keys move in it, is known elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import ConditionalContainer, Dimension, FormattedTextControl, Window
from prompt_toolkit.utils import get_cwidth

ROWS = 8
"""Rows of the menu at most; a third of a low terminal."""
_NAME = 0.6
"""Share of the columns that a name takes at most beside an explanation."""


def menu(buffer: Buffer, wanted: Callable[[], bool]) -> ConditionalContainer:
    """The menu of `buffer` as a container that is there while `wanted` and there is something to choose."""

    def rows() -> StyleAndTextTuples:
        state = buffer.complete_state
        if state is None:
            return []
        return lines(state.completions, state.complete_index, get_app().output.get_size().columns)

    def height() -> Dimension:
        state = buffer.complete_state
        count = len(state.completions) if state else 0
        most = max(1, min(ROWS, get_app().output.get_size().rows // 3, count))
        return Dimension(min=0, preferred=most, max=most)

    def there() -> bool:
        return wanted() and buffer.complete_state is not None and bool(buffer.complete_state.completions)

    window = Window(FormattedTextControl(rows), height=height, style="class:input.menu", always_hide_cursor=True)
    return ConditionalContainer(window, Condition(there))


def lines(completions: list[Completion], selected: int | None, columns: int) -> StyleAndTextTuples:
    """The rows, each a line of at most `columns` columns; names keep their end, explanations their beginning."""
    widest = max((get_cwidth(one.display_text) for one in completions), default=0)
    explained = any(one.display_meta_text for one in completions)
    room = max(1, columns - 3)
    named = min(widest, max(room // 2, int(room * _NAME)) if explained else room)
    shown: StyleAndTextTuples = []
    for number, one in enumerate(completions):
        current = number == selected
        style = "class:input.menu.current bold" if current else "class:input.menu"
        name = _end(one.display_text, named)
        left = room - named - 2
        told = _begin(one.display_meta_text, left) if explained and left > 8 else ""
        if current:
            shown.append(("[SetCursorPosition]", ""))
        shown.append((style, ("> " if current else "  ") + name))
        if told:
            shown.append(("class:input.menu.meta", " " * (named - get_cwidth(name) + 2) + told))
        shown.append(("", "\n"))
    return shown[:-1]


def _begin(text: str, columns: int) -> str:
    if get_cwidth(text) <= columns:
        return text
    while text and get_cwidth(text) > columns - 1:
        text = text[:-1]
    return text.rstrip() + "\u2026"


def _end(text: str, columns: int) -> str:
    if get_cwidth(text) <= columns:
        return text
    while text and get_cwidth(text) > columns - 1:
        text = text[1:]
    return "\u2026" + text
