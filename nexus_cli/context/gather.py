"""GATHER and SELECT: what contributors say is planned and turned into the texts of a request.

The static layer becomes the system text of an epoch; the event layer becomes a preamble that says only what differs
from what this epoch last sent (design 1.2). Reading contributors is `contributed`, the budget is the planner's
business, the record of what is left out the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nexus_cli.context.chosen import Chosen, told
from nexus_cli.context.contributed import Reading
from nexus_cli.context.contributors import Contributor, Sources, View
from nexus_cli.context.planned import Left
from nexus_cli.context.planner import JOINT, MOST_TOKENS, Plan, plan, section_budget
from nexus_cli.context.reads import NEEDED, Held
from nexus_cli.context.recipe import Recipe
from nexus_cli.context.section import Layer, Section
from nexus_cli.core.budget import TokenBudget

PREAMBLE_SHARE = 0.02
PREAMBLE_TOKENS = 1000
"""A preamble takes at most this share of the window, and at most so many tokens."""
LINE_TOKENS = 200
"""Tokens of the line of the system text that names what is left out; in a preamble at most 60, and a quarter of it."""
PLAIN = Recipe("")
NOTICES = "notices"
"""What is told each time it is there, also with a tool result."""


class LeftOut(Protocol):
    """Records what is left out of sections, once for each text."""

    def record(self, chosen: Chosen, later: list[Left] | None = None) -> str:
        """The id of the drop that holds the whole text of `chosen`; where it is the first time it is recorded, or added
        to those that are recorded `later`."""
        ...

    def known(self, section: Section) -> str:
        """The id of that drop, "" when nothing of this text was left out so far."""
        ...


@dataclass(frozen=True, slots=True)
class News:
    """What the next request tells, beside its entries."""

    text: str
    plan: Plan
    told: Mapping[str, str]
    """The hash of the whole text of each section that is sent in some form."""
    missed: tuple[str, ...] = ()
    """Ids of the drops that the line for the model names."""

    def described(self) -> list[dict[str, Any]]:
        """Its sections for interface.md section 8."""
        return [one.described(cached=False) for one in self.plan.chosen if not one.off]


@dataclass
class Gatherer:
    """Reads the contributors of one lane."""

    contributors: Mapping[str, Contributor]
    sources: Sources
    view: View
    failed: Callable[[str], None]
    """Told in one line, once, which contributor was skipped and why, and what is odd about a file that was read."""
    left_out: LeftOut
    recipe: Recipe = PLAIN
    budget: int = MOST_TOKENS
    """Tokens of all static sections together."""
    told: dict[str, str] = field(default_factory=dict)
    """The hash of what this epoch last told of each event section."""
    kept: Held = field(default_factory=Held)
    """What was read before of what every request needs."""
    _held: tuple[str, ...] = ()
    _last: Mapping[str, str] = field(default_factory=dict)
    _missed: set[str] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)

    def fit(self, budget: TokenBudget) -> None:
        """From now on plan for this budget."""
        self.view = View.of(self.view.model, self.view.recipe, budget, self.view.count)
        self.budget = section_budget(budget.available, self.recipe.section_budget)

    # -- layer 1 -----------------------------------------------------------------------------------------------

    async def static(self) -> tuple[Plan, tuple[Left, ...]]:
        """The sections of the system text, and the drops of what they leave out, to be recorded with its epoch.

        What was skipped stands among them, left out, with the reason; where a request needs it, it is a drop.
        """
        sections, skipped = await self.sections(Layer.SYSTEM)
        left: list[Left] = []
        made = self._named(plan(sections, self.budget, self.view.count, self._multiplier), left)
        lost = [Chosen.skipped(name, why) for name, why in skipped.items()]
        lost = [replace(one, drop=self.left_out.record(one, left)) if one.section.id in NEEDED else one for one in lost]
        return replace(made, chosen=(*made.chosen, *lost)), tuple(left)

    def look_again(self, names: Iterable[str]) -> None:
        """Read these in the background: an epoch had to begin without them. `kept.arrived` says when one has come."""
        for name in names:
            if name in NEEDED and name in self.contributors:
                self.kept.begin(self.contributors[name], self.sources)

    # -- layer 3 -----------------------------------------------------------------------------------------------

    @property
    def blank(self) -> bool:
        """Nothing of the event layer was told in this epoch."""
        return not self.told and not self._held

    @property
    def pool(self) -> int:
        """Tokens of one preamble."""
        return max(0, min(PREAMBLE_TOKENS, int(self.view.window * PREAMBLE_SHARE)))

    async def news(self, *, only: str = "") -> News:
        """The event texts that differ from what was last told; `only` names one contributor.

        The caller says with `settle` that they stand in a request. What did not fit is told as soon as it does.
        """
        count = self.view.count
        found, _ = await self.sections(Layer.EVENT, only)
        fresh = [section for section in found if section.id == NOTICES or not self._knows(section)]
        made = self._pooled(fresh, self.pool)
        room = min(60, self.pool // 4)
        if any(one.lost for one in made.chosen):
            made = self._pooled(fresh, self.pool - room)
        made = self._named(made)
        missed = {one.section.id: one.drop for one in made.chosen if one.lost and one.drop not in self._missed}
        texts = [one.text for one in made.sent]
        line = told(missed, room, count)
        digests = {one.section.id: one.section.digest for one in made.sent}
        taken = made.used - JOINT + (count(line) + JOINT if line else 0)
        made = _raised(made, self.pool, taken if taken > self.pool else 0)
        return News("\n".join([*texts, line] if line else texts), made, digests, tuple(missed.values()))

    def _pooled(self, fresh: Sequence[Section], pool: int) -> Plan:
        """What `pool` tokens tell, or, where that is more, the shortest forms of the sticky sections. Notices for which
        there is room for a pointer alone wait for the next request, as long as something else is told with this one."""
        pool = max(0, pool) + JOINT  # so many texts are joined by one line end fewer
        made = plan(fresh, pool, self.view.count, self._multiplier)
        if len(fresh) > 1 and any(one.section.id == NOTICES and one.name == "pointer" for one in made.chosen):
            others = [section for section in fresh if section.id != NOTICES]
            return plan(others, pool, self.view.count, self._multiplier)
        return made

    def settle(self, news: News) -> None:
        """These event texts stand in a request now."""
        self.told.update({key: digest for key, digest in news.told.items() if key != NOTICES})
        self._missed.update(news.missed)

    def learn(self, preambles: Iterable[str], last: Mapping[str, str]) -> None:
        """A new epoch, or a lane that is gone on with: what stands in `preambles` is told already.

        `last` is the hash of what was last told of each section at any time: an older text that still stands there
        does not count.
        """
        self.told.clear()
        self._missed.clear()
        self._held, self._last = tuple(f"\n{preamble}\n" for preamble in preambles if preamble), last

    def _knows(self, section: Section) -> bool:
        """Whether this epoch last told exactly this of the section."""
        digest = section.digest
        if section.id in self.told:
            return self.told[section.id] == digest
        if not self._held or self._last.get(section.id, digest) != digest:
            return False
        forms = section.naming(self.left_out.known(section)).forms
        if not any(f"\n{form}\n" in held for form in forms for held in self._held):
            return False
        self.told[section.id] = digest
        return True

    # -- both --------------------------------------------------------------------------------------------------

    async def sections(self, layer: Layer, only: str = "") -> tuple[list[Section], dict[str, str]]:
        """What the contributors of a layer say now, in order, and why others were skipped; see `contributed`."""
        reading = Reading(self.sources, self.view, self.recipe, self.budget, self._say, self.kept)
        asked = [c for c in self.contributors.values() if c.layer is layer and only in ("", c.id)]
        return await reading.sections(asked), reading.skipped

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.failed(line)

    def _multiplier(self, section: Section) -> float:
        return self.recipe.multiplier(section.phase.label, section.id)

    def _named(self, made: Plan, later: list[Left] | None = None) -> Plan:
        """The plan with a drop for everything that is sent short or not at all, recorded now or `later`."""
        return replace(made, chosen=tuple(self._dropped(one, later) if one.short else one for one in made.chosen))

    def _dropped(self, one: Chosen, later: list[Left] | None) -> Chosen:
        drop = self.left_out.record(one, later)
        named = replace(one, section=one.section.naming(drop), drop=drop)
        return replace(named, tokens=self.view.count(named.text)) if named.text else named


def _raised(made: Plan, pool: int, raised: int) -> Plan:
    """The plan of a preamble; where its pool was raised, the first sticky section that is sent short says so, else the
    first one."""
    made = replace(made, budget=pool, raised=raised)
    sticky = [one for one in made.sent if one.section.sticky]
    if not raised or not sticky:
        return made
    saying = next((one for one in sticky if one.short), sticky[0])
    said = f"the pool of {pool:,} tokens was raised to {raised:,} for the shortest forms of sticky sections"
    told_why = replace(saying, why="; ".join(filter(None, (saying.why, said))))
    return replace(made, chosen=tuple(told_why if one is saying else one for one in made.chosen))


def system_text(made: Plan, count: Callable[[str], int]) -> str:
    """The system text of an epoch; its last lines name what is left out, and what could not be read."""
    missed = {one.section.id: one.drop for one in made.chosen if one.drop and one.lost and not one.unread}
    line = told(missed, LINE_TOKENS, count)
    unread = [f"[nexus: {one.section.full}]" for one in made.chosen if one.drop and one.unread]
    return "\n\n".join([*(one.text for one in made.sent), *([line] if line else []), *unread])
