"""GATHER: read contributors, bounded in time and size, and render them to sections.

A contributor that fails loses only its own sections and is reported; the planner selects the sections to send. Only
here is foreign text (titles, facts, names, goals) kept from posing as ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import map_texts
from nexus_cli.core.section_rows import JOINT
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections
from nexus_cli.text.untrusted_text import neutralize

SECONDS = 5.0
"""Time limit of reading one contributor."""
REQUIRED_SECONDS = 15.0
"""Time limit of reading a required one."""
RENDER_SECONDS = 60.0
"""Time limit of rendering one contributor: instructions of fifty megabytes are counted."""

Read: TypeAlias = tuple[Value, tuple[str, ...]]
"""A value and its notices."""


@dataclass
class SectionReader:
    """Reads one conversation's contributors; keeps the last values of the required ones."""

    sources: Sources
    is_news: Callable[[str, str], bool] = lambda name, text: True
    """Returns False if the person was told this text by this contributor (`Contributor.tells_once`) last time."""
    values: dict[str, Value] = field(default_factory=dict)
    """The last value of each required contributor."""
    hung: dict[str, DaemonTask[Read]] = field(default_factory=dict)
    """The last read of each contributor that exceeded its limit. No other one starts while it runs."""
    missing: set[str] = field(default_factory=set)
    """Required contributors that requests currently lack."""

    @property
    def arrived(self) -> tuple[str, ...]:
        """The missing contributors that have been read in the meantime."""
        return tuple(sorted(name for name in self.missing if name in self.hung and self.hung[name].succeeded))

    def read_in_background(self, contributor: Contributor) -> None:
        """Start reading a required contributor that an earlier process lacked."""
        if contributor.id not in self.missing:
            self.missing.add(contributor.id)
            task = self.hung[contributor.id] = self._task(contributor)
            task.start()

    async def sections(
        self, contributors: Iterable[Contributor], view: View, recipe: Recipe, budget: int
    ) -> tuple[list[Section], dict[str, str], list[str]]:
        """Return the sections within `budget`, reasons for skipped contributors by id, and lines for the person."""
        contributors, skipped = list(contributors), dict[str, str]()
        values, notices = await self._read(contributors, skipped)
        sections: dict[str, Section] = {}
        for is_rest in (False, True):
            present = [
                contributor for contributor in contributors if contributor.rest is is_rest and contributor.id in values
            ]
            if not present:
                continue
            own_view = _make_remainder_view(view, recipe, budget, sections.values()) if is_rest else view
            renders = {
                contributor.id: DaemonTask(
                    partial(_render, contributor, values[contributor.id], own_view, recipe), RENDER_SECONDS
                )
                for contributor in present
            }
            await run_tasks(renders.values())
            for name, task in renders.items():
                if not task.succeeded:
                    skipped[name] = _failure(task)
                    continue
                for section in task.value:
                    if section.id in sections:
                        skipped[name] = f"section {section.id} already exists"
                    else:
                        sections[section.id] = _with_drop(section)
        notices += [f"context section {name} was left out: {why}" for name, why in skipped.items()]
        return sorted(sections.values(), key=lambda section: section.position), skipped, notices

    async def _read(
        self, contributors: Sequence[Contributor], skipped: dict[str, str]
    ) -> tuple[dict[str, Value], list[str]]:
        """Return the values by contributor, and notices; add contributors without a value to `skipped`."""
        required = {contributor.id for contributor in contributors if contributor.required}
        told_once = {contributor.id for contributor in contributors if contributor.tells_once}
        tasks: dict[str, DaemonTask[Read]] = {}
        for contributor in contributors:
            hung = self.hung.get(contributor.id)
            if hung is not None and hung.succeeded and contributor.required:
                self.values[contributor.id] = hung.value[0]
            tasks[contributor.id] = self._task(contributor) if hung is None or hung.ended else hung
        await run_tasks(tasks.values())
        values, notices = dict[str, Value](), list[str]()
        for name, task in tasks.items():
            self.hung.pop(name, None)
            self.missing.discard(name)
            if task.succeeded:
                values[name] = task.value[0]
                if (news := task.value[1]) and (name not in told_once or self.is_news(name, "\n".join(news))):
                    notices += news
                if name in required:
                    self.values[name] = values[name]
                continue
            if not task.ended:
                self.hung[name] = task
            if name in self.values:
                values[name] = self.values[name]
                notices.append(
                    f"context section {name} could not be read again; the previous content is used: {_failure(task)}"
                )
            else:
                skipped[name] = _failure(task)
                self.missing |= {name} & required
        return values, notices

    def _task(self, contributor: Contributor) -> DaemonTask[Read]:
        limit = REQUIRED_SECONDS if contributor.required else SECONDS
        return DaemonTask(partial(_checked_read, contributor, self.sources), limit)


