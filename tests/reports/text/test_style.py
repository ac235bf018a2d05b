"""Plots and paint: a bar for each value, the highest one full, in the characters that the terminal has."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.commands.forms import find_form
from nexus_cli.reports.text.style import PLAIN, ReportStyle, plot
from nexus_cli.ui.render.theme import UNICODE, Theme

FIGURES: dict[str, Any] = {"requests": 3, "input": 900, "output": 90, "cache_read": 450, "unfinished": 0}
COST: dict[str, Any] = {
    "total": {**FIGURES, "cost_usd": 0.06, "known_usd": 0.06, "unpriced": 0},
    "kinds": [],
    "turns": [],
    "models": [{"name": "openai/gpt-5", **FIGURES, "cost_usd": 0.06, "known_usd": 0.06, "unpriced": 0}],
    "series": [{"tokens": 330, "cost_usd": cost} for cost in (0.01, 0.04, 0.0, 0.01)],
}


def test_the_highest_bar_is_full_and_the_smallest_is_seen() -> None:
    assert plot([1, 24, 12, 0], 60, ReportStyle(levels=UNICODE.levels)) == ([" █", " █▄", "▁██"], 1)
    assert plot([1, 9, 5, 0], 60, PLAIN) == ([" #", " #:", ".##"], 1)
    assert plot([], 60, PLAIN)[0] == plot([0, 0], 60, PLAIN)[0] == [""] * 3


@pytest.mark.parametrize("width", [1, 7, 60])
def test_a_long_session_fits_because_a_bar_sums_several_requests(width: int) -> None:
    lines, per_bar = plot([1.0] * 100, width, PLAIN)
    assert max(map(len, lines)) <= width and per_bar * width >= 100 > (per_bar - 1) * width


def test_the_cost_of_a_session_has_a_plot_of_its_requests() -> None:
    text = find_form("cost")(COST, 80, PLAIN)
    assert text.startswith("$0.0600 for 3 requests: 900 tokens in (50.0% cached), 90 out")
    assert "\ncost per request (highest $0.0400):\n   #\n   #\n  :# :\n\nby model:\n" in text and "?" not in text
    painted = find_form("cost")(COST, 80, Theme().look)
    assert "█" in painted and "\x1b[36m" in painted


def test_where_a_price_is_unknown_one_line_says_how_to_set_it() -> None:
    part = {"cost_usd": None, "known_usd": 0.02, "unpriced": 1}
    row = {"name": "local/odd", **FIGURES, **part}
    series = [*COST["series"], {"tokens": 660, "cost_usd": None}]
    text = find_form("cost")({**COST, "total": {**FIGURES, **part}, "models": [row], "series": series}, 80, PLAIN)
    assert text.startswith("$0.0200+ for 3 requests") and "tokens per request (most 660)" in text
    assert text.count("No known price") == 1
    assert "\n  nexus config set 'models.\"local/odd\".input_price' DOLLARS_PER_MILLION" in text, "can be pasted"
    assert "?" not in text
    part |= {"known_usd": 0.0}
    none = find_form("cost")(
        {**COST, "total": {**FIGURES, **part}, "models": [{**row, **part}], "series": []}, 80, PLAIN
    )
    assert none.startswith("3 requests:") and "cost" not in none and "$" not in none
