"""GATHER: the contributors of a layer are read, bounded in time and size, and rendered to sections.

What a contributor does wrong costs its own sections and is said; what of the sections is sent is the planner's choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.planner import JOINT
from nexus_cli.context.recipe import Recipe
from nexus_cli.context.section import DROP, Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.errors import NexusError

SECONDS = 5.0
"""The longest that reading one contributor may take."""


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
    skipped: dict[str, str] = field(default_factory=dict)
    """Why, by contributor."""

    async def sections(self, contributors: Sequence[Contributor]) -> list[Section]:
        """What they say, in the order of places; of two sections with one id the second is skipped."""
        values = await asyncio.gather(*map(self._read, contributors))
        read = [(c, value) for c, value in zip(contributors, values, strict=True) if c.id not in self.skipped]
        found: dict[str, Section] = {}
        for contributor, value in sorted(read, key=lambda one: one[0].rest):
            for section in self._rendered(contributor, value, self._view(contributor, found.values())):
                if section.id in found:
                    self._skip(contributor.id, f"there is a section {section.id} already")
                else:
                    found[section.id] = marked(section)
        return sorted(found.values(), key=lambda section: section.position)

    def _view(self, contributor: Contributor, others: Iterable[Section]) -> View:
        """What `contributor` may see; one that takes the rest gets what `others` leave, at least half of the cap."""
        if not contributor.rest:
            return self.view
        cap = min(self.view.instruction_cap, self.budget)
        wanted = [one for one in others if self.recipe.multiplier(one.phase.label, one.id) > 0]
        left = self.budget - sum(self.view.count(one.full) + JOINT for one in wanted)
        return replace(self.view, instruction_cap=max(cap // 2, min(cap, left)))

    async def _read(self, contributor: Contributor) -> Value:
        try:
            async with asyncio.timeout(SECONDS):
                value = await contributor.read(self.sources)
            if _size(value, contributor.most) > contributor.most:
                raise ValueError(f"it read more than {contributor.most:,} characters")
            for line in contributor.notices(value):
                self.say(line)
            return value
        except NexusError:
            raise
        except Exception as error:  # a seam: a contributor's own bug costs its section, not the turn
            self._skip(contributor.id, _why(error))
            return None

    def _rendered(self, contributor: Contributor, value: Value, view: View) -> Sequence[Section]:
        try:
            sections = tuple(contributor.render(value, view))
            if sum(len(form) for section in sections for form in section.forms) > 2 * contributor.most:
                raise ValueError(f"it wrote more than {contributor.most:,} characters")
            if any(section.layer is not contributor.layer for section in sections):
                raise ValueError(f"it wrote for another layer than {contributor.layer}")
            return overridden(contributor, sections, self.recipe)
        except Exception as error:  # a seam: as above
            self._skip(contributor.id, _why(error))
            return ()

    def _skip(self, contributor: str, why: str) -> None:
        self.skipped[contributor] = why
        self.say(f"context section {contributor} was left out: {why}")


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
            made.append(replace(section, forms=(text,), least=0, source=source))
    return tuple(made)


def marked(section: Section) -> Section:
    """The section with the id of the whole in every form but the first."""
    forms = (form if DROP in form else f"{form} [whole: {DROP}]" for form in section.forms[1:])
    return replace(section, forms=(section.full, *forms))


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"took longer than {SECONDS:.0f} s"
    return one_line(str(error)) or type(error).__name__


def _size(value: Value, most: int) -> int:
    """Characters of the texts in `value`, counted until there are more than `most`."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        one = waiting.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, Mapping):
            waiting += [*one, *one.values()]
        elif isinstance(one, Sequence):
            total += len(one)
            waiting += one
    return total
