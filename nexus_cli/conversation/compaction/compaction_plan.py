"""Plan a compaction: the messages to summarize, and the content kept beside the summary (law 6). Pure.

There is no plan if a summary at its cap would free too little to be worth its request. The window keeps the current
request, the last turns if they fit, the newest groups, the person's own words, the assistant's last text of each turn,
the record of the work, pins and a summary, each within its share of the budget. To reach the target they shrink in this
order: older kept turns, last texts, own words and record (oldest first), pins (oldest first), summary (down to half its
share). All but kept turns and the summary are small and shrink only for the budget: if the current request and the
newest groups leave them no room under the target, the target is exceeded. If a full window causes the compaction, not
the person, the newest groups keep their share even above the target, as long as the window shrinks at least half the
way to it. Otherwise the next step would need the next summary.

`nexus_cli.conversation.compaction.summary_head` builds the new head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nexus_cli.conversation.compaction.own_words import OwnWords, Quote, fit_labelled
from nexus_cli.conversation.groups import Group, flatten, newest_entry_id
from nexus_cli.conversation.left_out_ranges import unseen_ranges
from nexus_cli.conversation.tokens.content_kinds import ByKind, slots_by_kind
from nexus_cli.core.elide import Count
from nexus_cli.core.entry import EntryRange, ItemForm, WindowItem, sum_tokens
from nexus_cli.core.entry_ranges import format_ranges, ranges_of, subtract_ranges
from nexus_cli.core.message import Role
from nexus_cli.core.typed_text import split_attachments

KEPT_TURNS = 3
NEWEST_SHARE = 0.25
"""Share of the budget up to which the newest groups are kept."""
OWN_WORDS_SHARE = 0.1
MAX_OWN_WORDS = 20_000
"""Most tokens of the person's own words, however large the budget is."""
ANSWERS_SHARE = 0.03
"""Share of the assistant's last text of each turn."""
RECORD_SHARE = 0.05
PINS_SHARE = 0.05
SUMMARY_SHARE = 0.08
REQUESTED_SHARE = 0.75
"""Share of the summary's room that the model is asked to keep to: many models exceed the limit that they are given."""
SUMMARY_FLOOR = 384
"""Least room of a summary in tokens: 32 for each requested heading."""
SUMMARY_LEAST = 1_334
"""The same for a window of `LARGE_WINDOW` or more, so that 1,000 are requested; less if little is summarized."""
LARGE_WINDOW = 16_000
WORTH_SHARE = 0.05
"""Share of the budget that must become free: otherwise the next request would need the next summary."""
NOTE_TOKENS = 260
"""Room for the prefix, the introduction, the headings and the lines that name drops."""


MAX_NAMED = 5
"""Most messages that are named as staying among the summarized ones."""


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens, by our count, that a plan may take beyond its target."""

    words: int
    """For the person's own words."""
    pins: int
    most: int
    """For all messages: content kept beside groups may exceed the target up to this."""
    newest: bool = False
    """True if the newest groups may exceed the target too."""
    answers: int = 0
    """For the assistant's last text of each turn."""
    record: int = 0


def own_words_room(budget: int) -> int:
    """Return the tokens of a budget reserved for the person's own words."""
    return min(MAX_OWN_WORDS, int(budget * OWN_WORDS_SHARE))


