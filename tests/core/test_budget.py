"""The token budget: the two reserves of a window, and what the used tokens leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nexus_cli.core.budget import TokenBudget, UsedTokens


@pytest.mark.parametrize(
    ("window", "max_output", "reply", "tools"),
    [
        (200_000, None, 8000, 8000),
        (200_000, 4096, 4096, 8000),
        (16_000, None, 4000, 2000),
        (16_000, 64_000, 4000, 2000),
    ],
)
def test_the_reserves_are_parts_of_the_window_and_at_most_eight_thousand(
    window: int, max_output: int | None, reply: int, tools: int
) -> None:
    budget = TokenBudget.of(window, max_output)
    assert (budget.reserve_reply, budget.reserve_tools) == (reply, tools)
    assert budget.available == window - reply - tools


@pytest.mark.parametrize(
    ("history", "pressure"), [(0, "normal"), (499, "normal"), (500, "high"), (699, "high"), (700, "critical")]
)
def test_what_is_used_leaves_the_rest_and_makes_the_pressure(history: int, pressure: str) -> None:
    used = UsedTokens(system=40, tools=30, history=history, event=30)
    budget = replace(TokenBudget(1200, 100, 100), used=used)
    assert used.total == 100 + history == used.to_json()["total"]
    assert budget.remaining == 900 - history and budget.pressure == pressure
