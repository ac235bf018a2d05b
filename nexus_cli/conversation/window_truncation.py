"""Truncation of a conversation: the cut, its drops and the line that marks the hole for the model (laws 2, 4 and 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.elide_message import MessageElider
from nexus_cli.conversation.groups import Group
from nexus_cli.conversation.left_out_ranges import HOLE, hole_ranges
from nexus_cli.conversation.strategies import Strategy
from nexus_cli.conversation.truncation import Hole, Truncation, truncate_window
from nexus_cli.core.budget import REQUEST_FLOOR
from nexus_cli.core.elide import RECALL, Count, Marker, drop_marker, plain_marker
from nexus_cli.core.entry import Cause, Drop, EntryRange, ItemForm, WindowItem, is_placeholder
from nexus_cli.core.entry_ranges import format_ranges, join_ranges, ranges_of, subtract_ranges
from nexus_cli.core.message import Message, Role

MOST = 5
"""Most drops that one marker names: each takes room, and is one more to read or search."""
_RECALL_ID = re.compile(r'recall\("(d\d{1,18})"\)')


@dataclass(frozen=True, slots=True)
class HolePart:
    """The part of a hole that one drop contains."""

    what: str
    tokens: int
    """Tokens that left the window now."""
    entries: EntryRange
    """The messages that it returns."""


@dataclass(frozen=True, slots=True)
class RecallLinks:
    """The drops to create for a hole, and the existing ones."""

    known: tuple[str, ...]
    """Ids of drops with the rest of the hole, oldest first."""
    new: tuple[HolePart, ...]


def links_of_hole(hole: Hole, *, recalls: bool = True) -> RecallLinks:
    """Return the drops that `hole` needs. If the model never `recalls`, earlier drops are not named to it."""
    before = join_ranges(hole_ranges(hole.markers))
    went = [item for item in hole.leaving if item.form is not ItemForm.SUMMARY]
    spans = join_ranges([*((item.entry, item.entry) for item in went), *subtract_ranges(hole.first, hole.last, before)])
    drop_lists = [_drops_named(item.message.content) for item in hole.markers if hole_ranges([item])]
    names = tuple(dict.fromkeys(name for several in drop_lists for name in several))
    if len(went) == len(hole.leaving) and (not recalls or (all(drop_lists) and len(names) + len(spans) <= MOST)):
        return RecallLinks(names, tuple(HolePart(_name_messages(span), _tokens(went, span), span) for span in spans))
    return RecallLinks((), (_drop_whole_hole(hole, went),))


def hole_line(first: int, last: int, drop_ids: Sequence[str]) -> str:
    """Return the line that replaces the left-out messages from `first` to `last`."""
    how = ", ".join(f'recall("{name}")' for name in drop_ids)
    return f"{HOLE.format(first, last)} Read them with {how}.]" if drop_ids else f"{HOLE.format(first, last)}]"


def _drops_named(text: str) -> list[str]:
    """Return the drops that the first line of a marker names."""
    return _RECALL_ID.findall(text.partition("\n")[0])


def _tokens(items: Iterable[WindowItem], span: EntryRange) -> int:
    return sum(item.tokens for item in items if span[0] <= item.entry <= span[1])


def _name_messages(*spans: EntryRange) -> str:
    return f"message{'s' * (spans[0][0] < spans[-1][1])} {format_ranges(spans)} of the conversation"


def _drop_whole_hole(hole: Hole, went: Sequence[WindowItem]) -> HolePart:
    """Return one drop for the whole hole, with the tokens that left the window now."""
    now = ranges_of(item.entry for item in went)
    earlier = subtract_ranges(hole.first, hole.last, now)
    summed = len(went) < len(hole.leaving)
    what = _name_messages(*now) if now else f"the summary of messages {format_ranges(earlier)}"
    if earlier and now:
        what += f"; read with {format_ranges(earlier)}, {'summarized or left out' if summed else 'left out'} before"
    return HolePart(what, hole.tokens, (hole.first, hole.last))


MARKER_ROOM = 128
"""Tokens reserved for the marker lines of a truncation."""


@dataclass
class WindowTruncator:
    """Truncates conversations to their budget."""

    count: Count
    strategy: Strategy
    low_water: float | None = None
    """Share of the budget to which a truncation goes down; None: the budget is filled."""
    markers: bool = False
    """True to put a line where groups were removed, and to record drops."""
    measure: Callable[[Message, str], int] = field(kw_only=True)
    recalls: bool = field(default=True, kw_only=True)
    """True if the model can read drops; otherwise none is named to it."""

    def cut(
        self, conversation: Conversation, available: int, groups: Sequence[Group] | None = None
    ) -> tuple[list[WindowItem], list[Drop]]:
        """Return a head that fits `available` counted tokens, and the drops of what it lacks. Changes nothing but
        takes the ids of these.

        `groups` are the candidates, by default those of the window.
        """
        fixed = conversation.epoch.header_tokens + (MARKER_ROOM if self.markers else 0)
        ids: dict[int, str] = {}
        groups = conversation.groups() if groups is None else groups
        cited = cited_drops(groups)
        result = truncate_window(
            groups,
            hard=available - fixed,
            soft=int(available * (self.low_water or 1.0)) - fixed,
            floor=self._floor(available, available - fixed),
            strategy=self.strategy,
            elider=MessageElider(
                self.count,
                self.measure,
                lambda item: self._marker(conversation, item, ids, cited, drop_marker),
                lambda item: self._marker(conversation, item, ids, cited, inner_marker),
            ),
            summaries=self.markers,
            run=conversation.run,
        )
        elided = [pair for pair in result.elided if pair[0].entry not in cited] if self.markers else []
        drops = [self._elision_drop(conversation, old, new, ids) for old, new in elided]
        return self._head(conversation, result, drops), drops

    def _floor(self, available: int, room: int) -> int:
        """Return the least that the request keeps. Without markers, the window fits first of all, if it can."""
        return 0 if room > 0 and not self.markers else int(available * REQUEST_FLOOR)

    def _marker(
        self,
        conversation: Conversation,
        item: WindowItem,
        ids: dict[int, str],
        cited: Mapping[int, str],
        make_marker: Callable[[str], Marker],
    ) -> Marker:
        if not self.markers:
            return plain_marker
        if item.entry in cited:
            return inner_marker(cited[item.entry])
        if item.entry not in ids:
            ids[item.entry] = conversation.log.next_drop()
        return make_marker(ids[item.entry])

    def _elision_drop(self, conversation: Conversation, old: WindowItem, new: WindowItem, ids: dict[int, str]) -> Drop:
        message = old.message
        text = message.content
        if message.tool_calls:
            calls = (f"{call.name} {call.arguments_text}" for call in message.tool_calls)
            text = "\n".join([text, *calls])
        labels = {Role.TOOL: "part of a tool result", Role.USER: "part of a message"}
        return Drop(
            ids[old.entry],
            labels.get(message.role, "part of a reply"),
            old.tokens - new.tokens,
            Cause.TRUNCATION,
            conversation.now(),
            text=text,
        )

    def _head(self, conversation: Conversation, result: Truncation, drops: list[Drop]) -> list[WindowItem]:
        holes = {hole.before: hole for hole in result.holes}
        head: list[WindowItem] = []
        for position, group in enumerate(result.groups):
            if self.markers and position in holes:
                hole = holes[position]
                if hole.marker:
                    head.extend([hole.marker, *group])
                    continue
                head.append(self._hole_item(conversation, hole, drops))
            head.extend(group)
        return head

    def _hole_item(self, conversation: Conversation, hole: Hole, drops: list[Drop]) -> WindowItem:
        """Return the line that replaces removed groups; append the drops of this cut to `drops`."""
        links, drop_ids = links_of_hole(hole, recalls=self.recalls), []
        for part in links.new:
            drop_ids.append(conversation.log.next_drop())
            drops.append(Drop(drop_ids[-1], part.what, part.tokens, Cause.TRUNCATION, conversation.now(), part.entries))
        text = hole_line(hole.first, hole.last, [*links.known, *drop_ids] if self.recalls else ())
        message = Message(Role.USER, text)
        return WindowItem(hole.last, ItemForm.MARKER, message, tokens=self.measure(message, ""))


def cited_drops(groups: Sequence[Group]) -> dict[int, str]:
    """Map entries of recalled pieces to their drop, which they cite when shortened; a failed `recall` is none."""
    drops = {}
    for first, *results in groups:
        for call, item in zip(first.message.tool_calls, results, strict=True):
            drop_id = call.arguments.get("id")
            if call.name != RECALL or not isinstance(drop_id, str) or is_placeholder(item):
                continue
            if item.message.content.startswith("["):
                drops[item.entry] = drop_id
    return drops


def inner_marker(drop_id: str) -> Marker:
    """Return the marker inside call arguments and recalled pieces, without a range: offsets there are others."""

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        return f'[... {tokens:,} tokens left out: recall("{drop_id}") ...]'

    return marker
