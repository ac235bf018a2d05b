"""What a compaction keeps (law 6): a pure function from the window to a plan, and from a summary to the new head.

There is a plan only where a summary that keeps to its cap frees something worth its request. Kept are the current
request, the last turns where they fit, the newest groups, the person's own words and a summary, each within its share
of the budget. What does not fit the target yields in this order: older kept turns, own words (oldest first), summary
(down to half its share).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from nexus_cli.context.compaction import create_summary_message
from nexus_cli.context.groups import Group, flatten, is_request, newest, size
from nexus_cli.core.clip import clip, plain_marker
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.message import Message

KEPT_TURNS = 3
NEWEST_SHARE = 0.25
"""Share of the budget up to which the newest groups are kept."""
OWN_WORDS_SHARE = 0.05
SUMMARY_SHARE = 0.08
SUMMARY_FLOOR = 256
"""A summary may always take so many tokens."""
WORTH_SHARE = 0.05
"""Share of the budget that has to become free: else the next request would ask for the next summary."""
NOTE_TOKENS = 160
"""Room for the prefix, the introduction and the line that names the drop."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which groups go into the summary and which slots stay."""

    gone: tuple[Group, ...]
    kept: tuple[Slot, ...]
    own_words: tuple[str, ...]
    """What the person said in the part that goes, oldest first."""
    summary_cap: int
    """Tokens that the summary may take."""
    before: int
    """Tokens of the messages now."""

    @property
    def entries(self) -> tuple[int, int]:
        """First and last entry that go."""
        first = self.gone[0][0]
        return first.entry if first.form in (Form.FULL, Form.ELIDED) else 1, newest(self.gone)


def plan(
    groups: Sequence[Group],
    *,
    available: int,
    target: int,
    count: Callable[[str], int],
    run: int = 0,
    earlier: Iterable[tuple[int, str]] = (),
) -> Plan | None:
    """The plan that brings the messages to about `target` tokens (of `available`), or None when too little would go.

    The current run began with entry `run` (0: with the newest user message). `earlier` is what the person said in what
    an old summary stands for, entry and text, newest first; it is read only as far as there is room for it.
    """
    requests = [index for index, group in enumerate(groups) if is_request(group)]
    if len(groups) < 2:
        return None
    cap = max(SUMMARY_FLOOR, min(int(available * SUMMARY_SHARE), target // 2))
    room = target - cap - NOTE_TOKENS
    current = [index for index in requests if run and groups[index][0].entry >= run] or requests[-1:]
    most_words = int(available * OWN_WORDS_SHARE)
    words = _Words(count)
    old = words.newest(earlier, most_words)
    said = [words.cost(group[0].message.content) if is_request(group) else 0 for group in groups]
    if old:
        said[0] += sum(words.cost(text) for _, text in old)
    first = _first_kept(list(map(size, groups)), said, requests, current, room, available)
    before_kept = [index for index in current if index < first]
    gone = tuple(group for index, group in enumerate(groups[:first]) if index not in before_kept)
    if not any(group[0].form is not Form.MARKER for group in gone):
        return None
    kept = tuple(flatten([groups[index] for index in before_kept] + list(groups[first:])))
    spare = room - sum(slot.tokens for slot in kept)
    most = sum(map(size, gone)) - NOTE_TOKENS - int(available * WORTH_SHARE)
    if most < SUMMARY_FLOOR:
        return None
    spoken = [(group[0].entry, group[0].message.content) for group in gone if is_request(group)]
    said_before = sorted([*old, *spoken], reverse=True)
    own = words.chosen(said_before, max(0, min(most_words, spare, most - SUMMARY_FLOOR)))
    cap = max(SUMMARY_FLOOR, cap // 2, cap + min(0, spare))
    return Plan(gone, kept, own, min(cap, most - sum(map(words.cost, own))), sum(map(size, groups)))


def _first_kept(
    sizes: Sequence[int],
    said: Sequence[int],
    requests: Sequence[int],
    current: Sequence[int],
    room: int,
    available: int,
) -> int:
    """Index of the first group of the kept tail: whole recent turns where they fit, else the newest groups.

    Beside it there has to be room for the current request and for what the person `said` in the part that goes.
    """
    upto = [0, *accumulate(sizes)]
    words = [0, *accumulate(0 if index in current else cost for index, cost in enumerate(said))]

    def fits(start: int) -> bool:
        before = sum(sizes[index] for index in current if index < start)
        own = min(int(available * OWN_WORDS_SHARE), words[start])
        return before + upto[-1] - upto[start] + own <= room

    first = len(sizes) - 1
    while first > 0 and upto[-1] - upto[first - 1] <= available * NEWEST_SHARE and fits(first - 1):
        first -= 1
    for start in reversed([index for index in requests[-KEPT_TURNS:] if index < first]):
        if not fits(start):
            break
        first = start
    return first


@dataclass(frozen=True, slots=True)
class _Words:
    """The person's words as they are quoted in a summary."""

    count: Callable[[str], int]

    def cost(self, words: str) -> int:
        """Tokens of the quotation."""
        return self.count(_quoted(words)) + 2

    def newest(self, said: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
        """The first of `said` up to the one that `room` tokens cannot hold whole; the rest is not read."""
        found = []
        for entry, text in said:
            found.append((entry, text))
            room -= self.cost(text)
            if room < 0:
                break
        return found

    def chosen(self, said: Iterable[tuple[int, str]], room: int) -> tuple[str, ...]:
        """What fits of `said` (newest first), oldest first; what does not fit whole is cut where that is worth it."""
        found: list[str] = []
        for _, text in said:
            cost = self.cost(text)
            if cost > room:
                lines = self.count(_quoted(text)) - self.count(text)
                if room - lines > 64:
                    found.append(clip(text, room - lines - 4, self.count, plain_marker).text)
                break
            room -= cost
            found.append(text)
        return tuple(reversed(found))


def _quoted(words: str) -> str:
    return "\n".join(f"> {line}" for line in words.split("\n"))


def head(
    chosen: Plan, summary: str, drop_id: str, *, clock: Clock, measure: Callable[[Message, str], int]
) -> tuple[Slot, ...]:
    """The new head: one summary message, then what is kept."""
    first, last = chosen.entries
    notes = f'[Messages {first} to {last} are summed up here; read them as they were with recall("{drop_id}").]'
    if chosen.own_words:
        quoted = "\n\n".join(map(_quoted, chosen.own_words))
        notes += f"\n\nWhat the person said in them, word for word:\n{quoted}"
    message = create_summary_message(summary, clock, notes)
    slot = Slot(last, Form.SUMMARY, message)
    return (replace(slot, tokens=measure(message, "")), *chosen.kept)
