"""Reads the prices of one entry of litellm's table, by litellm's own rules.

Owns the names of prices, thresholds and tiers there. Leaves finding the entry to `windows` and the arithmetic to
`usage`. Prices are dollars per token in the table and dollars per million tokens here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.request import PriceTier

FIELDS = {
    "input_price": "input_cost_per_token",
    "output_price": "output_cost_per_token",
    "cache_read_price": "cache_read_input_token_cost",
    "cache_write_price": "cache_creation_input_token_cost",
}
"""Our name of a price to the table's."""
ABOVE = re.compile(r"input_cost_per_token_above_(\d+(?:\.\d+)?)(k?)_tokens$")
FROM_THRESHOLD_ON = frozenset({"xai"})
"""Providers whose higher price begins at the threshold itself; elsewhere one token above it."""

Prices = dict[str, float | None]


def _million(entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    return round(float(value) * 1e6, 6) if isinstance(value, int | float) else None


def _read(entry: Mapping[str, Any], suffix: str = "") -> Prices:
    found = {ours: _million(entry, theirs + suffix) for ours, theirs in FIELDS.items()}
    # 0.0 for writes beside a price of input means that writing has no price of its own (DeepSeek, Z.AI).
    if found["input_price"] and not found["cache_write_price"]:
        found["cache_write_price"] = None
    return found


def base_prices(entry: Mapping[str, Any]) -> Prices:
    """The four prices of `entry`, by the names of `ModelInfo`; None where the table has none."""
    base = _read(entry)
    if base["input_price"] is None and (ranges := _ranges(entry)):
        return _in_range(ranges[0][1], base)
    return base


def _in_range(tier: Mapping[str, Any], base: Prices) -> Prices:
    found = _read(tier)
    return {**found, "output_price": base["output_price"] if found["output_price"] is None else found["output_price"]}


def _ranges(entry: Mapping[str, Any]) -> list[tuple[float, Mapping[str, Any]]]:
    """`tiered_pricing`, by where each tier begins."""
    listed = entry.get("tiered_pricing")
    found = []
    for tier in listed if isinstance(listed, list) else ():
        bounds = tier.get("range") if isinstance(tier, Mapping) else None
        if isinstance(bounds, list) and len(bounds) == 2 and "input_cost_per_token" in tier:
            found.append((float(bounds[0]), tier))
    return sorted(found, key=lambda pair: pair[0])


def price_tiers(entry: Mapping[str, Any]) -> tuple[PriceTier, ...]:
    """The prices of `entry` for long inputs, by rising length.

    A price that a threshold does not name stays what it is below. A tier of `tiered_pricing` that names no price of
    the cache has its price of input for it.
    """
    base = base_prices(entry)
    ranges = _ranges(entry)
    if ranges:
        return tuple(PriceTier(int(start) + 1, **_in_range(tier, base)) for start, tier in ranges)
    found = []
    for key in entry:
        above = ABOVE.match(key)
        if above is None or entry[key] is None:
            continue
        threshold = int(float(above[1]) * (1000 if above[2] else 1))
        there = _read(entry, f"_above_{above[1]}{above[2]}_tokens")
        least = threshold if entry.get("litellm_provider") in FROM_THRESHOLD_ON else threshold + 1
        found.append(PriceTier(least, **{name: base[name] if there[name] is None else there[name] for name in FIELDS}))
    return tuple(sorted(found, key=lambda tier: tier.least))
