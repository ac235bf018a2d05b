"""What a compaction keeps (law 6): a pure function from the window to a plan.

There is a plan only where a summary that keeps to its cap frees something worth its request. Kept are the current
request, the last turns where they fit, the newest groups, the person's own words, pins and a summary, each within its
share of the budget. What does not fit the target yields in this order: older kept turns, own words (oldest first),
pins (oldest first), summary (down to half its share). Own words and pins are small and yield to the budget alone: where
the current request and the newest groups leave them no room under the target, the target is exceeded. Where a full
window asks for it, not the person, the newest groups have their share whether or not the target has room for it, as
long as the window comes at least half the way down to the target: else the next step would ask for the next summary.
The new head is made in `nexus_cli.context.summary_head`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from nexus_cli.context.groups import Group, flatten, is_request, newest, size
from nexus_cli.context.own_words import OwnWords, Quote
from nexus_cli.context.pin import Pin
from nexus_cli.context.unseen import Span, between, named, unseen
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.words import apart

KEPT_TURNS = 3
NEWEST_SHARE = 0.25
"""Share of the budget up to which the newest groups are kept."""
OWN_WORDS_SHARE = 0.05
PINS_SHARE = 0.05
SUMMARY_SHARE = 0.08
ATTACHED_SHARE = 0.01
"""Share of the budget that older turns leave to what is read again from its source."""
SUMMARY_FLOOR = 256
"""A summary may always take so many tokens."""
WORTH_SHARE = 0.05
"""Share of the budget that has to become free: else the next request would ask for the next summary."""
NOTE_TOKENS = 160
"""Room for the prefix, the introduction and the line that names the drop."""


NAMED = 5
"""So many of the messages that stay in the midst of those that go are named."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a plan may take beyond its target, in tokens by our count."""

    words: int
    """For the person's own words."""
    pins: int
    most: int
    """For all messages: own words and pins may exceed the target up to here."""
    newest: bool = False
    """Whether the newest groups may exceed the target too."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which groups go into the summary and which slots stay."""

    gone: tuple[Group, ...]
    kept: tuple[Slot, ...]
    quotes: tuple[Quote, ...]
    """What is quoted of what the person said in the part that goes, oldest first."""
    summary_cap: int
    """Tokens that the summary may take."""
    before: int
    """Tokens of the messages now."""
    pins: tuple[Pin, ...] = ()
    """Pins that stand after the summary; those of kept messages are not among them."""
    crowded: tuple[Pin, ...] = ()
    """Pins that their share has no room for."""
    spare: int = 0
    """Tokens that nothing of this takes, under the target or beyond it."""
    said: tuple[tuple[int, str], ...] = ()
    """What the person said in the part that goes, entry and text, as far as it was read: what may be quoted."""
    words_room: int = 0
    """Tokens that the quotes may take."""

    @property
    def own_words(self) -> tuple[str, ...]:
        """The texts of the quotes."""
        return tuple(quote.text for quote in self.quotes)

    @property
    def staying(self) -> tuple[int, ...]:
        """The entries that stay in the midst of those that go."""
        last = self.entries[1]
        return tuple(sorted({s.entry for s in self.kept if s.form in (Form.FULL, Form.ELIDED) and s.entry <= last}))

    @property
    def named(self) -> str:
        """The messages that go: `1 to 17`, `1 to 17 without 15`."""
        return self.named_but(())

    def named_but(self, unseen: Sequence[Span]) -> str:
        """The messages that go without those `unseen`: `18 to 40 without 25`."""
        first, last = self.entries
        staying = [entry for entry in self.staying if not any(a <= entry <= b for a, b in unseen)]
        names = ", ".join(map(str, staying[:NAMED])) + (", ..." if len(staying) > NAMED else "")
        return named(between(first, last, unseen)) + (f" without {names}" if names else "")

    @property
    def leaving(self) -> tuple[Slot, ...]:
        """The messages that leave the window now; those behind an earlier summary or a marker had left it before."""
        return tuple(slot for slot in flatten(self.gone) if slot.form not in (Form.SUMMARY, Form.MARKER))

    @property
    def unseen(self) -> tuple[Span, ...]:
        """The messages behind it that a summary of the window cannot tell of: they were out of it before."""
        return unseen(flatten(self.gone), self.kept, self.entries[1])

    @property
    def entries(self) -> tuple[int, int]:
        """First and last entry that go."""
        first = self.gone[0][0]
        return first.entry if first.form in (Form.FULL, Form.ELIDED) else 1, newest(self.gone)

    @property
    def summed(self) -> bool:
        """Whether an earlier summary is among what goes."""
        return any(group[0].form is Form.SUMMARY for group in self.gone)


