"""What a compaction keeps (law 6): a pure function from the window to a plan, and from a summary to the new head.

Kept are the current request, the last turns where they fit, the newest groups, the person's own words and a summary,
each within its share of the budget. What does not fit the target yields in this order: older kept turns, own words
(oldest first), summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    groups: Sequence[Group], *, available: int, target: int, count: Callable[[str], int], run: int = 0
) -> Plan | None:
    """The plan that brings the messages to about `target` tokens (of `available`), or None when nothing would go.

    The current run began with entry `run` (0: with the newest user message).
    """
    requests = [index for index, group in enumerate(groups) if is_request(group)]
    if len(groups) < 2:
        return None
    cap = max(SUMMARY_FLOOR, min(int(available * SUMMARY_SHARE), target // 2))
    room = target - cap - NOTE_TOKENS
    current = [index for index in requests if run and groups[index][0].entry >= run] or requests[-1:]
    most_words = int(available * OWN_WORDS_SHARE)
    said = [_cost(group[0].message.content, count) if is_request(group) else 0 for group in groups]
    first = _first_kept(list(map(size, groups)), said, requests, current, room, available)
    before_kept = [index for index in current if index < first]
    gone = tuple(group for index, group in enumerate(groups[:first]) if index not in before_kept)
    if not any(group[0].form is not Form.MARKER for group in gone):
        return None
    kept = tuple(flatten([groups[index] for index in before_kept] + list(groups[first:])))
    spare = room - sum(slot.tokens for slot in kept)
    words = _own_words(gone, max(0, min(most_words, spare)), count)
    return Plan(gone, kept, words, max(SUMMARY_FLOOR, cap + min(0, spare)), sum(map(size, groups)))


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


def _cost(words: str, count: Callable[[str], int]) -> int:
    return count(_quoted(words)) + 2


def _quoted(words: str) -> str:
    return "\n".join(f"> {line}" for line in words.split("\n"))


def _own_words(gone: Sequence[Group], room: int, count: Callable[[str], int]) -> tuple[str, ...]:
    words: list[str] = []
    for group in reversed(gone):
        if not is_request(group):
            continue
        text = group[0].message.content
        cost = _cost(text, count)
        if cost > room:
            lines = count(_quoted(text)) - count(text)
            if room - lines > 64:
                words.append(clip(text, room - lines - 4, count, plain_marker).text)
            break
        room -= cost
        words.append(text)
    return tuple(reversed(words))


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
