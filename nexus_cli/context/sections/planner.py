"""SELECT: which sections are sent, and in which form (seed E's budget with a ladder instead of a cliff). Pure.

Sticky sections start at their shortest form, the others left out. One fixed list of upgrades, level by level and within
a level by score, is run up to the first that does not fit: so with a larger budget every form stays or grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.sections.section import DROP, Layer, Phase, Section, sha256

MOST_TOKENS = 16_384
"""Tokens of all static sections together: seed E's number."""
SHARE = 0.25
"""Share of the budget that they take at most."""
LEVELS = ("dropped", "pointer", "outline", "shortened", "full")
"""From nothing to everything. The shortest form of a section counts as its pointer, whatever it is called."""
STAND_IN = "d9999"
"""Counted in place of the id of a drop."""
JOINT = 1
"""Tokens of what joins two sections."""
UNREAD = "contributor"
"""Source of a drop that was not read."""
NAMED = 20
"""Sections that the line for the model names at most."""

Count = Callable[[str], int]


Why = tuple[str | int, ...]
"""Words and, as numbers, tokens by our own count: a report says them in the unit of its other figures."""


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """A section with the form in which it is sent."""

    section: Section
    form: int | None
    """Index into the section's forms, 0 is full; None: it is left out."""
    tokens: int
    full_tokens: int
    multiplier: float = 1.0
    why: Why = ()
    """Why not in a fuller form; empty when there is nothing to explain."""
    drop: str = ""
    """Id of the drop with the whole text, where less of it is sent."""
    is_off: bool = False
    """The recipe's multiplier is 0: nobody wants it, so that nothing is missing."""

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
        """The text that is sent; "" when it is left out."""
        return "" if self.form is None else self.section.forms[self.form]

    @property
    def is_short(self) -> bool:
        """True if less of it is sent than there is."""
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
        """The form and why: `full (score 92, 410 tokens)`."""
        if self.is_off:
            return "off: its multiplier is 0"
        return reason_text(self.name, self.section.score(self.multiplier), self.tokens, self._why())

    def _why(self) -> Why:
        """Return `why`, with what was not read of its file."""
        beyond = self.section.unread_bytes
        return join_why(self.why, (f"{beyond:,} bytes of its file are not read",) if beyond else ())

    def to_json(self, *, cached: bool) -> dict[str, Any]:
        """Return one element of `sections` in `nexus docs json`, with the hash of the text that is sent."""
        return self.section.to_json() | {
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


def reason_text(form: str, score: float, tokens: int, why: Why) -> str:
    """Return the form and why as one line; with other figures in `why` it uses their unit."""
    kept = "" if form == "dropped" else f" (score {score:g}, {tokens:,} tokens)"
    text = "".join(part if isinstance(part, str) else f"{part:,}" for part in why)
    return form + kept + (f": {text}" if text else "")


def join_why(one: Why, other: Why) -> Why:
    """Return both as one sentence."""
    return (*one, "; ", *other) if one and other else one or other


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The forms of all sections within one budget."""

    chosen: tuple[SectionChoice, ...]
    """Every section that was offered, in the order of their places."""
    budget: int
    """Tokens that there were."""
    raised: int
    """Tokens to which the budget had to be raised for the shortest forms of sticky sections; 0: it was enough."""

    @property
    def used(self) -> int:
        """Tokens of what is sent, with what joins it."""
        return sum(one.tokens + JOINT for one in self.chosen if one.form is not None)

    @property
    def sent(self) -> tuple[SectionChoice, ...]:
        """The sections that are sent in some form."""
        return tuple(one for one in self.chosen if one.form is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The plan, line by line."""
        first = f"section budget: {self.used:,} of {max(self.budget, self.raised):,} tokens"
        if self.raised:
            first += f"; raised from {self.budget:,} for the shortest forms of sticky sections"
        return (first, *(f"{one.section.id}: {one.reason}" for one in self.chosen))


def section_budget(available: int, lowered: int | None = None) -> int:
    """Return the tokens of all static sections in a budget of `available`; a recipe's `lowered` only ever lowers it."""
    return max(0, min(MOST_TOKENS, int(available * SHARE), MOST_TOKENS if lowered is None else lowered))


def plan_sections(
    sections: Iterable[Section], budget: int, count: Count, multiplier: Callable[[Section], float] | None = None
) -> SectionPlan:
    """Return the fullest forms that fit `budget` tokens; the order of `sections` does not matter.

    Never takes more than the budget, or, where that is more, the shortest forms of the sticky sections.
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
    left = max(0, budget - used)
    chosen = tuple(ladder.chosen(rung, left, blocked) for ladder, rung in zip(ladders, rungs, strict=True))
    return SectionPlan(chosen, budget, raised)


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The forms of a section that are worth climbing to: each costs more than the one before."""

    section: Section
    multiplier: float
    tokens: tuple[int, ...]
    """Of each form."""
    rungs: tuple[int, ...]
    """Indexes of forms, from the cheapest to the fullest that may be sent; none for a section that is off."""

    @classmethod
    def of(cls, section: Section, multiplier: float, count: Count) -> _Ladder:
        full = count(section.full)
        tokens = (full, *(count(form.replace(DROP, STAND_IN)) for form in section.forms[1:]))
        rungs: list[int] = []
        for form in range(section.least, len(tokens)):
            if not rungs or tokens[form] < tokens[rungs[-1]]:
                rungs.append(form)
        return cls(section, multiplier, tokens, tuple(reversed(rungs)) if multiplier > 0 else ())

    def cost(self, rung: int) -> int:
        """Return the tokens on a rung, with what joins it to the others; -1 is left out."""
        return self.tokens[self.rungs[rung]] + JOINT if rung >= 0 else 0

    def level(self, rung: int) -> int:
        """Return the index in `LEVELS` that a rung is reached with."""
        return 1 if rung == 0 else LEVELS.index(self.section.names[self.rungs[rung]])

    def chosen(self, rung: int, left: int, blocked: tuple[str, int] | None) -> SectionChoice:
        """Return the choice for a climb that ended on `rung` with `left` tokens unspent, stopped by `blocked`."""
        section, full = self.section, self.tokens[0]
        if not self.rungs:
            return SectionChoice(section, None, 0, full, self.multiplier, is_off=True)
        form = self.rungs[rung] if rung >= 0 else None
        why: Why = ()
        if rung + 1 < len(self.rungs):
            assert blocked is not None, "only the budget ends a climb"
            stopped, step = blocked
            if stopped == section.id:
                why = "the next form needs ", step, " tokens, ", left, " are left"
            else:
                why = f"{stopped} comes first and needs ", step, " tokens, ", left, " are left"
        elif form is not None and 0 < form == section.least:
            why = full, " tokens are above its cap"
        return SectionChoice(section, form, 0 if form is None else self.tokens[form], full, self.multiplier, why)


def _upgrades(ladders: Sequence[_Ladder]) -> list[tuple[int, int]]:
    """Return every step up as ladder and rung, in the order in which they are taken: level, score, place."""
    steps = [
        (ladder.level(rung), -ladder.section.score(ladder.multiplier), index, rung)
        for index, ladder in enumerate(ladders)
        for rung in range(1 if ladder.section.sticky else 0, len(ladder.rungs))
    ]
    return [(index, rung) for _, _, index, rung in sorted(steps)]


def left_out_line(left_out: Mapping[str, str], room: int, count: Count) -> str:
    """Return one line for the model that names what is left out, section to drop, in at most `room` tokens; "" when
    none fits.

    What there is no room to name is counted.
    """
    names = [f"{section} ({drop})" for section, drop in left_out.items()]
    for shown in range(min(len(names), NAMED), -1, -1):
        listed = names[:shown] + ([f"{len(names) - shown} more"] if shown < len(names) else [])
        named, counted = f"left out for space: {', '.join(listed)}", f"{len(names)} sections left out"
        line = f"[nexus: {named if shown else counted}]"
        if names and count(line) <= room:
            return line
    return ""
