"""Cost and savings of a rewrite of the window, at a model's real prices (law 6: afford).

Pure arithmetic. Who rewrites, and whether it has to be done for other reasons, is the session's affair. Prices are
those of `ModelInfo`; for long inputs hand in `info.priced(tokens)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage, round_dollars

READ_RATIO = 0.1
"""Price of a token read from the cache, in prices of input, where the model's own is unknown."""
MOST_STEPS = 50
"""Further steps that are counted on at most."""
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class RewritePrice:
    """The price of one rewrite, and what it brings."""

    cold: int
    """Tokens that the next request sends uncached because of it."""
    saved: int
    """Tokens fewer in each later request."""
    steps: int
    """Further steps that are expected."""
    cost: float | None
    """Dollars that sending them cold costs more; None when a price is unknown."""
    gain: float | None
    """Dollars that the expected steps cost less; None when a price is unknown."""
    pays: bool
    why: str
    """The sum in one line."""
    worth: float = 0.0
    """Gain beyond the cost, to compare rewrites of one window by: millionths of dollars, or where prices are
    unknown tokens of input."""


def price_rewrite(info: ModelInfo, *, cold: int, saved: int, steps: int, warm: bool) -> RewritePrice:
    """Compare what `cold` tokens cost more with `saved` tokens in each of the expected `steps`.

    `steps` are those so far; at most `MOST_STEPS` are counted on. While the cache is `warm` a cold token costs the
    price of writing it (of input, where writes are not billed) less that of reading it, and a saved one what reading it
    would have cost. When the cache has expired everything is sent cold anyway: the rewrite costs nothing, and the first
    of the steps saves the full price. Where a price is unknown the usual ratio of a read to an input decides.
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


def request_cost(info: ModelInfo, *, cached: int, fresh: int, output: int = 0) -> float | None:
    """Return the dollars of one request: `cached` tokens read, `fresh` ones sent (and written, where that is billed),
    `output`.

    At the prices of an input of that length. None when a needed price is unknown; an unknown price of reading counts as
    that of input, as in the accounts of what was used.
    """
    info = info.with_tier_prices(cached + fresh)
    if info.input_price is None or (output and info.output_price is None):
        return None
    read = info.input_price if info.cache_read_price is None else info.cache_read_price
    dollars = cached * read + fresh * _fresh(info) + output * (info.output_price or 0.0)
    return dollars / MILLION


def miss_cost(info: ModelInfo, missed: int, usage: Usage) -> float | None:
    """Return the dollars that `missed` tokens of a request of this `usage` cost more than reading them from the cache
    would; None when a price is unknown. Only what was reported as written is billed as such; never more than the
    request cost."""
    info = info.with_tier_prices(usage.input)
    if info.input_price is None or info.cache_read_price is None:
        return None
    missed = max(0, missed)
    written = min(missed, usage.cache_write)
    billed = written * _fresh(info) + (missed - written) * info.input_price
    dollars = max(0.0, billed - missed * info.cache_read_price) / MILLION
    return round_dollars(dollars if usage.cost_usd is None else min(dollars, usage.cost_usd))


def _fresh(info: ModelInfo) -> float:
    """Return the dollars per million tokens sent uncached: the price of writing the cache where that is billed.
    Unknown: 1."""
    if info.input_price is None:
        return 1.0
    return info.input_price if info.cache_write_price is None else info.cache_write_price


def _read(info: ModelInfo) -> float:
    """Return the dollars per million tokens read from the cache, by the usual ratio where unknown."""
    if info.input_price is None:
        return READ_RATIO
    return READ_RATIO * info.input_price if info.cache_read_price is None else info.cache_read_price
