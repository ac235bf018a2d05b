"""The status line at every width: what matters most stays longest, and it never runs over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.session.status import Status
from nexus_cli.ui.cells import cells, without_codes
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import ASCII, Theme
from nexus_cli.ui.reports.lines import short, short_dollars

PLAIN = Theme(colour=False)
STATUS = Status(
    session="01",
    model="openai/gpt-5",
    effort="high",
    allow="edit",
    recipe="chat",
    folder="/home/me/src/nexus",
    used=12_345,
    budget=112_000,
    basis="reported",
    drops=3,
    recalled=1,
    cached=0.92,
    cost_usd=0.0123,
    saved=False,
)


def line(width: int, status: Status = STATUS, theme: Theme = PLAIN) -> str:
    return status_line(status, "main", width, theme, "/home/me")


def test_with_room_everything_is_there() -> None:
    assert line(140) == (
        "gpt-5 high · edit · ~/src/nexus (main) · 12.3k/112k 11% █░░░░░░░ · 3 drops · cache 92% · $0.0123 · not saved"
    )


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "gpt-5 · edit · nexus (main) · 12.3k/112k 11% · 3 drops · $0.0123 · not saved"),
        (60, "gpt-5 · 12.3k/112k 11% · 3 drops · $0.0123 · not saved"),
        (40, "gpt-5 · 12.3k/112k 11% · not saved"),
        (20, "12.3k/112k 11%"),
        (8, "11%"),
        (1, ""),
        (0, ""),
    ],
)
def test_what_matters_least_leaves_first(width: int, shown: str) -> None:
    assert line(width) == shown


def test_an_unknown_price_is_said_and_a_pressed_window_has_a_sign() -> None:
    assert "$?" in line(120, replace(STATUS, cost_usd=None))
    assert "70k/100k 70%! " in line(120, replace(STATUS, used=70_000, budget=100_000))
    assert "90%!!" in line(20, replace(STATUS, used=90_000, budget=100_000))
    assert "1 drop " in line(120, replace(STATUS, drops=1)) and "drop" not in line(120, replace(STATUS, drops=0))
    assert "cache" not in line(120, replace(STATUS, cached=None)) and "not saved" not in line(
        120, replace(STATUS, saved=True)
    )
    assert line(120, theme=Theme(colour=False, signs=ASCII)).isascii()
    assert "-/0 " in line(40, replace(STATUS, used=0, budget=0))


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=20), st.integers(0, 300), st.booleans())
def test_it_never_runs_over_and_steers_nothing(folder: str, model: str, branch: str, width: int, colour: bool) -> None:
    status = replace(STATUS, folder=folder, model=model, effort=branch)
    shown = status_line(status, branch, width, Theme(colour=colour), folder[:3])
    assert cells(without_codes(shown)) <= max(0, width - 1)
    assert not any(ord(char) < 32 for char in shown.replace("\x1b[", "").replace("\x1b", "" if colour else "\x1b"))
    if width >= 20:
        assert "11%" in shown


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_234_567, "1.2M"),
        (5_000_000_000, "5000M"),
    ],
)
def test_tokens_are_told_in_few_characters(tokens: int, shown: str) -> None:
    assert short(tokens) == shown


def test_dollars_have_the_decimals_that_matter() -> None:
    shown = [short_dollars(cost) for cost in (None, 0.0, 0.0123, 1.5, 12.345)]
    assert shown == ["$?", "$0.00", "$0.0123", "$1.50", "$12.35"]
