"""In which recipe and under which limits a session would send its next request, as far as that is known.

What was sent has its own on record (`session.in_force`); where the recipe is gone these are the last that are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import SETS, Bound, Limits, compose_limits
from nexus_cli.ledger import LaneLog, SessionInfo
from nexus_cli.session.in_force import LIMITS
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.recipes import recipe_of
from nexus_cli.session.signals import Signals, tightened


@dataclass(frozen=True, slots=True)
class Held:
    """What holds for the next request."""

    recipe: Recipe
    limits: Limits
    bounds: tuple[Bound, ...]
    lost: str = ""
    """Why the session cannot go on in its recipe, and what is shown instead; "" where it can."""

    def at(self, budget: TokenBudget, now: Signals | None) -> Held:
        """The same with what the state of the run says, where that binds: `now`, else a turn that the person begins."""
        if not self.recipe.signals:
            return self
        limits, bounds = tightened(self.bounds, now or Signals(budget.pressure, event_class="communication"))
        return replace(self, limits=limits, bounds=bounds)

    def described(self) -> list[dict[str, Any]]:
        """The limits as interface.md section 8 has them."""
        return [bound.to_json() for bound in self.bounds]


def held(
    log: LaneLog, found: SessionInfo, options: Options, settings: Settings, recipe: Recipe | None
) -> Held:
    """What holds for the session `found`, in `recipe` where that is at hand. Raises as `load_recipe` does for a recipe
    that was named; where the session's own is gone or broken it is what its last request had."""
    try:
        recipe = recipe or recipe_of(found, replace(options, front=""))[0]
    except NexusError as error:
        if options.recipe:
            raise
        why = f"{error.message}. {error.hint}. What is shown is the request with the limits that were noted last"
        return _last(log, found, why)
    return Held(recipe, *compose_limits(limit_layers(settings, recipe, options, True)))


def _last(log: LaneLog, found: SessionInfo, why: str) -> Held:
    """What the newest request had, as far as it was recorded."""
    noted = [memo.value for memo in log.memos(LIMITS)]
    last: Mapping[str, Any] = noted[-1] if noted else {"recipe": found.recipe, "section_budget": None, "limits": ()}
    bounds = tuple(_bound(one) for one in last["limits"])
    recipe = Recipe(str(last["recipe"]), section_budget=last["section_budget"])
    return Held(recipe, Limits(**{bound.name: bound.value for bound in bounds}), bounds, why)


def _bound(one: Mapping[str, Any]) -> Bound:
    """A limit as it was described."""
    name = str(one["name"])
    said = {layer: _value(name, value) for layer, value in one.get("said", {}).items()}
    return Bound(name, _value(name, one["value"]), str(one["bound_by"]), said)


def _value(name: str, value: Any) -> Any:
    return frozenset(value) if name in SETS else value
