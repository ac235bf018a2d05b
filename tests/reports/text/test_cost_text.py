"""The cost of a session as text."""

from __future__ import annotations

from typing import Any

from nexus_cli.reports.forms import find_form

FIGURES: dict[str, Any] = {"requests": 3, "input": 900, "output": 90, "cache_read": 450, "unfinished": 0}
COST: dict[str, Any] = {
    "total": {**FIGURES, "cost_usd": 0.06, "known_usd": 0.06, "unpriced": 0},
    "kinds": [],
    "turns": [],
    "models": [{"name": "openai/gpt-5", **FIGURES, "cost_usd": 0.06, "known_usd": 0.06, "unpriced": 0}],
    "series": [{"tokens": 330, "cost_usd": cost} for cost in (0.01, 0.04, 0.0, 0.01)],
}


def test_the_cost_of_a_session_is_its_sum_and_then_each_model() -> None:
    text = find_form("cost")(COST, 80)
    assert text.startswith("$0.0600 for 3 requests: 900 tokens in (50.0% cached), 90 out\n\nby model:\n")
    assert "?" not in text


def test_where_a_price_is_unknown_one_line_says_how_to_set_it() -> None:
    part = {"cost_usd": None, "known_usd": 0.02, "unpriced": 1}
    row = {"name": "local/odd", **FIGURES, **part}
    series = [*COST["series"], {"tokens": 660, "cost_usd": None}]
    text = find_form("cost")({**COST, "total": {**FIGURES, **part}, "models": [row], "series": series}, 80)
    assert text.startswith("$0.0200+ for 3 requests")
    assert text.count("No known price") == 1
    assert "\n  nexus config set 'models.\"local/odd\".input_price' DOLLARS_PER_MILLION" in text, "can be pasted"
    assert "?" not in text
    part |= {"known_usd": 0.0}
    none = find_form("cost")({**COST, "total": {**FIGURES, **part}, "models": [{**row, **part}], "series": []}, 80)
    assert none.startswith("3 requests:") and "cost" not in none and "$" not in none
