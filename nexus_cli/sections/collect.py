"""GATHER and SELECT: plan the sections of the contributors and make the texts of a request.

The static layer becomes the system text of an epoch; the event layer becomes a preamble with only the changes since
this epoch last sent it. `reader` reads contributors, `planner` applies the budget, `section_drops` records drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.budget import TokenBudget, preamble_room
from nexus_cli.core.elide import Count
from nexus_cli.core.entry import Drop, PendingDrop
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.section_rows import JOINT, NOTICES
from nexus_cli.core.shared_types import TakeText
from nexus_cli.sections.contributor import Contributor, Sources, View
from nexus_cli.sections.learned import Misses, learned_multiplier
from nexus_cli.sections.planner import (
    MAX_TOKENS,
    SectionChoice,
    SectionPlan,
    join_why,
    left_out_line,
    plan_sections,
    section_budget,
)
from nexus_cli.sections.reader import SectionReader
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.section import Layer, Section
from nexus_cli.sections.section_drops import SectionDrops
from nexus_cli.text.untrusted_text import as_note

LINE_TOKENS = 200
"""Tokens of the system text's line that names drops; in a preamble at most 60, and a quarter of it."""
PLAIN = Recipe("")


@dataclass(frozen=True, slots=True)
class ChangedSections:
    """The event sections that the next request sends."""

    texts: Sequence[str]
    plan: SectionPlan
    sent: Mapping[str, str]
    """The hash of the whole text of each section that is sent in any form, notices apart: these are sent whenever there
    are some."""
    missed: tuple[str, ...]
    """Ids of the drops that the line for the model names."""

    @property
    def has_notices(self) -> bool:
        """True if the notices that wait are among them."""
        return any(choice.section.id == NOTICES for choice in self.plan.sent)

    @property
    def text(self) -> str:
        """Return the preamble of a user message."""
        return "\n".join(self.texts)

    @property
    def notes(self) -> str:
        """Return the text to append to a tool result, with each section marked as not being part of it."""
        return "\n".join(map(as_note, self.texts))

    def to_json(self) -> list[JsonDict]:
        """Return its sections for `nexus docs json`."""
        return [choice.to_json(cached=False) for choice in self.plan.chosen if not choice.is_off]

    def facts(self) -> list[Mapping[str, str]]:
        """Return the facts that it contains as text: sticky ones may have shrunk to a pointer."""
        in_words = (choice for choice in self.plan.sent if not choice.section.sticky or choice.name != "pointer")
        return [word.section.fact for word in in_words if word.section.fact]

    def fact_ids(self) -> list[str]:
        """Return all facts of its sections, also those that only the drop of a section has."""
        return [fact for choice in self.plan.chosen if not choice.is_off for fact in choice.section.fact_ids]


