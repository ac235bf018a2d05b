"""Cutting a window to a budget (seed A, laws 2 to 4): a pure function from groups to the slots that stay.

The newest user message and the newest group always stay; where even they do not fit, results inside the newest group
are elided first, then the request down to its floor. What else stays is the strategy's choice. Groups before the first
user message that stays are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.groups import Group, size
from nexus_cli.context.strategies import Strategy
from nexus_cli.core.clip import Marker, clip
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.message import Role

SMALLEST = 48
"""No text is elided below so many tokens: the marker alone takes most of that."""
MARKER_TOKENS = 80


@dataclass(frozen=True, slots=True)
class Hole:
    """Groups left out between two kept ones."""

    before: int
    """Index in `Cut.groups` of the kept group that follows."""
    first: int
    last: int
    """Entries left out, both included."""
    groups: int
    tokens: int
    marker: Slot | None = None
    """The line that already stands there, when nothing new was left out."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What stays, what does not, and which slots were shortened (original, elided)."""

    groups: tuple[Group, ...]
    holes: tuple[Hole, ...]
    elided: tuple[tuple[Slot, Slot], ...]


@dataclass(frozen=True, slots=True)
class Shears:
    """How texts are shortened: the counter, and the marker for a slot."""

    count: Callable[[str], int]
    marker: Callable[[Slot], Marker]

    def shorten(self, slot: Slot, cap: int) -> Slot:
        """`slot` in about `cap` tokens: its text, then the strings of its call arguments, cut in the middle."""
        message = slot.message
        fixed = slot.tokens - self.count(message.content)
        marker = self.marker(slot)
        clipped = clip(message.content, max(SMALLEST, cap - fixed), self.count, marker)
        calls = message.tool_calls
        saved = 0
        if calls and slot.tokens - clipped.tokens > cap:
            share = max(SMALLEST, cap // len(calls))
            lean = tuple(replace(call, arguments=self._lean(call.arguments, share, marker)) for call in calls)
            saved = sum(
                self.count(str(old.arguments)) - self.count(str(new.arguments))
                for old, new in zip(calls, lean, strict=True)
            )
            calls = lean
        short = replace(message, content=clipped.text, tool_calls=calls)
        tokens = fixed + self.count(clipped.text) - saved
        return replace(slot, form=Form.ELIDED, message=short, tokens=tokens) if tokens < slot.tokens else slot

    def _lean(self, value: Any, cap: int, marker: Marker) -> Any:
        if isinstance(value, str):
            return clip(value, cap, self.count, marker).text
        if isinstance(value, Mapping):
            return {key: self._lean(item, cap, marker) for key, item in value.items()}
        if isinstance(value, list):
            return [self._lean(item, cap, marker) for item in value]
        return value


def newest_request(groups: Sequence[Group]) -> int | None:
    """Index of the newest user message (a summary counts, a marker does not), or None."""
    for index in reversed(range(len(groups))):
        slot = groups[index][0]
        if slot.message.role is Role.USER and slot.form is not Form.MARKER:
            return index
    return None


def cut(
    groups: Sequence[Group], *, hard: int, soft: int, floor: int, strategy: Strategy, shears: Shears, summaries: bool
) -> Cut:
    """Cut `groups` to `soft` tokens, never above `hard` (tokens for messages alone).

    `floor` is the least that the request keeps; with `summaries`, summaries stay as long as they fit.
    """
    places = [index for index, group in enumerate(groups) if group[0].form is not Form.MARKER]
    everything, groups = groups, [groups[index] for index in places]
    if not groups:
        return Cut((), (), ())
    request = newest_request(groups)
    required = {len(groups) - 1} | ({request} if request is not None else set())
    lean = _shrunk(list(groups), request, max(hard, floor), floor, shears)
    sizes = [size(group) for group in lean]
    if summaries:
        for index, group in enumerate(lean):
            if group[0].form is Form.SUMMARY and sum(sizes[i] for i in required | {index}) <= soft:
                required.add(index)
    kept = sorted(strategy.choose(sizes, min(hard, soft), required))
    if request is not None:
        first = next(index for index in kept if lean[index][0].message.role is Role.USER)
        kept = [index for index in kept if index >= first]
    elided = tuple(
        (old, new)
        for index in kept
        for old, new in zip(groups[index], lean[index], strict=True)
        if old is not new
    )
    return Cut(tuple(lean[i] for i in kept), tuple(_holes(everything, [places[i] for i in kept])), elided)


def _shrunk(groups: list[Group], request: int | None, hard: int, floor: int, shears: Shears) -> list[Group]:
    """`groups` with the newest one, then the request, elided so far that both fit `hard`."""
    newest = len(groups) - 1
    others = 0 if request in (None, newest) else size(groups[request or 0])
    if others + size(groups[newest]) <= hard:
        return groups
    if request == newest:
        groups[newest] = _fit_group(groups[newest], hard, shears)
        return groups
    least = min(others, max(floor, SMALLEST))
    groups[newest] = _fit_group(groups[newest], max(hard - others, min(hard - least, hard // 2)), shears)
    if request is not None and others + size(groups[newest]) > hard:
        groups[request] = _fit_group(groups[request], max(hard - size(groups[newest]), least), shears)
    return groups


def _fit_group(group: Group, budget: int, shears: Shears) -> Group:
    """`group` in `budget` tokens: its largest slots are levelled down to one height."""
    for _ in range(4):
        excess = size(group) - budget
        if excess <= 0:
            break
        level = _level([slot.tokens for slot in group], budget)
        group = tuple(shears.shorten(slot, level) if slot.tokens > level else slot for slot in group)
        budget -= max(0, size(group) - budget) // 2
    return group


def _level(sizes: Sequence[int], budget: int) -> int:
    """The height to which the largest sizes come down so that all together fit `budget`."""
    left = max(0, budget)
    for rest, value in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rest)
        if value > share:
            return max(SMALLEST, share)
        left -= value
    return max(sizes)


def _holes(groups: Sequence[Group], kept: Sequence[int]) -> list[Hole]:
    holes = []
    previous = -1
    for position, index in enumerate(kept):
        missing = groups[previous + 1 : index]
        if missing:
            real = [group for group in missing if group[0].form is not Form.MARKER]
            first = groups[previous][-1].entry + 1 if previous >= 0 else 1
            old = None if real else missing[-1][0]
            holes.append(Hole(position, first, missing[-1][-1].entry, len(real), sum(map(size, real)), old))
        previous = index
    return holes
