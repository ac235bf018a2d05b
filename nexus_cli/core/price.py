"""The cost of tokens at the prices of a model: the one formula for requests that were sent, and for those to come."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Cost, Usage, round_dollars

MILLION = 1_000_000
"""Number of tokens to which the prices of `ModelInfo` apply."""


def price_usage(usage: Usage, info: ModelInfo) -> Cost | None:
    """Return the dollars for `usage` at the prices of `info` for this input length; None if a needed price is unknown.

    An unknown cache price counts as the input price: reading from a cache never costs more than not caching, and only
    Anthropic charges for writes, whose price the table has.
    """
    info = info.with_tier_prices(usage.input)
    price = info.input_price
    if price is None or (info.output_price is None and usage.output):
        return None
    read_price, write_price = (
        price if cache_price is None else cache_price for cache_price in (info.cache_read_price, info.cache_write_price)
    )
    cached, written = usage.cache_read * read_price, usage.cache_write * write_price
    saved = (usage.cache_read + usage.cache_write) * price - cached - written
    plain = max(0, usage.input - usage.cache_read - usage.cache_write)
    parts = (plain * price, cached, written, usage.output * (info.output_price or 0.0), saved)
    return Cost(*(part / MILLION for part in parts))


def with_cost(usage: Usage, info: ModelInfo) -> Usage:
    """Return `usage` with its cost, rounded as it is kept."""
    cost = price_usage(usage, info)
    if cost is None:
        return replace(usage, cost_usd=None, cost=Cost())
    rounded = Cost() + cost  # adding rounds
    return replace(usage, cost_usd=round_dollars(rounded.total), cost=rounded)


def price_input(info: ModelInfo, tokens: int, cached: int) -> Usage:
    """Return the usage of the input of a request that is not sent yet, with its cost: `cached` tokens are read, the
    others written where that is billed. Under a subscription it costs nothing."""
    usage = Usage(tokens, 0, cached, tokens - cached)
    return usage if info.covered else with_cost(usage, info)


def request_cost(info: ModelInfo, *, cached: int, fresh: int, output: int = 0) -> float | None:
    """Return the dollars of a request: `cached` tokens read, `fresh` ones sent (and written, where that is billed),
    `output`. None if a needed price is unknown."""
    cost = price_usage(Usage(cached + fresh, output, cached, fresh), info)
    return None if cost is None else round_dollars(cost.total)