def shares_of(budget: int, most: int, *, newest: bool = False) -> Room:
    """Return the room of each kind of content in a budget; beyond its target a plan may take up to `most` tokens."""
    pins, answers, record = (int(budget * share) for share in (PINS_SHARE, ANSWERS_SHARE, RECORD_SHARE))
    return Room(own_words_room(budget), pins, most, newest, answers, record)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The groups to summarize and the items that stay."""

    gone: tuple[Group, ...]
    kept: tuple[WindowItem, ...]
    quotes: tuple[Quote, ...]
    """Quotations of the person's words from the summarized part, oldest first."""
    summary_cap: int
    """Planned tokens of the summary."""
    summary_most: int
    """Largest summary in tokens that is accepted whole: the window still shrinks half the way to its target."""
    before: int
    """Tokens of the messages now."""
    pins: tuple[Quote, ...] = ()
    """Pins repeated after the summary, without those of kept messages."""
    crowded: tuple[Quote, ...] = ()
    """Pins that do not fit their share."""
    user_texts: tuple[tuple[int, str], ...] = ()
    """Entry and text of the person's messages in the summarized part, as far as they were read."""
    answers: tuple[Quote, ...] = ()
    """Quotations of the assistant's last texts from the summarized part, oldest first."""
    record_room: int = 0
    """Tokens that the record may take."""

    @property
    def requested_tokens(self) -> int:
        """The tokens that the summarizer is asked to keep to."""
        return int(self.summary_cap * REQUESTED_SHARE)

    @property
    def own_words(self) -> tuple[str, ...]:
        """The texts of the quotes."""
        return tuple(quote.text for quote in self.quotes)

    @property
    def staying(self) -> tuple[int, ...]:
        """The entries that stay among the summarized ones."""
        first, last = self.entries
        return tuple(sorted({s.entry for s in self.kept if s.shows_entry and first <= s.entry <= last}))

    @property
    def named(self) -> str:
        """The summarized messages: `1 to 17`, `1 to 17 without 15`."""
        return self.named_but(())

    def named_but(self, unseen: Sequence[EntryRange]) -> str:
        """Describe the summarized messages without the ranges in `unseen`: `18 to 40 without 25`."""
        staying, ranges = self.staying, []
        for first, last in subtract_ranges(*self.entries, unseen):
            if gone := subtract_ranges(first, last, ranges_of(staying)):
                ranges.append((gone[0][0], gone[-1][1]))
        inside = [entry for entry in staying if any(first < entry < last for first, last in ranges)]
        names = ", ".join(map(str, inside[:MAX_NAMED])) + (", ..." if len(inside) > MAX_NAMED else "")
        return format_ranges(ranges) + (f" without {names}" if names else "")

    @property
    def removed(self) -> list[WindowItem]:
        """The items of the summarized groups."""
        return flatten(self.gone)

    @property
    def removed_by_kind(self) -> ByKind:
        """The tokens of these items by kind."""
        return slots_by_kind(self.removed)

    @property
    def leaving(self) -> tuple[WindowItem, ...]:
        """The messages that leave the window now; those behind an earlier summary or a marker left it earlier."""
        return tuple(item for item in self.removed if not item.replaces_others)

    @property
    def unseen(self) -> tuple[EntryRange, ...]:
        """Return the messages that a summary of the window cannot cover, because they left the window earlier."""
        return unseen_ranges(self.removed, self.kept, self.entries[1])

    @property
    def entries(self) -> tuple[int, int]:
        """The first and the last summarized entry."""
        first = self.gone[0][0]
        return first.entry if first.shows_entry else 1, newest_entry_id(self.gone)

    def shown_entries(self, quotes: Sequence[Quote]) -> tuple[set[int], set[int]]:
        """Return the entries that the new window with these quotes shows verbatim, and those that it shows in part."""
        cut = {item.entry for item in (*self.removed, *self.kept) if item.form is ItemForm.ELIDED}
        full_entries = {item.entry for item in self.kept if item.form is ItemForm.FULL} | {
            pin.entry for pin in self.pins
        }
        full_entries |= {quote.entry for quote in quotes if quote.whole} - cut
        return full_entries, ({item.entry for item in self.kept} | {quote.entry for quote in quotes}) - full_entries

    def place_of(self, pin: Quote) -> str:
        """Return the place of a pin in the new window: `window` (unchanged), `summary` (quoted below it) or `dropped`
        (no room)."""
        return "summary" if pin in self.pins else "dropped" if pin in self.crowded else "window"

    @property
    def summed(self) -> bool:
        """True if an earlier summary is among the summarized groups."""
        return any(group[0].form is ItemForm.SUMMARY for group in self.gone)