@dataclass
class SectionCollector:
    """Collects the sections of one conversation."""

    contributors: Mapping[str, Contributor]
    reader: SectionReader
    view: View
    notify: TakeText
    """Receives each line once: skipped contributors with the reason, and problems with files that were read."""
    left_out: SectionDrops
    recipe: Recipe = PLAIN
    budget: int = MAX_TOKENS
    """Tokens of all static sections together."""
    misses: Callable[[], Misses] = dict
    """Counts the events of the project from which the multipliers of the next epoch are learned."""
    sent: dict[str, str] = field(default_factory=dict)
    """The hash of the last sent text of each event section in this epoch."""
    _preambles: tuple[str, ...] = ()
    """The preambles of the window at the beginning of this epoch."""
    _sent_before: Mapping[str, str] = field(default_factory=dict)
    _missed: set[str] = field(default_factory=set)
    _notified: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        context: ContextManager,
        contributors: Mapping[str, Contributor],
        sources: Sources,
        recipe: Recipe,
        notify: TakeText,
        show_drop: Callable[[Drop], None],
        is_news: Callable[[str, str], bool],
        misses: Callable[[], Misses],
    ) -> SectionCollector:
        """Return the collector for the conversation, model and budget of `context`, see `SectionReader` and
        `SectionDrops`."""
        view = View.of(context.model.info.name, recipe.name, context.budget, context.count)
        budget = section_budget(context.budget.available, recipe.section_budget)
        log, clock = context.conversation.log, context.conversation.clock
        reader, left_out = SectionReader(sources, is_news), SectionDrops(log, clock, show_drop)
        return cls(contributors, reader, view, notify, left_out, recipe, budget, misses)

    def drafting(self, notify: TakeText, conversation: Conversation) -> SectionCollector:
        """Return a collector that reads the same sources anew, knows of nothing that was sent, and records drops in
        `conversation`."""
        reader = SectionReader(self.reader.sources)
        left_out = SectionDrops(conversation.log, conversation.clock, lambda drop: None)
        return SectionCollector(
            self.contributors, reader, self.view, notify, left_out, self.recipe, self.budget, self.misses
        )

    def set_budget(self, budget: TokenBudget) -> None:
        """Use this budget for later plans, unless the window is that of the present one."""
        if budget.window == self.view.window:
            return
        self.view = View.of(self.view.model, self.view.recipe, budget, self.view.count)
        self.budget = section_budget(budget.available, self.recipe.section_budget)

    # -- layer 1 -----------------------------------------------------------------------------------------------

    async def system_plan(self) -> tuple[SectionPlan, list[PendingDrop], str]:
        """Plan the system text; return the plan, with skipped contributors, the drops, also of required ones, and the
        text."""
        sections, skipped = await self.sections(Layer.SYSTEM)
        drops: list[PendingDrop] = []
        learned = {name: learned_multiplier(*counts) for name, counts in self.misses().items()}
        factor: Callable[[Section], float] = lambda section: self._multiplier(section) * learned.get(section.id, 1.0)  # noqa: E731
        plan = plan_sections(sections, self.budget, self.view.count, factor)
        choices = (replace(choice, learned=learned.get(choice.section.id, 1.0)) for choice in plan.chosen)
        section_plan = self._with_drops(replace(plan, chosen=tuple(choices)), drops)
        lost = []
        for name, why in skipped.items():
            choice = SectionChoice.skipped(name, why)
            required = self.contributors[name].required
            lost.append(replace(choice, drop=self.left_out.record(choice, drops)) if required else choice)
        section_plan = replace(section_plan, chosen=(*section_plan.chosen, *lost))
        return section_plan, drops, system_text(section_plan, self.view.count)

    def read_in_background(self, names: Iterable[str]) -> None:
        """Read these required contributors, which were missing at the beginning of an epoch; see `reader.arrived`."""
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
        """True if a tool result should carry a section that cannot wait for the person's next message, or if the person
        should be told of a problem with what it is made of."""
        return any(
            contributor.id in self.recipe.overrides or self._has_news(contributor)
            for contributor in self.contributors.values()
            if contributor.prompt
        )

    def _has_news(self, contributor: Contributor) -> bool:
        """Return True if a contributor that is cheap to read, and that the recipe has, has a section to send or a line
        for the person that was not there before."""
        value = contributor.read(self.reader.sources)
        lines = set(contributor.notices(value)) - self._notified
        sections = filter(self._multiplier, contributor.render(value, self.view))
        return bool(lines) or not all(map(self._is_sent, sections))

    @property
    def preamble_cap(self) -> int:
        """Tokens of one preamble."""
        return preamble_room(self.view.window)

    async def changed_sections(self, *, prompt: bool = False) -> ChangedSections:
        """Return the event sections that have changed since they were last sent; with `prompt`, only those that cannot
        wait.

        The caller reports with `mark_sent` that a request has them. Sections without room are sent as soon as they fit.
        """
        count, cap = self.view.count, self.preamble_cap
        sections, _ = await self.sections(Layer.EVENT, prompt=prompt)
        changed = [section for section in sections if not self._is_sent(section)]
        section_plan = self._preamble_plan(changed, cap)
        line_room = min(60, cap // 4)
        if any(choice.is_left_out for choice in section_plan.chosen):
            section_plan = self._preamble_plan(changed, cap - line_room)
        section_plan = self._with_drops(section_plan)
        missed = {
            choice.section.id: choice.drop
            for choice in section_plan.chosen
            if choice.is_left_out and choice.drop not in self._missed
        }
        texts = [choice.text for choice in section_plan.sent]
        line = left_out_line(missed, line_room, count)
        digests = {
            choice.section.id: choice.section.digest for choice in section_plan.sent if choice.section.id != NOTICES
        }
        used = section_plan.used - JOINT + (count(line) + JOINT if line else 0)
        section_plan = _explain_raise(section_plan, cap, used if used > cap else 0)
        return ChangedSections([*texts, line] if line else texts, section_plan, digests, tuple(missed.values()))

    def _preamble_plan(self, changed: Sequence[Section], cap: int) -> SectionPlan:
        """Plan the sections for `cap` tokens, or for the shortest forms of the sticky sections if these need more.

        Notices with room only for a pointer wait for the next request, unless this one would send nothing else.
        """
        cap = max(0, cap) + JOINT  # n texts are joined by n - 1 line ends
        section_plan = plan_sections(changed, cap, self.view.count, self._multiplier)
        if len(changed) > 1 and any(
            choice.section.id == NOTICES and choice.name == "pointer" for choice in section_plan.chosen
        ):
            without_notices = [section for section in changed if section.id != NOTICES]
            return plan_sections(without_notices, cap, self.view.count, self._multiplier)
        return section_plan

    def mark_sent(self, changed: ChangedSections) -> None:
        """Record that a request has these sections."""
        self.sent.update(changed.sent)
        self._missed.update(changed.missed)

    def load_sent(self, preambles: Iterable[str], last: Mapping[str, str]) -> None:
        """Begin an epoch, or resume a conversation, whose window has `preambles`.

        `last` has the hash of the last sent text of each section: an older text that is still in the window does not
        count.
        """
        self.sent.clear()
        self._missed.clear()
        self._preambles = tuple(f"\n{preamble}\n" for preamble in preambles if preamble)
        self._sent_before = last

    def _is_sent(self, section: Section) -> bool:
        """True if this text is the last one that the epoch sent of the section."""
        digest = section.digest
        if section.id == NOTICES:
            return False
        if section.id in self.sent:
            return self.sent[section.id] == digest
        if not self._preambles or self._sent_before.get(section.id, digest) != digest:
            return False
        forms = section.with_drop_id(self.left_out.drop_id_of(section)).forms
        sent_texts = (f"\n{text}\n" for form in forms for text in (form, as_note(form)))
        if not any(text in preamble for text in sent_texts for preamble in self._preambles):
            return False
        self.sent[section.id] = digest
        return True

    # -- both --------------------------------------------------------------------------------------------------

    async def sections(
        self, layer: Layer, only: str = "", *, prompt: bool = False
    ) -> tuple[list[Section], dict[str, str]]:
        """Return the current sections of a layer's contributors in order, and the reasons for skipped ones. `only`
        names one contributor; `prompt` selects those that cannot wait."""
        of_layer = (
            contributor
            for contributor in self.contributors.values()
            if contributor.layer is layer and only in ("", contributor.id)
        )
        contributors = [contributor for contributor in of_layer if contributor.prompt or not prompt]
        sections, skipped, lines = await self.reader.sections(contributors, self.view, self.recipe, self.budget)
        for line in dict.fromkeys(lines):
            if line not in self._notified:
                self._notified.add(line)
                self.notify(line)
        return sections, skipped

    async def render_again(self, row: JsonObject) -> Section | None:
        """Return the section of a row of a request as its contributor renders it now, None if it no longer does."""
        sections, _ = await self.sections(Layer(row["layer"]), str(row["id"]).partition(".")[0])
        return next((section for section in sections if section.id == row["id"]), None)

    def _multiplier(self, section: Section) -> float:
        return self.recipe.multiplier(section.phase.label, section.id)

    def _with_drops(self, plan: SectionPlan, later: list[PendingDrop] | None = None) -> SectionPlan:
        """Return the plan with a drop for each section that is shortened or left out, recorded now or `later`."""
        return replace(
            plan, chosen=tuple(self._with_drop(choice, later) if choice.is_short else choice for choice in plan.chosen)
        )

    def _with_drop(self, choice: SectionChoice, later: list[PendingDrop] | None) -> SectionChoice:
        drop = self.left_out.record(choice, later)
        with_id = replace(choice, section=choice.section.with_drop_id(drop), drop=drop)
        return replace(with_id, tokens=self.view.count(with_id.text)) if with_id.text else with_id


def _explain_raise(plan: SectionPlan, cap: int, raised: int) -> SectionPlan:
    """Return the plan of a preamble. If its cap was raised, the first short sticky section has the reason, else the
    first sticky one."""
    plan = replace(plan, budget=cap, raised=raised)
    sticky = [choice for choice in plan.sent if choice.section.sticky]
    if not raised or not sticky:
        return plan
    saying = next((choice for choice in sticky if choice.is_short), sticky[0])
    raise_note = "the pool of ", cap, " tokens was raised to ", raised, " for sections that are always sent"
    explained = replace(saying, why=join_why(saying.why, raise_note))
    return replace(plan, chosen=tuple(explained if choice is saying else choice for choice in plan.chosen))


def system_text(plan: SectionPlan, count: Count) -> str:
    """Return the system text of an epoch; its last lines name drops and contributors that could not be read."""
    missed = {
        choice.section.id: choice.drop
        for choice in plan.chosen
        if choice.drop and choice.is_left_out and not choice.is_unread
    }
    line = left_out_line(missed, LINE_TOKENS, count)
    unread = [f"[nexus: {choice.section.full}]" for choice in plan.chosen if choice.drop and choice.is_unread]
    return "\n\n".join([*(choice.text for choice in plan.sent), *([line] if line else []), *unread])
