"""Price a request before it is sent: its input, with the part that the provider's cache should hold."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.context.window.rewrite_cost import request_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import round_dollars
from nexus_cli.lane.next_request import NextRequest


@dataclass(frozen=True, slots=True)
class RequestPrice:
    """The price of the input of one request."""

    input: int
    """Its tokens."""
    cached: int
    """Those that should be in the provider's cache."""
    cost_usd: float | None
    """Dollars for the input, without the answer; None if a price is unknown, 0 under a subscription."""


def price_request(info: ModelInfo, request: NextRequest) -> RequestPrice:
    """Price `request` to the model `info`, with the cache as it should be now."""
    return price_tokens(info, request.tokens, request.cached)


def price_tokens(info: ModelInfo, tokens: int, cached: int) -> RequestPrice:
    """Price a request of so many input tokens, of which `cached` should be in the cache."""
    cost = 0.0 if info.covered else request_cost(info, cached=cached, fresh=tokens - cached)
    return RequestPrice(tokens, cached, None if cost is None else round_dollars(cost))
