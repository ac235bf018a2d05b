"""Shorten one message: its text and the strings of its call arguments, cut in the middle with a visible marker.

Pure. `nexus_cli.conversation.truncation` chooses the messages and their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.conversation.groups import Measure
from nexus_cli.core.elide import Count, Marker, elide_text
from nexus_cli.core.entry import ItemForm, WindowItem, is_placeholder
from nexus_cli.core.json_value import compact, map_texts
from nexus_cli.core.message import Role, ToolCall


@dataclass(frozen=True, slots=True)
class MessageElider:
    """Shortens messages with these counters and markers."""

    count: Count
    measure: Measure
    marker: Callable[[WindowItem], Marker]
    """Returns the marker for the text of an item."""
    inner: Callable[[WindowItem], Marker]
    """Returns the marker for a string inside its call arguments, whose offsets are those of that string alone."""

    def elide(self, item: WindowItem, cap: int, worth: int) -> WindowItem:
        """Return `item` in about `cap` tokens, at least its markers. Return it unchanged if that would not make it
        smaller, if it has the person's words and would save at most `worth` tokens, or if it is a placeholder, which
        is generated each time."""
        if is_placeholder(item):
            return item
        message = item.message
        texts = [self.count(message.content), *(self.count(call.arguments_text) for call in message.tool_calls)]
        height = fill_level(texts, cap - (item.tokens - sum(texts)))
        text = self._elide_text(message.content, height, self.marker(item))
        calls = tuple(self._elide_call(call, height, self.inner(item)) for call in message.tool_calls)
        short = replace(message, content=text, tool_calls=calls)
        tokens = self.measure(short, item.preamble)
        if tokens >= item.tokens - (worth if message.role is Role.USER else 0):
            return item
        form = item.form if item.form is ItemForm.SUMMARY else ItemForm.ELIDED
        return replace(item, form=form, message=short, tokens=tokens)

    def _elide_call(self, call: ToolCall, cap: int, marker: Marker) -> ToolCall:
        """Return `call` with its longest strings cut; if that is not enough, with one marker for all arguments."""
        full_size = self.count(call.arguments_text)
        if full_size <= cap:
            return call
        leaves = [self.count(text) for text in _strings(call.arguments)]
        height = fill_level(leaves, cap - (full_size - sum(leaves)))
        lean = map_texts(call.arguments, lambda text: self._elide_text(text, height, marker))
        tokens = self.count(compact(lean))
        if tokens > cap:
            length = len(call.arguments_text)
            bare = {"...": marker(0, length, length, full_size)}
            lean = bare if self.count(compact(bare)) < tokens else lean
        return replace(call, arguments=lean)

    def _elide_text(self, text: str, cap: int, marker: Marker) -> str:
        """Return `text` in about `cap` tokens, only its marker if there is no room, never longer than before."""
        full_size = self.count(text)
        if full_size <= cap:
            return text
        short = elide_text(text, cap, self.count, marker).text or marker(0, len(text), len(text), full_size)
        return short if self.count(short) < full_size else text


def fill_level(sizes: Sequence[int], budget: int) -> int:
    """Return the size to which the largest ones must be cut so that all together fit `budget`."""
    remaining = max(0, budget)
    for place, value in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - place)
        if value > share:
            return share
        remaining -= value
    return max(sizes, default=0)


def _strings(value: Any) -> list[str]:
    """Yield every string value in JSON data."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for item in inside for text in _strings(item)]
