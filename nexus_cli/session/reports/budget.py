"""The token budget as interface.md section 8 writes it, and the plan of the request that comes next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nexus_cli.context.assembled import AssembledContext
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.limits import Limits
from nexus_cli.session.reports.told import told_facts

if TYPE_CHECKING:
    from nexus_cli.session.engine import Engine


def budget_value(budget: TokenBudget) -> dict[str, Any]:
    """`budget` with what is used by layer, what remains, and the pressure."""
    used = budget.used
    layers = {"system": used.system, "tools": used.tools, "history": used.history, "event": used.event}
    return {
        "window": budget.window,
        "reserve_reply": budget.reserve_reply,
        "reserve_tools": budget.reserve_tools,
        "available": budget.available,
        "used": {**layers, "total": used.total},
        "remaining": budget.remaining,
        "pressure": budget.pressure,
    }


def assembled(engine: Engine, told: Sequence[Mapping[str, Any]] | None = None) -> AssembledContext:
    """What the window holds now, as the next request would send it; `told` are the event sections that count apart from
    its messages, those of the next request where none are given."""
    lane = engine.lane
    return AssembledContext.of(
        lane.epoch,
        lane.slots,
        lane.last_sent,
        fixed=json.loads(lane.epoch.sections),
        told=engine.event if told is None else told,
        budget=engine.budget,
        limits=engine.limits() if engine.limits else engine.spending.limits,
        layers=engine.meter.layers,
        basis=engine.meter.basis,
    )


def plan_value(engine: Engine) -> dict[str, Any]:
    """What the next request holds: the `context.plan` of interface.md section 7."""
    made = assembled(engine)
    sections = list(made.report.sections)
    return {
        "step": engine.step + 1,
        "epoch": engine.lane.epoch.id,
        "basis": made.report.basis,
        "budget": budget_value(made.budget),
        "sections": sections,
        "entries": len(made.history) + len(made.event),
        "drops": [one["drop"] for one in sections if one.get("drop")],
        "facts": told_facts(engine),
        "limits": limits_value(made.limits),
    }


def limits_value(limits: Limits) -> Mapping[str, Any]:
    """The limits that are in force, by name."""
    values = {f.name: getattr(limits, f.name) for f in fields(limits)}
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """A limit's value as JSON has it."""
    return sorted(value) if isinstance(value, frozenset) else value