def plan(
    groups: Sequence[Group],
    *,
    available: int,
    target: int,
    count: Callable[[str], int],
    run: int = 0,
    earlier: Iterable[tuple[int, str]] = (),
    pins: Sequence[Pin] = (),
    beyond: Room | None = None,
) -> Plan | None:
    """The plan that brings the messages to about `target` tokens (of `available`), or None when too little would go.

    The current run began with entry `run` (0: with the newest user message). `earlier` is what the person said in what
    an old summary stands for, entry and text, newest first; it is read only as far as there is room for it. Without
    `beyond` own words and pins have their shares of `available`, and the target holds for them too.
    """
    requests = [index for index, group in enumerate(groups) if is_request(group)]
    if len(groups) < 2:
        return None
    cap = max(SUMMARY_FLOOR, min(int(available * SUMMARY_SHARE), target // 2))
    room = target - cap - NOTE_TOKENS
    current = [index for index in requests if run and groups[index][0].entry >= run] or requests[-1:]
    words = OwnWords(count)
    beyond = beyond or Room(int(available * OWN_WORDS_SHARE), int(available * PINS_SHARE), target)
    old = words.newest(earlier, beyond.words)
    own = [apart(group[0].message.content)[0] if is_request(group) else "" for group in groups]
    said = [words.cost(text) if text else 0 for text in own]
    if old:
        said[0] += sum(words.cost(text) for _, text in old)
    pinned = _pinned(groups, pins, count)
    left = room - int(available * ATTACHED_SHARE)
    total = sum(map(size, groups))
    beside = _Beside(list(map(size, groups)), (said, beyond.words), (pinned, beyond.pins), requests, current)
    half = min(max(0, total - target) // 2, beyond.most - target) if beyond.newest else 0
    first = _first_kept(beside, left, left + max(0, half), int(available * NEWEST_SHARE))
    before_kept = [index for index in current if index < first]
    gone = tuple(group for index, group in enumerate(groups[:first]) if index not in before_kept)
    if not any(group[0].form is not Form.MARKER for group in gone):
        return None
    kept = tuple(flatten([groups[index] for index in before_kept] + list(groups[first:])))
    stays = sum(slot.tokens for slot in kept)
    spare = room - stays
    free = max(spare, beyond.most - cap - NOTE_TOKENS - stays)
    most = sum(map(size, gone)) - NOTE_TOKENS - int(available * WORTH_SHARE)
    if most < SUMMARY_FLOOR:
        return None
    stay, crowded = fitting(_hidden(pins, kept), max(0, min(beyond.pins, free, most - SUMMARY_FLOOR)), count)
    taken = sum(cost(pin, count) for pin in stay)
    quoted = {pin.entry for pin in stay}
    going = (index for index in range(first) if index not in before_kept)
    spoken = [(groups[index][0].entry, own[index]) for index in going if own[index]]
    candidates = tuple(one for one in [*old, *spoken] if one[0] not in quoted)
    words_room = max(0, min(beyond.words, free - taken, most - taken - SUMMARY_FLOOR))
    quotes = words.chosen(candidates, words_room)
    taken += sum(words.cost(quote.text) for quote in quotes)
    cap = min(max(SUMMARY_FLOOR, cap // 2, cap + min(0, spare)), most - taken)
    rest = max(0, min(free, most - cap) - taken)
    return Plan(gone, kept, quotes, cap, total, stay, crowded, rest, candidates, words_room)


def quoting(chosen: Plan, entries: Collection[int], count: Callable[[str], int]) -> Plan:
    """The same plan, with what the person said in `entries` quoted before anything else."""
    return replace(chosen, quotes=OwnWords(count).chosen(chosen.said, chosen.words_room, entries))


@dataclass(frozen=True, slots=True)
class _Beside:
    """The groups, and what has to have room beside those that stay."""

    sizes: Sequence[int]
    said: tuple[Sequence[int], int]
    """Tokens that the person said, by group, and how many of those that go may be quoted."""
    pinned: tuple[Sequence[int], int]
    """The same of pins."""
    requests: Sequence[int]
    """The groups that the person began a turn with."""
    current: Sequence[int]
    """Those of the current run, which stay wherever they stand."""


def _first_kept(of: _Beside, room: int, most: int, share: int) -> int:
    """Index of the first group of the kept tail: whole recent turns where `room` has a place for them, else the newest
    groups, up to their `share` and at least one beside the current request, as long as no more than `most` stays."""
    current = frozenset(of.current)
    upto = [0, *accumulate(of.sizes)]
    asked = [0, *accumulate(tokens if index in current else 0 for index, tokens in enumerate(of.sizes))]
    words = [0, *accumulate(0 if index in current else tokens for index, tokens in enumerate(of.said[0]))]
    pins = [0, *accumulate(of.pinned[0])]

    def newest(start: int) -> int:
        return upto[-1] - upto[start] - (asked[-1] - asked[start])

    def stays(start: int) -> int:
        return asked[-1] + newest(start) + min(of.said[1], words[start]) + min(of.pinned[1], pins[start])

    first = len(of.sizes) - 1
    while first > 0 and (newest(first - 1) <= share or not newest(first)) and stays(first - 1) <= most:
        first -= 1
    for start in reversed([index for index in of.requests[-KEPT_TURNS:] if index < first]):
        if stays(start) > room:
            break
        first = start
    return first


def cost(pin: Pin, count: Callable[[str], int]) -> int:
    """Tokens that a pin takes where it stands."""
    return count(pin.shown) + 2


def _pinned(groups: Sequence[Group], pins: Sequence[Pin], count: Callable[[str], int]) -> list[int]:
    """Tokens of the pins by the group that shows them; those that none shows count with the first."""
    places = {slot.entry: index for index, group in enumerate(groups) for slot in group if slot.form is Form.FULL}
    tokens = [0] * len(groups)
    for pin in pins:
        tokens[places.get(pin.entry, 0)] += cost(pin, count)
    return tokens


def _hidden(pins: Sequence[Pin], kept: Sequence[Slot]) -> list[Pin]:
    """The pins that no kept message shows whole."""
    shown = {slot.entry for slot in kept if slot.form is Form.FULL}
    return [pin for pin in pins if pin.entry not in shown]


def fitting(
    pins: Sequence[Pin], room: int, count: Callable[[str], int]
) -> tuple[tuple[Pin, ...], tuple[Pin, ...]]:
    """The pins that fit `room`, the newest first to get it, and the others; both in their order."""
    found = set()
    for pin in reversed(pins):
        if cost(pin, count) <= room:
            room -= cost(pin, count)
            found.add(pin.id)
    return tuple(p for p in pins if p.id in found), tuple(p for p in pins if p.id not in found)
