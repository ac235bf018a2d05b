"""The token budget as interface.md section 8 writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nexus_cli.core.budget import TokenBudget

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


def plan_value(engine: Engine) -> dict[str, Any]:
    """What the next request holds: the `context.plan` of interface.md section 7."""
    return {
        "epoch": engine.lane.epoch.id,
        "basis": engine.meter.basis,
        "budget": budget_value(engine.planned()),
        "sections": json.loads(engine.lane.epoch.sections),
        "entries": len(engine.lane.epoch.head) + len(engine.lane.tail),
    }
