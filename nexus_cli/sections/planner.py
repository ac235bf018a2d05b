"""SELECT: choose the sections to send, and their forms. Pure.

Sticky sections start at their shortest form, the others are left out. One fixed list of upgrades, ordered by level and
then by score, is applied up to the first that does not fit: so with a larger budget every form stays or grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nexus_cli.core.elide import Count
from nexus_cli.core.json_value import ABSENT, JsonDict, JsonOf
from nexus_cli.core.section_rows import JOINT, UNREAD, Why, reason_text
from nexus_cli.sections.section import Layer, Phase, Section, sha256

MAX_TOKENS = 16_384
"""Tokens of all static sections together."""
SHARE = 0.25
"""Largest share of the budget for them."""
LEVELS = ("dropped", "pointer", "outline", "shortened", "full")
"""From nothing to everything. A section's shortest form counts as its pointer, whatever its name."""
MAX_NAMED = 20
"""Most sections that the line for the model names."""


class SectionObject(JsonOf[Section]):
    """A section of a request."""

    layer: Literal["system", "event"]
    multiplier: float
    """The multiplier of the recipe times the learned multiplier."""
    learned: float = ABSENT
    """The learned multiplier if it is not 1 (`sections.learn`)."""
    score: float
    tokens: int
    full_tokens: int
    form: Literal["full", "shortened", "outline", "pointer", "dropped"]
    reason: str
    """Form and cause on one line."""
    why: list[str | int] | None = ABSENT
    """The parts of the cause; only in `context.plan`."""
    drop: str | None
    off: bool
    """True if the multiplier is 0."""
    sha256: str | None
    cached: bool
    counted: int = ABSENT
    """Tokens by nexus's own count."""
    full_counted: int = ABSENT


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """A section with the form in which it is sent."""

    section: Section
    form: int | None
    """Index of the section's form, 0 is full; None: it is left out."""
    tokens: int
    full_tokens: int
    multiplier: float = 1.0
    why: Why = ()
    """Reason for not using a fuller form; empty if there is nothing to explain."""
    drop: str = ""
    """Id of the drop with the whole text, if less of it is sent."""
    learned: float = 1.0
    """The part of the multiplier that is learned (`learned`); the rest is the recipe's."""
    is_off: bool = False
    """True if the recipe's multiplier is 0: it is not wanted, so that nothing is missing."""

    @classmethod
    def skipped(cls, contributor: str, why: str) -> SectionChoice:
        """Return the entry of a contributor without sections, for the report."""
        text = f"{contributor} could not be read: {why}"
        section = Section(contributor, Phase.CONSTRAINT, (text,), Layer.SYSTEM, 0, source=UNREAD)
        return cls(section, None, 0, 0, why=(why,))

    @property
    def is_unread(self) -> bool:
        """True if its contributor could not be read."""
        return self.form is None and self.section.source == UNREAD

    @property
    def name(self) -> str:
        """`full`, `shortened`, `outline`, `pointer` or `dropped`."""
        return "dropped" if self.form is None else self.section.names[self.form]

    @property
    def text(self) -> str:
        """The text that is sent; "" if it is left out."""
        return "" if self.form is None else self.section.forms[self.form]

    @property
    def is_short(self) -> bool:
        """True if less than the whole text is sent."""
        return (self.form != 0 or self.section.unread_bytes > 0) and not self.is_off

    @property
    def is_left_out(self) -> bool:
        """True if nothing of it is sent, not even a pointer."""
        return self.is_short and self.form is None

    @property
    def is_capped(self) -> bool:
        """True if it is short only because its fuller forms are never sent."""
        return self.is_short and self.form == self.section.least

    @property
    def reason(self) -> str:
        """The form and the reason: `full (score 92, 410 tokens)`."""
        if self.is_off:
            return "off in this recipe"
        return reason_text(self.name, self.section.score(self.multiplier), self.tokens, self._why())

    def _why(self) -> Why:
        """Return `why` with the bytes of its file that were not read."""
        beyond = self.section.unread_bytes
        return join_why(self.why, (f"file truncated: {beyond:,} bytes not read",) if beyond else ())

    def to_json(self, *, cached: bool) -> JsonDict:
        """Return one element of `sections` in `nexus docs json`, with the hash of the text that is sent."""
        learned = {} if self.learned == 1.0 else {"learned": self.learned}
        return {
            **self.section.to_json(),
            **learned,
            "multiplier": self.multiplier,
            "score": self.section.score(self.multiplier),
            "tokens": self.tokens,
            "full_tokens": self.full_tokens,
            "form": self.name,
            "reason": self.reason,
            "why": None if self.is_off else list(self._why()),
            "drop": self.drop or None,
            "off": self.is_off,
            "sha256": sha256(self.text) if self.text else None,
            "cached": cached and bool(self.text),
        }