def plan(
    groups: Sequence[Group],
    *,
    available: int,
    target: int,
    count: Count,
    run: int = 0,
    earlier: Iterable[tuple[int, str]] = (),
    answers: Iterable[tuple[int, str]] = (),
    record: int = 0,
    pins: Sequence[Quote] = (),
    beyond: Room | None = None,
    spoken: Collection[int] | None = None,
    least: int = SUMMARY_FLOOR,
) -> CompactionPlan | None:
    """Return a plan that shrinks the messages to about `target` tokens (of `available`); None if it frees too little.

    The current run began with entry `run` (0: the newest user message). `earlier` yields the person's words before
    a summary, `answers` the assistant's last text of each ended turn, both as entry and text, newest first; both are
    read only as far as there is room. `spoken` are the person's user messages (None: all). `record` is the size of
    the whole record in tokens, `least` the room of the summary if enough is summarized. Without `beyond` everything
    has its share of `available`, and the target applies to all of it.
    """
    if len(groups) < 2:
        return None
    requests = [index for index, group in enumerate(groups) if group[0].is_request]
    cap = max(least, min(int(available * SUMMARY_SHARE), target // 2))
    room = target - cap - NOTE_TOKENS
    current = [index for index in requests if run and groups[index][0].entry >= run] or requests[-1:]
    words = OwnWords(count)
    beyond = beyond or shares_of(available, target)
    messages = [*words.newest(earlier, beyond.words), *_own_words(groups, spoken)]
    finals = words.newest(answers, beyond.answers + _answers_in(groups, words))
    reserved = min(record, beyond.record)
    again, sizes = _repeated(groups, (messages, finals), pins, beyond, words), list(map(sum_tokens, groups))
    beside, total = _WindowContent(sizes, requests, current, again), sum(sizes)
    half = max(0, min((total - target) // 2, beyond.most - target))
    wide = room - reserved + (half if beyond.newest else 0)
    first = _first_kept(beside, room - reserved, wide, int(available * NEWEST_SHARE))
    before_kept = [index for index in current if index < first]
    summarized = tuple(group for index, group in enumerate(groups[:first]) if index not in before_kept)
    most = sum(map(sum_tokens, summarized)) - NOTE_TOKENS - int(available * WORTH_SHARE)
    if most < SUMMARY_FLOOR or all(group[0].form is ItemForm.MARKER for group in summarized):
        return None
    kept_items = tuple(flatten([groups[index] for index in before_kept] + list(groups[first:])))
    spare = room - (kept_tokens := sum_tokens(kept_items))
    least = max(SUMMARY_FLOOR, min(least, most // 2, beyond.most - NOTE_TOKENS - kept_tokens))
    free = bound = min(max(spare, beyond.most - cap - NOTE_TOKENS - kept_tokens), most - SUMMARY_FLOOR)
    repeated = _without_shown(pins, kept_items)
    stay = tuple(fit_labelled(repeated, max(0, min(beyond.pins, free)), count))
    crowded = tuple(pin for pin in repeated if pin not in stay)
    free -= sum(pin.labelled_tokens(count) for pin in stay)
    free -= (record_room := max(0, min(reserved, free)))
    visible = {s.entry for s in kept_items if s.shows_entry} | {pin.entry for pin in stay}
    candidates = tuple(pair for pair in messages if pair[0] not in visible)
    quotes = words.choose_quotes(candidates, max(0, min(beyond.words, free)))
    free -= sum(quote.tokens for quote in quotes)
    last = words.choose_quotes(
        (final for final in finals if final[0] not in visible), max(0, min(beyond.answers, free))
    )
    used = bound - free + sum(quote.tokens for quote in last)
    cap = min(max(least, cap // 2, cap + min(0, spare)), most - used)
    longest = max(cap, min(most, target + half - NOTE_TOKENS - kept_tokens) - used)
    return CompactionPlan(
        summarized, kept_items, quotes, cap, longest, total, stay, crowded, candidates, last, record_room
    )


def _repeated(
    groups: Sequence[Group],
    texts: Sequence[Iterable[tuple[int, str]]],
    pins: Sequence[Quote],
    beyond: Room,
    words: OwnWords,
) -> tuple[tuple[list[int], int], ...]:
    """Return the content that is repeated when its group is summarized: own words, last texts and pins, each with its
    room.

    Pinned text is not quoted as well.
    """
    pinned = {pin.entry for pin in pins}
    costs = [[(entry, words.cost(text)) for entry, text in rows if entry not in pinned] for rows in texts]
    quoted = (_by_group(groups, rows) for rows in costs)
    pin_costs = [(pin.entry, pin.labelled_tokens(words.count)) for pin in pins]
    pin_tokens = _by_group(groups, pin_costs, is_whole=True)
    return tuple(zip((*quoted, pin_tokens), (beyond.words, beyond.answers, beyond.pins), strict=True))


def _own_words(groups: Sequence[Group], spoken: Collection[int] | None) -> Iterator[tuple[int, str]]:
    """Yield entry and text of the person's messages in the window."""
    for group in groups:
        entry, mine = group[0].entry, group[0].is_request and (spoken is None or group[0].entry in spoken)
        text = split_attachments(group[0].message.content)[0] if mine else ""
        if text:
            yield entry, text


def _answers_in(groups: Sequence[Group], words: OwnWords) -> int:
    """Return the tokens of all texts of the assistant in the window: kept ones need no room."""
    texts = (group[0].message for group in groups if group[0].shows_entry)
    return sum(words.cost(message.content) for message in texts if message.role is Role.ASSISTANT and message.content)


def _by_group(groups: Sequence[Group], rows: Iterable[tuple[int, int]], *, is_whole: bool = False) -> list[int]:
    """Return the tokens of `rows` by the group that shows their entry, with `is_whole` not shortened; tokens of entries
    without a group count with the first."""
    shown_items = ((index, item) for index, group in enumerate(groups) for item in group if item.shows_entry)
    places = {item.entry: index for index, item in shown_items if not is_whole or item.form is ItemForm.FULL}
    tokens = [0] * len(groups)
    for entry, cost in rows:
        tokens[places.get(entry, 0)] += cost
    return tokens


@dataclass(frozen=True, slots=True)
class _WindowContent:
    """The groups, and the content that needs room beside the kept ones."""

    sizes: Sequence[int]
    requests: Sequence[int]
    """The groups with which the person began a turn."""
    current: Sequence[int]
    """The groups of the current run; they always stay."""
    quoted: Sequence[tuple[Sequence[int], int]]
    """Tokens by group of the content that is repeated when its group is summarized, and its room."""


def _first_kept(of: _WindowContent, room: int, most: int, share: int) -> int:
    """Return the index of the first group of the kept tail.

    The tail is whole recent turns if they fit `room`; else the newest groups up to their `share`, at least one beside
    the current request, as long as it takes at most `most` tokens.
    """
    current = frozenset(of.current)
    upto = [0, *accumulate(of.sizes)]
    current_tokens = [0, *accumulate(tokens if index in current else 0 for index, tokens in enumerate(of.sizes))]
    again = [
        ([0, *accumulate(0 if index in current else tokens for index, tokens in enumerate(costs))], most)
        for costs, most in of.quoted
    ]

    def newest(start: int) -> int:
        return upto[-1] - upto[start] - (current_tokens[-1] - current_tokens[start])

    def count_kept_from(start: int) -> int:
        return current_tokens[-1] + newest(start) + sum(min(most, costs[start]) for costs, most in again)

    first = len(of.sizes) - 1
    while first > 0 and (newest(first - 1) <= share or not newest(first)) and count_kept_from(first - 1) <= most:
        first -= 1
    for start in reversed([index for index in of.requests[-KEPT_TURNS:] if index < first]):
        if count_kept_from(start) > room:
            break
        first = start
    return first


def _without_shown(pins: Sequence[Quote], kept_items: Sequence[WindowItem]) -> list[Quote]:
    """Return the pins that no kept message shows completely."""
    full_entries = {item.entry for item in kept_items if item.form is ItemForm.FULL}
    return [pin for pin in pins if pin.entry not in full_entries]
