"""Builds what a session's contributors read from and the collector of their sections, for a session that runs and for
the report on one that does not exist yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.sections.collect import SectionCollector
from nexus_cli.context.sections.contributor import Sources, View, discover
from nexus_cli.context.sections.identity_files import read_identity_files
from nexus_cli.context.sections.planner import section_budget
from nexus_cli.context.sections.reader import SectionReader
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Drop
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Log
from nexus_cli.session.capability_snapshot import snapshot
from nexus_cli.session.options import Options
from nexus_cli.session.section_drops import SectionDrops
from nexus_cli.session.sources import project_outline


def gatherer(
    options: Options,
    info: ModelInfo,
    recipe: Recipe,
    budget: TokenBudget,
    *,
    count: Callable[[str], int],
    log: Log,
    clock: Clock,
    started: datetime,
    failed: Callable[[str], None],
    dropped: Callable[[Drop], None] = lambda drop: None,
    settings: Settings,
    tools: Sequence[str],
    runs: bool = True,
    **seams: Any,
) -> SectionCollector:
    """Return the section collector of one lane.

    `tools` names those at hand, `dropped` is given what is newly left out of sections, `runs` says whether a command
    may run, or somebody can be asked, `seams` are what its `Sources` has of a session.
    """
    own = {
        "persona": lambda names: read_identity_files(names, options.cwd),
        "outline": lambda: project_outline(options.cwd),
        "tools": lambda: tools,
        "capabilities": lambda: _within_reach(
            snapshot(options.cwd, settings, os.environ, info.name, tools), runs and "bash" in tools
        ),
    }
    return SectionCollector(
        {name: contributor for name, contributor in discover().items() if recipe.admits(name)},
        SectionReader(Sources.of(options.cwd, started, clock=clock, **{**own, **seams})),
        View.of(info.name, recipe.name, budget, count),
        failed,
        SectionDrops(log, clock, dropped),
        recipe,
        section_budget(budget.available, recipe.section_budget),
    )


def _within_reach(value: Mapping[str, Any], runs: bool) -> Mapping[str, Any]:
    """What the model can do something with: a skill's guide is printed by a command."""
    return value if runs else {**value, "skills": []}