def _checked_read(contributor: Contributor, sources: Sources) -> Read:
    """Read a contributor; raise `ValueError` if the value is not plain data or too large."""
    value = contributor.read(sources)
    if _size(value, contributor.most) > contributor.most:
        raise ValueError(f"it read more than {contributor.most:,} characters")
    return value if contributor.verbatim else map_texts(value, neutralize), tuple(contributor.notices(value))


def _size(value: Value, most: int) -> int:
    """Count the characters of the texts in `value`, until there are more than `most`; raise `ValueError` if it is not
    plain JSON data."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        element = waiting.pop()
        if isinstance(element, str):
            total += len(element)
        elif isinstance(element, Mapping):
            total += 1
            waiting += [*element, *element.values()]
        elif isinstance(element, list | tuple):
            total += len(element)
            waiting += element
        elif not (
            element is None or isinstance(element, int) or (isinstance(element, float) and math.isfinite(element))
        ):
            kind = f"the number {element}" if isinstance(element, float) else type(element).__name__
            raise ValueError(f"it read data that is not plain: {kind}")
    return total


def _render(contributor: Contributor, value: Value, view: View, recipe: Recipe) -> Sections:
    """Render a contributor's value unless it is empty; raise `ValueError` if too large or of another layer."""
    found_nothing = not value and isinstance(value, list | dict)
    sections = () if found_nothing else tuple(contributor.render(value, view))
    if sum(len(form) for section in sections for form in section.forms) > 2 * contributor.most:
        raise ValueError(f"it returned sections with more than {contributor.most:,} characters")
    if any(section.layer is not contributor.layer for section in sections):
        raise ValueError(f"it returned a section for a layer other than {contributor.layer}")
    return _overridden(contributor, sections, recipe)


def _make_remainder_view(view: View, recipe: Recipe, budget: int, others: Iterable[Section]) -> View:
    """Return the view of a contributor that takes the rest: its cap is what `others` leave, at least half of it."""
    cap = min(view.instruction_cap, budget)
    included = [section for section in others if recipe.multiplier(section.phase.label, section.id) > 0]
    remaining = budget - sum(view.count(section.full) + JOINT for section in included)
    return replace(view, instruction_cap=max(cap // 2, min(cap, remaining)))


def _overridden(contributor: Contributor, sections: Sequence[Section], recipe: Recipe) -> Sections:
    """Return `sections` with the recipe's replacement texts; a blank one removes the section."""
    source = f"recipe {recipe.name}"
    texts = {key: text.replace(DROP, "\ufffd") for key, text in recipe.overrides.items()}
    if contributor.id in texts:
        order = Phase.EVENT + 500 if contributor.layer is Layer.EVENT else Phase.TASK
        first = sections[0] if sections else Section(contributor.id, order, ("-",), contributor.layer, 80, sticky=True)
        sections = [replace(first, id=contributor.id)]
    replaced = []
    for section in sections:
        text = texts.get(section.id)
        if text is None:
            replaced.append(section)
        elif text.strip():
            short = f'[{section.id} of {source}: recall("{DROP}")]'
            forms = (text, short) if section.layer is Layer.EVENT else (text,)  # no pool is raised to a long text
            replaced.append(replace(section, forms=forms, least=0, source=source))
    return tuple(replaced)


def _with_drop(section: Section) -> Section:
    """Return the section with the drop of the whole text in every form but the first."""
    forms = (form if DROP in form else f"{form} [whole: {DROP}]" for form in section.forms[1:])
    return replace(section, forms=(section.full, *forms))


def _failure(task: DaemonTask[Any]) -> str:
    """Return the reason that a task has no value, in one line."""
    error = task.error
    if error is None:
        return f"took longer than {task.limit:.0f} s"
    try:
        return one_line(error.message if isinstance(error, NexusError) else str(error)) or type(error).__name__
    except Exception:  # a seam: even the text of a foreign error may fail
        return type(error).__name__
