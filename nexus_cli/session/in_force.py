"""The limits and the window that requests were sent under, kept with them: a memo of the lane, once per change.

Where the state of a run binds them they can be others for each request.

A report on an old request reads them here: what settings and recipes say by then is of no account.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.window.timeline import Timeline
from nexus_cli.core.entry import Manifest, Memo
from nexus_cli.core.limits import SETS, Bound, Limits
from nexus_cli.core.request import ModelInfo
from nexus_cli.session.refused import SIGNALS

T = TypeVar("T")
LIMITS = "limits"
"""Memo: `recipe`, its `section_budget`, `limits` as in interface.md section 8, and the `window` and `max_output` of the
model in tokens, as then known. It holds for the requests that were sent from then on."""


@dataclass
class InForce:
    """Notes the recipe, the limits and the window of one session before its next request, if others were noted last."""

    timeline: Callable[[], Timeline]
    info: Callable[[], ModelInfo]
    recipe: Recipe
    bounds: Callable[[], Sequence[Bound]]
    """Those of the next request."""
    _noted: dict[str, Any] | None = None

    async def noted(self, work: Awaitable[T]) -> T:
        """What `work`, a part of the next request, gives, with them recorded."""
        self._note()
        return await work

    def _note(self) -> None:
        info = self.info()
        now = {
            "recipe": self.recipe.name,
            "section_budget": self.recipe.section_budget,
            "limits": [bound.to_json() for bound in self.bounds()],
            "window": info.window,
            "max_output": info.max_output,
        }
        if self._noted == now:
            return
        timeline = self.timeline()
        last = [memo.value for memo in timeline.memos(LIMITS)][-1:]
        if last != [now]:
            timeline.memo(LIMITS, now)
        self._noted = now


def changed_limits(memos: Sequence[Memo], bounds: Iterable[Bound]) -> str:
    """One line for the model: which limits, now those of `bounds`, are others than the last request was sent under; ""
    where none is, or nothing was noted. What the state of a run bound is passed over."""
    if not memos:
        return ""
    before, now = _set_by_layers(memos[-1].value["limits"]), Limits(**{one.name: one.value for one in bounds})
    names = [f.name for f in fields(Limits) if getattr(before, f.name) != getattr(now, f.name)]
    told = (f"{name} {_spoken(getattr(now, name))} (was {_spoken(getattr(before, name))})" for name in names)
    return f"the limits have changed: {'; '.join(told)}" if names else ""


def _set_by_layers(noted: Iterable[Mapping[str, Any]]) -> Limits:
    """The limits that were noted, without what the state of the run added."""
    made = Limits()
    for one in noted:
        name, said = str(one["name"]), one.get("said") or {"": one["value"]}
        for value in (its for layer, its in said.items() if layer != SIGNALS):
            limit: dict[str, Any] = {name: frozenset(value) if name in SETS else value}
            made &= Limits(**limit)
    return made


def _spoken(value: Any) -> str:
    if value is None:
        return "without limit"
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def limits_of(memos: Iterable[Memo], sent: Manifest) -> dict[str, Any] | None:
    """What was noted for a request that was sent; None for one of before such notes were taken."""
    held = [memo.value for memo in memos if sent.is_newer_than(memo.entry, memo.at)]
    return dict(held[-1]) if held else None
