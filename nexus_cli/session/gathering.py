"""What a session's contributors read from, and the gatherer that asks them: one place for a session that runs and for
the report on one that does not exist yet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from nexus_cli.context.contributors import Sources, View, discover
from nexus_cli.context.gather import Gatherer
from nexus_cli.context.recipe import Recipe
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Log
from nexus_cli.session.frames import drop_of
from nexus_cli.session.options import Options


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
    **seams: Any,
) -> Gatherer:
    """The gatherer of one lane; `seams` are what its `Sources` has beyond the working folder and the machine."""
    return Gatherer(
        {name: contributor for name, contributor in discover().items() if recipe.admits(name)},
        Sources.of(options.cwd, started, clock=clock, **seams),
        View.of(info.name, recipe.name, budget, count),
        failed,
        drop_of(log, clock),
    )
