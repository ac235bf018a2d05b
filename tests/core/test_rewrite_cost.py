"""What a rewrite costs and saves: the figures by hand, and the laws that hold at any price."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.price import request_cost, with_cost
from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.core.rewrite_cost import MOST_STEPS, break_even, miss_cost, price_rewrite
from nexus_cli.core.usage import Usage

CLAUDE = ModelInfo("anthropic/claude", "anthropic", 200_000, 8000, 3.0, 15.0, 0.3, 3.75)
GPT = ModelInfo("openai/gpt", "openai", 400_000, 8000, 2.0, 8.0, 0.5, None)
UNKNOWN = ModelInfo("openai/played", "openai", 16_000)
prices = st.one_of(st.none(), st.floats(0, 100, allow_nan=False))
infos = st.builds(lambda a, b, c: ModelInfo("m", "openai", 100_000, None, a, None, b, c), prices, prices, prices)
tokens = st.integers(0, 1_000_000)


def test_cold_tokens_are_billed_as_written_less_what_reading_them_would_have_cost() -> None:
    made = price_rewrite(CLAUDE, cold=40_000, saved=60_000, steps=20, warm=True)
    assert made.cost == pytest.approx(40_000 * (3.75 - 0.3) / 1e6)
    assert made.gain == pytest.approx(60_000 * 20 * 0.3 / 1e6)
    assert made.pays and "40,000 cold tokens" in made.why and "20 steps" in made.why


def test_where_writes_are_not_billed_a_cold_token_costs_an_input() -> None:
    made = price_rewrite(GPT, cold=40_000, saved=1000, steps=5, warm=True)
    assert made.cost == pytest.approx(40_000 * 1.5 / 1e6) and made.gain == pytest.approx(1000 * 5 * 0.5 / 1e6)
    assert not made.pays


def test_after_the_cache_has_expired_a_rewrite_is_free_and_saves_the_full_price_once() -> None:
    made = price_rewrite(CLAUDE, cold=40_000, saved=1000, steps=3, warm=False)
    assert made.cost == 0.0 and made.gain == pytest.approx(1000 * (3.75 + 2 * 0.3) / 1e6)
    assert made.pays and "no longer cached" in made.why


def test_unknown_prices_are_decided_by_the_usual_ratio_and_priced_at_nothing() -> None:
    good = price_rewrite(UNKNOWN, cold=1000, saved=1000, steps=10, warm=True)
    bad = price_rewrite(UNKNOWN, cold=1000, saved=1000, steps=8, warm=True)
    assert (good.cost, good.gain, bad.cost) == (None, None, None)
    assert good.pays and not bad.pays and "prices unknown" in good.why


def test_no_more_steps_are_counted_on_than_fifty_and_none_for_a_session_that_made_none() -> None:
    long = price_rewrite(CLAUDE, cold=0, saved=10, steps=2000, warm=True)
    assert long.steps == MOST_STEPS and long.gain == pytest.approx(10 * MOST_STEPS * 0.3 / 1e6)
    assert not price_rewrite(CLAUDE, cold=0, saved=10_000, steps=0, warm=True).pays


@given(infos, tokens, tokens, st.integers(0, 100), st.booleans())
def test_a_rewrite_that_saves_nothing_never_pays_and_more_saved_never_pays_less(
    info: ModelInfo, cold: int, saved: int, steps: int, warm: bool
) -> None:
    assert not price_rewrite(info, cold=cold, saved=0, steps=steps, warm=warm).pays
    less, more = (price_rewrite(info, cold=cold, saved=s, steps=steps, warm=warm) for s in (saved, saved + 1000))
    assert more.pays or not less.pays
    colder = price_rewrite(info, cold=cold + 1000, saved=saved, steps=steps, warm=warm)
    assert less.pays or not colder.pays
    assert (less.cost is None) == (info.input_price is None or info.cache_read_price is None)


def test_a_request_costs_what_it_reads_what_it_sends_and_what_it_answers() -> None:
    assert request_cost(CLAUDE, cached=10_000, fresh=2000, output=500) == pytest.approx(
        (10_000 * 0.3 + 2000 * 3.75 + 500 * 15) / 1e6
    )
    assert request_cost(GPT, cached=0, fresh=1000) == pytest.approx(0.002)
    assert request_cost(UNKNOWN, cached=1, fresh=1) is None
    free = ModelInfo("ollama/x", "ollama", 8000, None, 0.0, 0.0)
    assert request_cost(free, cached=5, fresh=5, output=5) == 0.0


def test_a_long_request_is_billed_at_the_prices_of_its_length() -> None:
    tiered = ModelInfo("m", "p", 10**6, None, 1.0, 1.0, 0.1, None, tiers=(PriceTier(1000, 2.0, 2.0, 0.2),))
    assert request_cost(tiered, cached=500, fresh=500) == pytest.approx((500 * 0.2 + 500 * 2.0) / 1e6)


def test_a_miss_costs_the_difference_between_sending_and_reading() -> None:
    written = Usage(12_000, 0, cache_write=10_000, cost_usd=None)
    assert miss_cost(CLAUDE, 10_000, written) == pytest.approx(0.0345)
    assert miss_cost(UNKNOWN, 10_000, written) is None and miss_cost(GPT, 0, written) == 0.0


@pytest.mark.parametrize("info", [CLAUDE, GPT])
@pytest.mark.parametrize("written", [0, 4_000, 10_000])
def test_a_miss_never_costs_more_than_its_request(info: ModelInfo, written: int) -> None:
    usage = Usage(10_000, 0, cache_write=written, cost_usd=None)
    bill = with_cost(usage, info).cost_usd
    missed = miss_cost(info, 10_000, replace(usage, cost_usd=bill))
    assert bill is not None and missed is not None and info.cache_read_price is not None
    assert missed == pytest.approx(bill - 10_000 * info.cache_read_price / 1e6)
    assert miss_cost(info, 10_000, replace(usage, cost_usd=0.0)) == 0.0, "not above the bill, at whatever prices"


def test_a_rewrite_has_paid_for_itself_after_as_many_requests_as_its_cost_has_savings() -> None:
    priced = price_rewrite(CLAUDE, cold=40_000, saved=60_000, steps=20, warm=True)
    _, after = break_even(CLAUDE, cold=40_000, saved=60_000, spent=priced.cost)
    assert after is not None and priced.cost is not None and CLAUDE.cache_read_price is not None
    each = 60_000 * CLAUDE.cache_read_price / 1e6
    assert (after - 1) * each < priced.cost <= after * each
    assert break_even(CLAUDE, cold=40_000, saved=60_000, spent=priced.cost + each)[1] == after + 1, "with its summary"
    assert break_even(CLAUDE, cold=0, saved=60_000, spent=0.0)[1] == 1, "the cache had expired"
    assert break_even(CLAUDE, cold=40_000, saved=0, spent=priced.cost)[1] is None
    assert break_even(UNKNOWN, cold=1000, saved=1000, spent=None)[1] == 9, "(1 - 0.1) / 0.1"
