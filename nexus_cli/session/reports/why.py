"""Which layer bound a limit, and what each layer said of it: a value for `/why`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nexus_cli.core.limits import Limits
from nexus_cli.session.next_request.current import window_request
from nexus_cli.session.session_state import SessionState

NAMES = tuple(f.name for f in fields(Limits))


def limits_report(parts: SessionState, name: str = "") -> dict[str, Any]:
    """The limit `name` as it is now, all that are in force without a name. `limits` has for each `name`, `value`,
    `bound_by`, `said` (layer to value); `signals` tells the state that binds, where the recipe lets it."""
    limits = parts.dispatcher.run_limits(parts.lane_state)
    _, bounds = parts.dispatcher.in_force(parts.lane_state, parts.bounds)
    wanted = [bound.to_json() for bound in bounds if name in ("", bound.name)]
    return {
        "version": 1,
        "recipe": parts.recipe.name,
        "name": name,
        "limits": wanted,
        "signals": {
            "bind": parts.dispatcher.signals,
            "token_pressure": window_request(parts.lane_state).budget.pressure,
            "recent_errors": parts.dispatcher.errors,
            "event_class": limits.now.event_class,
        },
    }
