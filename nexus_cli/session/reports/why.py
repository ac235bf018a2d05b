"""Which layer bound a limit, and what each layer said of it: a value for `/why`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nexus_cli.core.limits import Bound, Limits, compose
from nexus_cli.session.parts import Parts
from nexus_cli.session.signals import restrictions

NAMES = tuple(f.name for f in fields(Limits))


def why(parts: Parts, name: str = "") -> dict[str, Any]:
    """The limit `name` as it is now, all that are in force without a name. `limits` has for each `name`, `value`,
    `bound_by`, `said` (layer to value); `signals` tells the state that binds, where the recipe lets it."""
    powers = parts.dispatcher.powers(parts.engine)
    bounds = parts.bounds
    if parts.dispatcher.signals:
        _, bounds = compose([*_layers(parts.bounds), ("signals", restrictions(powers.now))])
    wanted = [bound.described() for bound in bounds if name in ("", bound.name)]
    return {
        "version": 1,
        "recipe": parts.recipe,
        "name": name,
        "limits": wanted,
        "signals": {
            "bind": parts.dispatcher.signals,
            "token_pressure": parts.engine.planned().pressure,
            "recent_errors": parts.dispatcher.errors,
            "event_class": powers.now.event_class,
        },
    }


def _layers(bounds: tuple[Bound, ...]) -> list[tuple[str, Limits]]:
    """The layers that the bounds were composed of, in their order."""
    said: dict[str, dict[str, Any]] = {}
    for bound in bounds:
        for layer, value in bound.said.items():
            said.setdefault(layer, {})[bound.name] = value
    order: Mapping[str, int] = {name: place for place, name in enumerate(("settings", "project", "recipe"))}
    return [(layer, Limits(**said[layer])) for layer in sorted(said, key=lambda layer: order.get(layer, len(order)))]
