"""Cost and savings of a rewrite of the window, at a model's real prices (law 6: afford).

Pure arithmetic. The session decides on the rewrite, and may have other reasons. Prices are those of `ModelInfo`; for
long inputs pass `info.priced(tokens)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage, round_dollars

READ_RATIO = 0.1
"""Price of a token read from the cache, relative to the input price, if the model's own is unknown."""
MOST_STEPS = 50
"""Most further steps that are expected."""
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class RewritePrice:
    """The price and the benefit of one rewrite."""

    cold: int
    """Tokens that the next request sends uncached because of it."""
    saved: int
    """Tokens saved in each later request."""
    steps: int
    """Number of further steps expected."""
    cost: float | None
    """Extra dollars for sending them uncached; None if a price is unknown."""
    gain: float | None
    """Dollars saved in the expected steps; None if a price is unknown."""
    pays: bool
    why: str
    """The calculation in one line."""
    worth: float = 0.0
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
    known = info.input_price is not None and info.cache_read_price is not None
    fresh, read = _fresh(info), _read(info)
    cost = max(0.0, cold * (fresh - read)) if warm else 0.0
    first = read if warm else fresh
    gain = saved * (first + read * (steps - 1)) if steps else 0.0
    pays = gain > cost
    if known:
        dollars = cost / MILLION, gain / MILLION
        why = f"${dollars[0]:.4f} for {cold:,} cold tokens against ${dollars[1]:.4f} saved in {steps} steps"
        return RewritePrice(
            cold, saved, steps, *dollars, pays, why if warm else f"{why}; no cache holds it any more", gain - cost
        )
    ratio = f"prices unknown, a read taken as {READ_RATIO:g} of an input"
    why = f"{cost:,.0f} tokens of input for {cold:,} cold ones against {gain:,.0f} saved in {steps} steps ({ratio})"
    return RewritePrice(cold, saved, steps, None, None, pays, why, gain - cost)


def saving_per_request(info: ModelInfo, saved: int) -> float | None:
    """Return the dollars that `saved` tokens cost in a request, read from the cache; None if a price is unknown."""
    known = info.input_price is not None and info.cache_read_price is not None
    return saved * _read(info) / MILLION if known else None


def break_even(info: ModelInfo, *, cold: int, saved: int, spent: float | None) -> int | None:
    """Return the requests after which a rewrite has paid for itself; None if it never does.

    `spent` are its dollars, a summary included. If they are unknown, the usual ratio of read to input price is used,
    without the summary.
    """
    each = saving_per_request(info, saved)
    if each is None or spent is None:
        spent, each = max(0.0, cold * (_fresh(info) - _read(info))), saved * _read(info)
    return max(1, math.ceil(round(spent / each, 6))) if each > 0 else None


def request_cost(info: ModelInfo, *, cached: int, fresh: int, output: int = 0) -> float | None:
    """Return the dollars of one request: `cached` tokens read, `fresh` ones sent (and written, where that is billed),
    `output`.

    Uses the prices for an input of that length. None if a needed price is unknown; an unknown read price counts as the
    input price, as in the usage totals.
    """
    info = info.with_tier_prices(cached + fresh)
    if info.input_price is None or (output and info.output_price is None):
        return None
    read = info.input_price if info.cache_read_price is None else info.cache_read_price
    dollars = cached * read + fresh * _fresh(info) + output * (info.output_price or 0.0)
    return dollars / MILLION


def miss_cost(info: ModelInfo, missed: int, usage: Usage) -> float | None:
    """Return the extra dollars for `missed` tokens of a request with this `usage`, compared with reading them from the
    cache; None if a price is unknown. Only tokens reported as written are billed as such; never more than the request
    cost."""
    info = info.with_tier_prices(usage.input)
    if info.input_price is None or info.cache_read_price is None:
        return None
    missed = max(0, missed)
    written = min(missed, usage.cache_write)
    billed = written * _fresh(info) + (missed - written) * info.input_price
    dollars = max(0.0, billed - missed * info.cache_read_price) / MILLION
    return round_dollars(dollars if usage.cost_usd is None else min(dollars, usage.cost_usd))


def _fresh(info: ModelInfo) -> float:
    """Return the dollars per million tokens sent uncached: the write price if writes are billed. Unknown: 1."""
    if info.input_price is None:
        return 1.0
    return info.input_price if info.cache_write_price is None else info.cache_write_price


def _read(info: ModelInfo) -> float:
    """Return the dollars per million tokens read from the cache; if unknown, by the usual ratio."""
    if info.input_price is None:
        return READ_RATIO
    return READ_RATIO * info.input_price if info.cache_read_price is None else info.cache_read_price
