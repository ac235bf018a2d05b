"""What a limit leaves for the next answer."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Played, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CacheResult, StepEnd
from nexus_cli.core.limits import Limits, describe_budget
from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.spending import LAST_REQUEST, LAST_STEP, Spending
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

TIERED = ModelInfo("m", "p", 1_000_000, 32_000, 1.0, 10.0, tiers=(PriceTier(200_001, 2.0, 20.0),))


def test_what_the_next_request_needs_is_named_when_the_money_does_not_suffice() -> None:
    spending = Spending(Limits(max_cost=0.03), usage=Usage(cost_usd=0.01))
    with pytest.raises(NexusError) as refused:
        spending.output_cap(TIERED, 50_000)
    assert refused.value.why == "$0.0200 is left, but the next request could cost up to $0.0602"
    assert Spending(Limits(max_cost=0.0703), usage=Usage(cost_usd=0.01)).output_cap(TIERED, 50_000) >= 1024


def test_whatever_a_side_run_counts_is_counted_for_the_turn_and_its_limits_end_with_it() -> None:
    spending = Spending(Limits(max_total_tokens=9_000), ending="max_steps", newest=Usage(70))
    own = {name: getattr(spending, name) for name in ("limits", "recipes", "ending", "newest")}
    counted = {one.name: object() for one in fields(Spending) if one.name not in own}
    with pytest.raises(KeyError), spending.within(Recipe("side", limits=Limits(max_total_tokens=100, max_steps=2))):
        assert (spending.limits, spending.ending) == (Limits(max_total_tokens=100, max_steps=2), "")
        assert [recipe.name for recipe in spending.recipes] == ["side"]
        spending.add(Usage(5), "m")
        vars(spending).update(counted)
        raise KeyError("what ends a side run")
    assert vars(spending) == {**counted, **own}


@pytest.mark.parametrize("is_worker", [False, True])
def test_a_model_without_a_price_that_was_used_before_is_named_with_the_command(is_worker: bool) -> None:
    spending, unpriced = Spending(Limits(max_cost=0.5)), Usage(5, cost_usd=None)
    if is_worker:
        spending.reserve("w1", Limits(), Limits())
        spending.settle("w1", 1, unpriced, "openai/unknown")
    else:
        spending.add(unpriced, "openai/unknown")
    spending.add(Usage(5), "m")
    with pytest.raises(NexusError) as refused:
        spending.output_cap(TIERED, 10)
    assert "of openai/unknown is" in refused.value.why and 'models."openai/unknown".input' in refused.value.hint


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


@pytest.mark.parametrize(
    ("front", "way"),
    [
        ("ask", "a higher --max-steps"),
        ("chat", "/config limits.max_steps"),
        ("server", "a higher limits.max_steps"),
        ("run", "Schedule it again with a higher --max-steps, or raise limits.max_steps"),
        ("worker", "Use a higher --max-steps"),
    ],
)
def test_a_limit_names_the_way_to_raise_it_that_exists_where_it_was_reached(front: str, way: str) -> None:
    spending = Spending(
        Limits(max_steps=1),
        must_report=front in ("run", "worker"),
        is_chat=front == "chat",
        is_served=front == "server",
        is_scheduled=front == "run",
        steps=1,
    )
    with pytest.raises(NexusError) as reached:
        spending.check_steps()
    assert way in reached.value.hint and reached.value.why == "the turn has taken 1 step"


@pytest.mark.parametrize(
    ("steps", "more", "notice"),
    [
        (1, {}, ""),
        (2, {}, LAST_STEP),
        (2, {"is_served": True}, LAST_STEP),
        (2, {"is_chat": True}, ""),
        (2, {"must_report": True}, LAST_REQUEST),
    ],
)
def test_the_model_is_told_that_its_last_step_is_the_last(steps: int, more: dict[str, Any], notice: str) -> None:
    spending = Spending(Limits(max_steps=3), steps=steps, **more)
    assert spending.begin_next(lambda: 0, TIERED) == notice


@pytest.mark.parametrize("no_tools", [False, True])
def test_without_tools_nothing_is_said_about_further_calls(no_tools: bool, tmp_path: Path) -> None:
    provider = Played(lambda asked: "done")
    options = Options(tmp_path, MODEL, allow="all", limits=Limits(max_steps=1), no_tools=no_tools)
    session = open_session(options, Settings(models={MODEL: {"window": 16_000}}), approver=None, provider=provider)
    say(session, "begin")
    assert (LAST_STEP in str(provider.seen)) is not no_tools


def test_a_budget_of_one_request_is_one_request() -> None:
    said = [describe_budget(Limits(max_steps=steps)) for steps in (1, 2)]
    assert "budget: 1 request." in said[0] and "budget: 2 requests." in said[1]


@pytest.mark.matrix
@pytest.mark.parametrize("told", sample([0, 1, 17_000], 3))
@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(max_total_tokens=9_000), "max_total_tokens"),
        (Limits(max_cost=0.03), "max_cost"),
    ],
)
def test_a_report_that_cannot_be_so_switches_no_limit_off_and_ends_no_turn_early(
    told: int, limits: Limits, limit: str, tmp_path: Path
) -> None:
    provider = Played(lambda asked: [("grep", {"pattern": f"x{len(asked.messages)}"})], usage=Usage(told, 1))
    options = Options(tmp_path, MODEL, allow="all", limits=limits)
    prices = {"window": 16_000, "input_price": 2.0, "output_price": 8.0}
    session = open_session(options, Settings(models={MODEL: prices}), approver=None, provider=provider)
    events, outcome = say(session, "list it again and again")
    assert outcome.error is not None
    assert outcome.error["kind"] == "limit" and limit in str(outcome.error)
    assert 3 <= len(provider.seen) <= 12
    ends = [event.usage for event in events if isinstance(event, StepEnd)]
    assert all(500 < usage.input < 9_000 for usage in ends)
    assert not any(event.why for event in events if isinstance(event, CacheResult))


@pytest.mark.parametrize("limit", [1e30, 1e308])
def test_a_limit_beyond_all_money_leaves_the_cap_to_the_model(limit: float) -> None:
    spending = Spending(Limits(max_cost=limit))
    assert spending.output_cap(TIERED, 1_000) == Spending(Limits()).output_cap(TIERED, 1_000)
