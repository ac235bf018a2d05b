"""Every provider's spelling of usage, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.core.usage import Usage
from nexus_cli.provider.usage import to_usage

FREE = ModelInfo("m", "p", 1000)
PRICED = ModelInfo("m", "p", 1000, None, 3.0, 15.0, 0.3, 3.75)

SPELLINGS: list[tuple[str, dict[str, Any], tuple[int, int, int, int, int]]] = [
    (
        "openai",
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 8},
        },
        (100, 20, 64, 0, 8),
    ),
    (
        "anthropic through litellm",
        {
            "prompt_tokens": 115,
            "completion_tokens": 20,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 5,
        },
        (115, 20, 100, 5, 0),
    ),
    (
        "deepseek",
        {"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
        (100, 20, 64, 0, 0),
    ),
]


@pytest.mark.parametrize(("spelling", "raw", "expected"), SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_each_spelling_is_read(spelling: str, raw: dict[str, Any], expected: tuple[int, int, int, int, int]) -> None:
    assert to_usage([raw], FREE) == Usage(*expected, None)


def price(raw: dict[str, Any], info: ModelInfo = PRICED) -> float | None:
    usage = to_usage([raw], info)
    assert usage is not None
    return usage.cost_usd


def test_cached_tokens_have_their_own_price() -> None:
    raw = {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 100_000,
        "cache_read_input_tokens": 500_000,
        "cache_creation_input_tokens": 100_000,
    }
    assert price(raw, PRICED) == pytest.approx(0.4 * 3 + 0.5 * 0.3 + 0.1 * 3.75 + 0.1 * 15)


def test_a_price_of_zero_for_writes_is_a_price() -> None:
    raw = {"prompt_tokens": 1_000_000, "cache_creation_input_tokens": 1_000_000}
    assert price(raw, ModelInfo("m", "p", 1000, None, 3.0, 15.0, 0.3, 0.0)) == 0.0
    assert price(raw, ModelInfo("m", "p", 1000, None, 3.0, 15.0, 0.3, None)) == 3.0


def test_a_long_input_costs_what_its_tier_says_for_every_token() -> None:
    tiered = ModelInfo("m", "p", 10**6, None, 1.0, 5.0, tiers=(PriceTier(200_001, 2.0, 10.0),))
    raw = {"prompt_tokens": 200_000, "completion_tokens": 1_000}
    assert price(raw, tiered) == pytest.approx(0.2 + 0.005)
    assert price({**raw, "prompt_tokens": 200_001}, tiered) == pytest.approx(0.400002 + 0.01)


def test_an_unknown_price_is_no_price_and_a_price_of_zero_is_one() -> None:
    assert price({"prompt_tokens": 5}, FREE) is None
    assert price({"prompt_tokens": 5}, ModelInfo("m", "p", 1000, None, 0.0, 0.0)) == 0.0


def test_dollars_are_rounded_where_they_are_made_and_added() -> None:
    raw = {"prompt_tokens": 1_013, "prompt_tokens_details": {"cached_tokens": 7}, "completion_tokens": 1}
    assert repr(price(raw, PRICED)) == "0.0030351"
    assert repr((Usage(cost_usd=0.1) + Usage(cost_usd=0.2)).cost_usd) == "0.3"


COUNTED = (
    "prompt_tokens completion_tokens cache_read_input_tokens cache_creation_input_tokens input_tokens reasoning_tokens"
)


@given(st.dictionaries(st.sampled_from(COUNTED.split()), st.integers(-5, 10**7)))
def test_the_parts_never_exceed_the_whole_and_cost_is_never_negative(raw: dict[str, int]) -> None:
    usage = to_usage([raw], PRICED) or Usage()
    assert usage.cache_read + usage.cache_write <= usage.input
    assert usage.reasoning <= usage.output
    assert usage.cost_usd is not None and usage.cost_usd >= 0


def test_reports_of_one_stream_are_merged_to_the_larger_number() -> None:
    first = {"prompt_tokens": 115, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    last = {"prompt_tokens": 0, "completion_tokens": 15, "prompt_tokens_details": {"cached_tokens": 0}, "other": None}
    assert to_usage([first, last], FREE) == Usage(115, 15, 9, 0, 0, None)


def test_a_report_without_counts_is_none() -> None:
    nothing = {"prompt_tokens": None, "completion_tokens": -3, "prompt_tokens_details": None, "reasoning_tokens": "x"}
    assert to_usage([], FREE) is None
    assert to_usage([{"prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}, nothing], FREE) is None
    assert to_usage([{"prompt_tokens_details": {"cached_tokens": 1}}], FREE) is not None
