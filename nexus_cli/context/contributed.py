"""GATHER: the contributors of a layer are read, bounded in time and size, and rendered to sections.

What a contributor does wrong costs its own sections and is said; what of the sections is sent is the planner's choice.
Here, and nowhere else, text that is not ours (titles, facts, names, goals) is kept from posing as ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.context.aside import Aside, within
from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.planner import JOINT
from nexus_cli.context.reads import NEEDED, Held, Read, reading
from nexus_cli.context.recipe import Recipe
from nexus_cli.context.section import DROP, Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.errors import NexusError

SECONDS = 5.0
"""The longest that reading one contributor may take, and the longest that rendering it may."""
PATIENCE = 15.0
"""The longest that reading one in `NEEDED` may take."""
COUNTING = 60.0
"""The longest that rendering one of these may take: instructions of fifty megabytes are counted."""


@dataclass
class Reading:
    """One round of asking contributors."""

    sources: Sources
    view: View
    recipe: Recipe
    budget: int
    """Tokens of all static sections together."""
    say: Callable[[str], None]
    """Told in one line which contributor was skipped and why, and what is odd about a file that was read."""
    held: Held = field(default_factory=Held)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why, by contributor."""

    async def sections(self, contributors: Sequence[Contributor]) -> list[Section]:
        """What they say, in the order of places; of two sections with one id the second is skipped."""
        values = await self._values(contributors)
        found: dict[str, Section] = {}
        plain = [one for one in contributors if one.id in values and not one.rest]
        self._add(found, plain, await self._rendered({one: (values[one.id], self.view) for one in plain}))
        for one in contributors:
            if one.rest and one.id in values:
                view = self._rest(found.values())
                self._add(found, [one], await self._rendered({one: (values[one.id], view)}))
        return sorted(found.values(), key=lambda section: section.position)

    def _add(
        self, found: dict[str, Section], asked: Sequence[Contributor], made: Mapping[str, Sequence[Section]]
    ) -> None:
        for contributor in asked:
            for section in made.get(contributor.id, ()):
                if section.id in found:
                    self._skip(contributor.id, f"there is a section {section.id} already")
                else:
                    found[section.id] = marked(section)

    def _rest(self, others: Iterable[Section]) -> View:
        """The view of what takes the rest: it gets what `others` leave, at least half of the cap."""
        cap = min(self.view.instruction_cap, self.budget)
        wanted = [one for one in others if self.recipe.multiplier(one.phase.label, one.id) > 0]
        left = self.budget - sum(self.view.count(one.full) + JOINT for one in wanted)
        return replace(self.view, instruction_cap=max(cap // 2, min(cap, left)))

    async def _values(self, contributors: Sequence[Contributor]) -> dict[str, Value]:
        """What could be read, by contributor; all are read at the same time."""
        reads = {one.id: reading(one, self.sources) for one in contributors}
        bounds = {one.id: PATIENCE if one.id in NEEDED else SECONDS for one in contributors}
        try:
            await within({reads[name]: bound for name, bound in bounds.items()})
        finally:
            for name, read in reads.items():
                if not read.done and name not in NEEDED:
                    read.stop()
        values: dict[str, Value] = {}
        for name, read in reads.items():
            if read.done and read.error is None:
                values[name], lines = read.value
                for line in lines:
                    self.say(line)
                if name in NEEDED:
                    self.held.values[name] = values[name]
                    self.held.late.pop(name, None)
            else:
                self._missing(name, read, bounds[name], values)
        return values

    def _missing(self, name: str, read: Aside[Read], bound: float, values: dict[str, Value]) -> None:
        """Do without what could not be read, or with what was read of it before."""
        why = _why(read, bound)
        try:
            values[name] = self.held.earlier(name)
        except KeyError:
            self._skip(name, why)
            if name in NEEDED and not read.done:
                self.held.late[name] = read
        else:
            self.say(f"context section {name} is as it was read before: {why}")

    async def _rendered(self, asked: Mapping[Contributor, tuple[Value, View]]) -> dict[str, Sequence[Section]]:
        """The sections of each that can be rendered."""
        renders = {one.id: _rendering(one, value, view, self.recipe) for one, (value, view) in asked.items()}
        bounds = {name: COUNTING if name in NEEDED else SECONDS for name in renders}
        await within({renders[name]: bound for name, bound in bounds.items()})
        made: dict[str, Sequence[Section]] = {}
        for name, render in renders.items():
            if render.done and render.error is None:
                made[name] = render.value
            else:
                self._skip(name, _why(render, bounds[name]))
        return made

    def _skip(self, contributor: str, why: str) -> None:
        self.skipped[contributor] = why
        self.say(f"context section {contributor} was left out: {why}")


def _rendering(contributor: Contributor, value: Value, view: View, recipe: Recipe) -> Aside[tuple[Section, ...]]:
    def work(here: Aside[tuple[Section, ...]]) -> tuple[Section, ...]:
        sections = tuple(contributor.render(value, view))
        if sum(len(form) for section in sections for form in section.forms) > 2 * contributor.most:
            raise ValueError(f"it wrote more than {contributor.most:,} characters")
        if any(section.layer is not contributor.layer for section in sections):
            raise ValueError(f"it wrote for another layer than {contributor.layer}")
        return overridden(contributor, sections, recipe)

    return Aside(work)


def overridden(contributor: Contributor, sections: Sequence[Section], recipe: Recipe) -> tuple[Section, ...]:
    """`sections` with the texts that the recipe puts in their place; a blank one leaves the section away."""
    source = f"recipe {recipe.name}"
    texts = {key: text.replace(DROP, "\ufffd") for key, text in recipe.overrides.items()}
    if contributor.id in texts:
        order = Phase.EVENT + 500 if contributor.layer is Layer.EVENT else Phase.TASK
        first = sections[0] if sections else Section(contributor.id, order, ("-",), contributor.layer, 80, sticky=True)
        sections = [replace(first, id=contributor.id)]
    made = []
    for section in sections:
        text = texts.get(section.id)
        if text is None:
            made.append(section)
        elif text.strip():
            short = f'[{section.id} of {source}: recall("{DROP}")]'
            forms = (text, short) if section.layer is Layer.EVENT else (text,)  # no pool is raised to a long text
            made.append(replace(section, forms=forms, least=0, source=source))
    return tuple(made)


def marked(section: Section) -> Section:
    """The section with the id of the whole in every form but the first."""
    forms = (form if DROP in form else f"{form} [whole: {DROP}]" for form in section.forms[1:])
    return replace(section, forms=(section.full, *forms))


def _why(work: Aside[Any], bound: float) -> str:
    """Why it gave nothing, in one line."""
    error = work.error
    if error is None:
        return f"took longer than {bound:.0f} s"
    try:
        return one_line(error.message if isinstance(error, NexusError) else str(error)) or type(error).__name__
    except Exception:  # a seam: not even the words of somebody's error can be relied on
        return type(error).__name__
