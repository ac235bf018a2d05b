"""GATHER and SELECT: plan the sections of the contributors and make the texts of a request.

The static layer becomes the system text of an epoch; the event layer becomes a preamble that says only what differs
from what this epoch last sent. Reading contributors is `section_reader`, the budget is the planner's business, the
record of what is left out the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nexus_cli.context.sections.contributor import Contributor, View
from nexus_cli.context.sections.planner import (
    JOINT,
    MOST_TOKENS,
    SectionChoice,
    SectionPlan,
    join_why,
    left_out_line,
    plan_sections,
    section_budget,
)
from nexus_cli.context.sections.reader import SectionReader
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.sections.section import Layer, Section
from nexus_cli.context.window.lane import EpochHeader
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Drop

PREAMBLE_SHARE = 0.02
PREAMBLE_TOKENS = 1000
"""A preamble takes at most this share of the window, and at most so many tokens."""
LINE_TOKENS = 200
"""Tokens of the line of the system text that names what is left out; in a preamble at most 60, and a quarter of it."""
PLAIN = Recipe("")
NOTICES = "notices"
"""The section that is sent each time it is there."""


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """The part of a section that a system text leaves out."""

    drop: Drop
    note: tuple[str, Mapping[str, Any]]
    """Kind and value of the memo beside it."""


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """The header of an epoch that may begin, and what its system text leaves out for the first time."""

    frame: EpochHeader
    left: tuple[PendingDrop, ...] = ()

    @property
    def drops(self) -> tuple[Drop, ...]:
        """The drops of that, with their texts."""
        return tuple(one.drop for one in self.left)

    @property
    def fixed(self) -> int:
        """Counted tokens of system text and schemas."""
        return self.frame.system_tokens + self.frame.tools_tokens


class OmissionRecorder(Protocol):
    """A recorder of omitted parts of sections, once for each text."""

    def record(self, chosen: SectionChoice, later: list[PendingDrop] | None = None) -> str:
        """Return the id of the drop with the whole text of `chosen`; a new one is recorded, or added to `later`."""
        ...

    def drop_id_of(self, section: Section) -> str:
        """Return the id of that drop, "" if nothing of this text was left out so far."""
        ...


def as_note(text: str) -> str:
    """Return the text of a section marked as ours: on one line `[nexus: ...]`, on more between two lines."""
    if text.startswith("[nexus:"):
        return text
    if "\n" in text:
        return f"[nexus:\n{text}\n]"
    return f"[nexus: {text[1:-1] if text.startswith('[') and text.endswith(']') else text}]"


@dataclass(frozen=True, slots=True)
class ChangedSections:
    """The event sections that the next request sends."""

    texts: Sequence[str]
    plan: SectionPlan
    sent: Mapping[str, str]
    """The hash of the whole text of each section that is sent in some form."""
    missed: tuple[str, ...] = ()
    """Ids of the drops that the line for the model names."""

    @property
    def text(self) -> str:
        """Return the preamble of a user message."""
        return "\n".join(self.texts)

    @property
    def notes(self) -> str:
        """Return the same behind a tool result, where each section shows that it is none of it."""
        return "\n".join(map(as_note, self.texts))

    def to_json(self) -> list[dict[str, Any]]:
        """Return its sections for `nexus docs json`."""
        return [one.to_json(cached=False) for one in self.plan.chosen if not one.is_off]

    def facts(self) -> list[Mapping[str, str]]:
        """Return the facts that it contains as text: sticky ones may have shrunk to a pointer."""
        in_words = (one for one in self.plan.sent if not one.section.sticky or one.name != "pointer")
        return [one.section.fact for one in in_words if one.section.fact]


@dataclass
class SectionCollector:
    """The collection of sections for one lane."""

    contributors: Mapping[str, Contributor]
    reader: SectionReader
    view: View
    notify: Callable[[str], None]
    """Receives each line once: which contributor was skipped and why, what is odd about a file that was read."""
    left_out: OmissionRecorder
    recipe: Recipe = PLAIN
    budget: int = MOST_TOKENS
    """Tokens of all static sections together."""
    sent: dict[str, str] = field(default_factory=dict)
    """The hash of what this epoch last sent of each event section."""
    _preambles: tuple[str, ...] = ()
    """Those of the window when this epoch began."""
    _sent_before: Mapping[str, str] = field(default_factory=dict)
    _missed: set[str] = field(default_factory=set)
    _notified: set[str] = field(default_factory=set)

    def drafting(self, notify: Callable[[str], None], left_out: OmissionRecorder) -> SectionCollector:
        """Return a collector that reads the same sources anew and knows of nothing that was sent."""
        reader = SectionReader(self.reader.sources)
        return SectionCollector(self.contributors, reader, self.view, notify, left_out, self.recipe, self.budget)

    def set_budget(self, budget: TokenBudget) -> None:
        """Plan for this budget from now on."""
        self.view = View.of(self.view.model, self.view.recipe, budget, self.view.count)
        self.budget = section_budget(budget.available, self.recipe.section_budget)

    # -- layer 1 -----------------------------------------------------------------------------------------------

    async def system_plan(self) -> tuple[SectionPlan, tuple[PendingDrop, ...]]:
        """Plan the system text; return the plan and the drops of what it leaves out, to be recorded with its epoch.

        A skipped contributor is in the plan as left out, with the reason; a required one is a drop.
        """
        sections, skipped = await self.sections(Layer.SYSTEM)
        left: list[PendingDrop] = []
        made = self._with_drops(plan_sections(sections, self.budget, self.view.count, self._multiplier), left)
        lost = []
        for name, why in skipped.items():
            one = SectionChoice.skipped(name, why)
            required = self.contributors[name].required
            lost.append(replace(one, drop=self.left_out.record(one, left)) if required else one)
        return replace(made, chosen=(*made.chosen, *lost)), tuple(left)

    def read_in_background(self, names: Iterable[str]) -> None:
        """Read these required contributors, which an epoch had to begin without; see `reader.arrived`."""
        for name in names:
            if name in self.contributors and self.contributors[name].required:
                self.reader.read_in_background(self.contributors[name])

    # -- layer 3 -----------------------------------------------------------------------------------------------

    @property
    def has_sent_nothing(self) -> bool:
        """True if this epoch has sent nothing of the event layer."""
        return not self.sent and not self._preambles

    @property
    def has_prompt_sections(self) -> bool:
        """True if a tool result has something to carry: a section that cannot wait for the person's next message."""
        return any(
            one.id in self.recipe.overrides or not all(map(self._is_sent, self._rendered(one)))
            for one in self.contributors.values()
            if one.prompt
        )

    def _rendered(self, contributor: Contributor) -> Iterable[Section]:
        """Return what a contributor whose reading is cheap says now, as far as the recipe has it."""
        found = contributor.render(contributor.read(self.reader.sources), self.view)
        return filter(self._multiplier, found)

    @property
    def preamble_cap(self) -> int:
        """Tokens of one preamble."""
        return max(0, min(PREAMBLE_TOKENS, int(self.view.window * PREAMBLE_SHARE)))

    async def changed_sections(self, *, prompt: bool = False) -> ChangedSections:
        """Return the event sections that differ from what was last sent; with `prompt` those that cannot wait.

        The caller says with `mark_sent` that they are in a request. What does not fit is sent as soon as it does.
        """
        count, cap = self.view.count, self.preamble_cap
        found, _ = await self.sections(Layer.EVENT, prompt=prompt)
        changed = [section for section in found if not self._is_sent(section)]
        made = self._preamble_plan(changed, cap)
        line_room = min(60, cap // 4)
        if any(one.is_left_out for one in made.chosen):
            made = self._preamble_plan(changed, cap - line_room)
        made = self._with_drops(made)
        missed = {one.section.id: one.drop for one in made.chosen if one.is_left_out and one.drop not in self._missed}
        texts = [one.text for one in made.sent]
        line = left_out_line(missed, line_room, count)
        digests = {one.section.id: one.section.digest for one in made.sent}
        used = made.used - JOINT + (count(line) + JOINT if line else 0)
        made = _explain_raise(made, cap, used if used > cap else 0)
        return ChangedSections([*texts, line] if line else texts, made, digests, tuple(missed.values()))

    def _preamble_plan(self, changed: Sequence[Section], cap: int) -> SectionPlan:
        """Plan what `cap` tokens, or, where that is more, the shortest forms of the sticky sections, can send.

        Notices with room for a pointer alone wait for the next request, as long as this one sends something else.
        """
        cap = max(0, cap) + JOINT  # so many texts are joined by one line end fewer
        made = plan_sections(changed, cap, self.view.count, self._multiplier)
        if len(changed) > 1 and any(one.section.id == NOTICES and one.name == "pointer" for one in made.chosen):
            others = [section for section in changed if section.id != NOTICES]
            return plan_sections(others, cap, self.view.count, self._multiplier)
        return made

    def mark_sent(self, changed: ChangedSections) -> None:
        """Note that these sections are in a request now."""
        self.sent.update({key: digest for key, digest in changed.sent.items() if key != NOTICES})
        self._missed.update(changed.missed)

    def load_sent(self, preambles: Iterable[str], last: Mapping[str, str]) -> None:
        """Begin an epoch, or go on with a lane, whose window holds `preambles`.

        `last` is the hash of what was last sent of each section at any time: an older text that is still in the window
        does not count.
        """
        self.sent.clear()
        self._missed.clear()
        self._preambles = tuple(f"\n{preamble}\n" for preamble in preambles if preamble)
        self._sent_before = last

    def _is_sent(self, section: Section) -> bool:
        """True if this epoch last sent exactly this of the section."""
        digest = section.digest
        if section.id == NOTICES:
            return False
        if section.id in self.sent:
            return self.sent[section.id] == digest
        if not self._preambles or self._sent_before.get(section.id, digest) != digest:
            return False
        forms = section.with_drop_id(self.left_out.drop_id_of(section)).forms
        sent = (f"\n{text}\n" for form in forms for text in (form, as_note(form)))
        if not any(text in preamble for text in sent for preamble in self._preambles):
            return False
        self.sent[section.id] = digest
        return True

    # -- both --------------------------------------------------------------------------------------------------

    async def sections(
        self, layer: Layer, only: str = "", *, prompt: bool = False
    ) -> tuple[list[Section], dict[str, str]]:
        """Return what the contributors of a layer say now, in order, and why others were skipped; `only` names one of
        them, `prompt` means those that cannot wait."""
        of_layer = (one for one in self.contributors.values() if one.layer is layer and only in ("", one.id))
        asked = [one for one in of_layer if one.prompt or not prompt]
        found, skipped, lines = await self.reader.sections(asked, self.view, self.recipe, self.budget)
        for line in dict.fromkeys(lines):
            if line not in self._notified:
                self._notified.add(line)
                self.notify(line)
        return found, skipped

    def _multiplier(self, section: Section) -> float:
        return self.recipe.multiplier(section.phase.label, section.id)

    def _with_drops(self, made: SectionPlan, later: list[PendingDrop] | None = None) -> SectionPlan:
        """Return the plan with a drop for everything that is sent short or not at all, recorded now or `later`."""
        return replace(made, chosen=tuple(self._with_drop(one, later) if one.is_short else one for one in made.chosen))

    def _with_drop(self, one: SectionChoice, later: list[PendingDrop] | None) -> SectionChoice:
        drop = self.left_out.record(one, later)
        named = replace(one, section=one.section.with_drop_id(drop), drop=drop)
        return replace(named, tokens=self.view.count(named.text)) if named.text else named


def _explain_raise(made: SectionPlan, cap: int, raised: int) -> SectionPlan:
    """Return the plan of a preamble; where its cap was raised, the first short sticky section says so, else the first
    sticky one."""
    made = replace(made, budget=cap, raised=raised)
    sticky = [one for one in made.sent if one.section.sticky]
    if not raised or not sticky:
        return made
    saying = next((one for one in sticky if one.is_short), sticky[0])
    raise_note = "the pool of ", cap, " tokens was raised to ", raised, " for the shortest forms of sticky sections"
    explained = replace(saying, why=join_why(saying.why, raise_note))
    return replace(made, chosen=tuple(explained if one is saying else one for one in made.chosen))


def system_text(made: SectionPlan, count: Callable[[str], int]) -> str:
    """Return the system text of an epoch; its last lines name what is left out, and what could not be read."""
    missed = {one.section.id: one.drop for one in made.chosen if one.drop and one.is_left_out and not one.is_unread}
    line = left_out_line(missed, LINE_TOKENS, count)
    unread = [f"[nexus: {one.section.full}]" for one in made.chosen if one.drop and one.is_unread]
    return "\n\n".join([*(one.text for one in made.sent), *([line] if line else []), *unread])
