"""Cost and savings of a rewrite of the window, at a model's real prices (law 6: afford).

Pure arithmetic. The session decides on the rewrite, and may have other reasons. For long inputs pass
`info.with_tier_prices(tokens)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from nexus_cli.core.price import MILLION, price_usage, request_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage, round_dollars

READ_RATIO = 0.1
"""Price of a token read from the cache, relative to the input price, if the model's own is unknown."""
USUAL_PRICES = ModelInfo("", "", 0, input_price=1.0, output_price=5.0, cache_read_price=READ_RATIO)
"""The usual ratios of prices, for comparisons where the model's own are unknown."""
MOST_STEPS = 50
"""Most further steps that are expected."""


@dataclass(frozen=True, slots=True)
class RewritePrice:
    """The price and the benefit of one rewrite."""

    json_fields: ClassVar = "cold saved steps cost gain pays why"
    cold: int
    """Tokens that the next request sends uncached because of the rewrite."""
    saved: int
    """Tokens saved in each later request."""
    steps: int
    """Number of further steps expected."""
    cost: float | None
    """Extra dollars for sending them uncached; null if a price is unknown."""
    gain: float | None
    """Dollars saved in the expected steps; null if a price is unknown."""
    pays: bool
    why: str
    """The calculation in one line."""
    worth: float
    """Gain minus cost, for comparing rewrites of one window: in millionths of dollars, or in input tokens if prices are
    unknown."""


def price_rewrite(info: ModelInfo, *, cold: int, saved: int, steps: int, warm: bool) -> RewritePrice:
    """Compare the extra cost of `cold` tokens with `saved` tokens in each of the expected `steps`.

    `steps` are those so far; as many are expected, at most `MOST_STEPS`. While the cache is `warm`, a cold token costs
    the write price (the input price if writes are not billed) minus the read price, and a saved token saves the read
    price. Once the cache has expired everything is sent uncached anyway: the rewrite costs nothing, and the first step
    saves the full price. If a price is unknown, the usual ratio of read to input price is used.
    """
    cold, saved, steps = max(0, cold), max(0, saved), max(0, min(steps, MOST_STEPS))
    fresh, read = _input_prices(info)
    cost = max(0.0, cold * (fresh - read)) if warm else 0.0
    first = read if warm else fresh
    gain = saved * (first + read * (steps - 1)) if steps else 0.0
    spent, earned = (cost / MILLION, gain / MILLION) if _has_prices(info) else (None, None)
    if spent is None:
        ratio = f"prices unknown, assuming cached input costs {READ_RATIO:g} times uncached"
        why = f"costs {cost:,.0f} input tokens ({cold:,} cold), may save {gain:,.0f} in {steps} steps ({ratio})"
    else:
        why = f"costs ${spent:.4f} ({cold:,} cold tokens), may save ${earned:.4f} in {steps} steps"
        why += "" if warm else "; no longer cached"
    return RewritePrice(cold, saved, steps, spent, earned, gain > cost, why, gain - cost)


def break_even(info: ModelInfo, *, cold: int, saved: int, spent: float | None) -> tuple[float | None, int | None]:
    """Return the dollars that a rewrite saves in each later request, read from the cache (None if a price is unknown),
    and the requests after which it has paid for itself (None if it never does).

    `spent` are its dollars, a summary included. If they are unknown, the usual ratio of read to input price is used,
    without the summary.
    """
    dollars = saving = request_cost(info, cached=saved, fresh=0) if _has_prices(info) else None
    if saving is None or spent is None:
        fresh, read = _input_prices(info)
        spent, saving = max(0.0, cold * (fresh - read)), saved * read
    return dollars, max(1, math.ceil(round(spent / saving, 6))) if saving > 0 else None


def miss_cost(info: ModelInfo, missed: int, usage: Usage) -> float | None:
    """Return the extra dollars for `missed` tokens of a request with this `usage`, compared with reading them from the
    cache; None if a price is unknown. Only tokens reported as written are billed as such; never more than the request
    cost."""
    info = info.with_tier_prices(usage.input)
    missed = max(0, missed)
    billed = price_usage(Usage(missed, cache_write=min(missed, usage.cache_write)), info)
    read = price_usage(Usage(missed, cache_read=missed), info)
    if billed is None or read is None or info.cache_read_price is None:
        return None
    dollars = max(0.0, billed.total - read.total)
    return round_dollars(dollars if usage.cost_usd is None else min(dollars, usage.cost_usd))


def _has_prices(info: ModelInfo) -> bool:
    return info.input_price is not None and info.cache_read_price is not None


def _input_prices(info: ModelInfo) -> tuple[float, float]:
    """Return the dollars per million tokens sent uncached (written, if writes are billed) and read from the cache; if
    unknown, by the usual ratio."""
    if info.input_price is None:
        info = USUAL_PRICES
    elif info.cache_read_price is None:
        info = replace(info, cache_read_price=READ_RATIO * info.input_price)
    return request_cost(info, cached=0, fresh=MILLION) or 0.0, request_cost(info, cached=MILLION, fresh=0) or 0.0
