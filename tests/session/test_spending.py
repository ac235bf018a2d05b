"""What a limit leaves for the next answer."""

from __future__ import annotations

import pytest

from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.core.usage import Usage
from nexus_cli.session.spending import Spending

TIERED = ModelInfo("m", "p", 1_000_000, 32_000, 1.0, 10.0, tiers=(PriceTier(200_001, 2.0, 20.0),))


def test_what_is_affordable_goes_by_the_price_of_an_input_of_the_expected_length() -> None:
    spending = Spending(Limits(max_cost=0.5))
    assert spending.output_cap(TIERED, 200_000) == 30_000
    assert spending.output_cap(TIERED, 200_001) == 4_999


def test_a_long_request_that_only_the_price_of_a_short_one_allows_is_not_sent() -> None:
    spending = Spending(Limits(max_cost=0.5), usage=Usage(cost_usd=0.09))
    assert spending.output_cap(TIERED, 200_000) > 20_000
    with pytest.raises(NexusError) as refused:
        spending.output_cap(TIERED, 200_001)
    assert refused.value.kind == "limit"
