"""Cut a window to a budget (laws 2 to 4): a pure function from groups to the items that stay.

The current request with its steering and the newest group always stay. If even they do not fit, results inside the
newest group are elided first, then the request down to its floor. The strategy chooses the other groups that stay.
Groups before the first kept user message are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.conversation.elide_message import MessageElider, fill_level
from nexus_cli.conversation.groups import Group, flatten, newest_entry_id, run_requests
from nexus_cli.conversation.strategies import Strategy
from nexus_cli.core.entry import ItemForm, WindowItem, sum_tokens
from nexus_cli.core.message import Role

REQUEST_SHARE = 2 / 3
"""Share of the messages' room that an oversized request is cut to, a little more than when it was recorded: the run
needs the rest for its steps."""
TRIES = 4
"""Attempts at a size before everything is cut down to its markers."""
MIN_SAVED_TOKENS = 32
"""Least tokens that cutting the person's words must save, unless they do not fit otherwise: a short request is not
replaced by a marker of the same length."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Groups left out between two kept ones."""

    before: int
    """Index in `Truncation.groups` of the kept group that follows."""
    first: int
    last: int
    """First and last left-out entry."""
    tokens: int
    """Tokens of `leaving`."""
    leaving: tuple[WindowItem, ...] = ()
    """Items that leave the window now."""
    markers: tuple[WindowItem, ...] = ()
    """Markers of items left out earlier."""
    marker: WindowItem | None = None
    """The existing marker, if no more items were left out."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """The result of a truncation: kept groups, holes, and shortened items (original, elided)."""

    groups: tuple[Group, ...]
    holes: tuple[Hole, ...]
    elided: tuple[tuple[WindowItem, WindowItem], ...]


def truncate_window(
    groups: Sequence[Group],
    *,
    hard: int,
    soft: int,
    floor: int,
    strategy: Strategy,
    elider: MessageElider,
    summaries: bool,
    run: int,
) -> Truncation:
    """Cut `groups` to `soft` tokens, never above `hard` (tokens for messages alone).

    `floor` is the least that the request keeps; with `summaries`, summaries stay as long as they fit. The current run
    began with entry `run` (0: the newest user message).
    """
    places = [index for index, group in enumerate(groups) if group[0].form is not ItemForm.MARKER]
    everything, groups = groups, [groups[index] for index in places]
    if not groups:
        return Truncation((), (), ())
    requests = run_requests(groups, run)
    required = {len(groups) - 1, *requests}
    lean = _shrink_requests(list(groups), requests, max(hard, floor), floor, elider)
    sizes = [sum_tokens(group) for group in lean]
    if summaries:
        for index, group in enumerate(lean):
            if group[0].form is ItemForm.SUMMARY and sum(sizes[i] for i in required | {index}) <= soft:
                required.add(index)
    kept_indexes = sorted(strategy(sizes, min(hard, soft), required))
    if requests:
        first = next(index for index in kept_indexes if lean[index][0].message.role is Role.USER)
        kept_indexes = [index for index in kept_indexes if index >= first]
    elided = tuple(
        (old, new)
        for index in kept_indexes
        for old, new in zip(groups[index], lean[index], strict=True)
        if old is not new
    )
    return Truncation(
        tuple(lean[i] for i in kept_indexes), tuple(_holes(everything, [places[i] for i in kept_indexes])), elided
    )


def _shrink_requests(
    groups: list[Group], requests: Sequence[int], hard: int, floor: int, elider: MessageElider
) -> list[Group]:
    """Elide in `groups` the newest, then the requests before it, until all fit `hard`; unchanged without room."""
    tail = len(groups) - 1
    earlier = [index for index in requests if index != tail]
    earlier_tokens = sum(sum_tokens(groups[index]) for index in earlier)
    if hard <= 0 or earlier_tokens + sum_tokens(groups[tail]) <= hard:
        return groups
    cap = max(int(hard * REQUEST_SHARE), floor)
    if tail in requests:
        return _level_requests(groups, requests, cap, elider)
    groups[tail] = _fit_group(groups[tail], hard - min(earlier_tokens, cap), elider)
    room = max(min(cap, hard - sum_tokens(groups[tail])), min(earlier_tokens, floor))
    return _level_requests(groups, earlier, room, elider) if earlier_tokens > room else groups


def _level_requests(groups: list[Group], requests: Sequence[int], budget: int, elider: MessageElider) -> list[Group]:
    """Return `groups` with the words of these requests cut to one size, so that with their preambles they take `budget`
    tokens: none loses all its words to another one."""
    words = [sum(elider.count(item.message.content) for item in groups[index]) for index in requests]
    around = [sum_tokens(groups[index]) - size for index, size in zip(requests, words, strict=True)]
    height = fill_level(words, budget - sum(around))
    for index, extra in zip(requests, around, strict=True):
        groups[index] = _fit_group(groups[index], height + extra, elider)
    return groups


def _fit_group(group: Group, budget: int, elider: MessageElider) -> Group:
    """Return `group` in `budget` tokens, if its markers fit: its largest items are cut to one size."""
    for worth in (MIN_SAVED_TOKENS, 0) if any(item.message.role is Role.USER for item in group) else (0,):
        aim = budget
        for _ in range(TRIES):
            short = _level_items(group, aim, elider, worth)
            over = sum_tokens(short) - budget
            if over <= 0:
                return short
            aim -= max(over, worth)  # a cut that saves less is not made
            if aim <= 0:
                break
    return _level_items(group, 0, elider, worth=0)


def _level_items(group: Group, budget: int, elider: MessageElider, worth: int) -> Group:
    height = fill_level([item.tokens for item in group], budget)
    return tuple(elider.elide(item, height, worth) if item.tokens > height else item for item in group)


def _holes(groups: Sequence[Group], kept_indexes: Sequence[int]) -> list[Hole]:
    """Return the holes before each kept group. One hole covers all removed groups if an old request comes after later
    messages."""
    holes = []
    previous = -1
    for position, index in enumerate(kept_indexes):
        missing = groups[previous + 1 : index]
        if missing:
            real = [group for group in missing if group[0].form is not ItemForm.MARKER]
            markers = tuple(group[0] for group in missing if group[0].form is ItemForm.MARKER)
            reached = newest_entry_id(groups[: previous + 1]) if previous >= 0 else 0
            first = min([reached + 1, *(item.entry for group in real for item in group)])
            old = None if real else missing[-1][0]
            tokens = sum(map(sum_tokens, real))
            holes.append(Hole(position, first, newest_entry_id(missing), tokens, tuple(flatten(real)), markers, old))
        previous = index
    return holes