def join_why(one: Why, other: Why) -> Why:
    """Join two reasons to one sentence."""
    return (*one, "; ", *other) if one and other else one or other


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The forms of all sections within one budget."""

    chosen: tuple[SectionChoice, ...]
    """Every offered section, in the order of their places."""
    budget: int
    """The available tokens."""
    raised: int
    """Tokens to which the budget was raised for sections that are always sent; 0 if it was enough."""

    @property
    def used(self) -> int:
        """Tokens of the sent sections, including those that join them."""
        return sum(choice.tokens + JOINT for choice in self.chosen if choice.form is not None)

    @property
    def sent(self) -> tuple[SectionChoice, ...]:
        """The sections that are sent in some form."""
        return tuple(choice for choice in self.chosen if choice.form is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The plan, line by line."""
        first = f"section budget: {self.used:,} of {max(self.budget, self.raised):,} tokens"
        if self.raised:
            first += f"; raised from {self.budget:,} for sections that are always sent"
        return (first, *(f"{choice.section.id}: {choice.reason}" for choice in self.chosen))


def section_budget(available: int, lowered: int | None = None) -> int:
    """Return the tokens of all static sections in a budget of `available`; a recipe's `lowered` can only lower it."""
    return max(0, min(MAX_TOKENS, int(available * SHARE), MAX_TOKENS if lowered is None else lowered))


def plan_sections(
    sections: Iterable[Section], budget: int, count: Count, multiplier: Callable[[Section], float] | None = None
) -> SectionPlan:
    """Return the fullest forms that fit `budget` tokens; the order of `sections` does not matter.

    Never takes more than the budget, or than the shortest forms of the sticky sections if these exceed it.
    """
    ladders = [
        _Ladder.of(section, multiplier(section) if multiplier else 1.0, count)
        for section in sorted(sections, key=lambda section: section.position)
    ]
    rungs = [0 if ladder.section.sticky and ladder.rungs else -1 for ladder in ladders]
    used = sum(ladder.cost(rung) for ladder, rung in zip(ladders, rungs, strict=True))
    raised = used if used > budget else 0
    blocked: tuple[str, int] | None = None
    for index, rung in _upgrades(ladders):
        step = ladders[index].cost(rung) - ladders[index].cost(rung - 1)
        if used + step > budget:
            blocked = ladders[index].section.id, step
            break
        used += step
        rungs[index] = rung
    unspent = max(0, budget - used)
    chosen = tuple(ladder.chosen(rung, unspent, blocked) for ladder, rung in zip(ladders, rungs, strict=True))
    return SectionPlan(chosen, budget, raised)


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The useful forms of a section: each costs more than the one before."""

    section: Section
    multiplier: float
    tokens: tuple[int, ...]
    """Tokens of each form."""
    rungs: tuple[int, ...]
    """Indexes of forms, from the cheapest to the fullest that may be sent; none for a section that is off."""

    @classmethod
    def of(cls, section: Section, multiplier: float, count: Count) -> _Ladder:
        tokens = section.sizes(count)
        rungs: list[int] = []
        for form in range(section.least, len(tokens)):
            if not rungs or tokens[form] < tokens[rungs[-1]]:
                rungs.append(form)
        return cls(section, multiplier, tokens, tuple(reversed(rungs)) if multiplier > 0 else ())

    def cost(self, rung: int) -> int:
        """Return the tokens of a rung, including those that join it to other sections; -1 means left out."""
        return self.tokens[self.rungs[rung]] + JOINT if rung >= 0 else 0

    def level(self, rung: int) -> int:
        """Return the index in `LEVELS` of a rung."""
        return 1 if rung == 0 else LEVELS.index(self.section.names[self.rungs[rung]])

    def chosen(self, rung: int, unspent: int, blocked: tuple[str, int] | None) -> SectionChoice:
        """Return the choice for a climb that ended on `rung` with `unspent` tokens unspent, stopped by `blocked`."""
        section, full = self.section, self.tokens[0]
        if not self.rungs:
            return SectionChoice(section, None, 0, full, self.multiplier, is_off=True)
        form = self.rungs[rung] if rung >= 0 else None
        why: Why = ()
        if rung + 1 < len(self.rungs):
            assert blocked is not None, "only the budget ends a climb"
            stopped, step = blocked
            if stopped == section.id:
                why = "the next form needs ", step, " tokens, ", unspent, " are left"
            else:
                why = f"{stopped} comes first and needs ", step, " tokens, ", unspent, " are left"
        elif form is not None and 0 < form == section.least:
            why = full, " tokens are above its cap"
        return SectionChoice(section, form, 0 if form is None else self.tokens[form], full, self.multiplier, why)


def _upgrades(ladders: Sequence[_Ladder]) -> list[tuple[int, int]]:
    """Return every upgrade as ladder and rung, in the order of application: level, score, place."""
    steps = [
        (ladder.level(rung), -ladder.section.score(ladder.multiplier), index, rung)
        for index, ladder in enumerate(ladders)
        for rung in range(1 if ladder.section.sticky else 0, len(ladder.rungs))
    ]
    return [(index, rung) for _, _, index, rung in sorted(steps)]


def left_out_line(left_out: Mapping[str, str], room: int, count: Count) -> str:
    """Return one line for the model that names the left-out sections with their drops, in at most `room` tokens; "" if
    none fits.

    Sections without room are counted.
    """
    names = [f"{section} ({drop})" for section, drop in left_out.items()]
    for shown_count in range(min(len(names), MAX_NAMED), -1, -1):
        listed = names[:shown_count] + ([f"{len(names) - shown_count} more"] if shown_count < len(names) else [])
        text, counted = f"left out for space: {', '.join(listed)}", f"{len(names)} sections left out"
        line = f"[nexus: {text if shown_count else counted}]"
        if names and count(line) <= room:
            return line
    return ""
