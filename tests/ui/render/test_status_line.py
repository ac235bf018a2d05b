"""The status line at every width: what matters most stays longest, and it never runs over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.reports.text.lines import known_dollars, short
from nexus_cli.session.status import Status
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import ASCII, Theme

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
    cached=0.92,
    cost_usd=0.0123,
    known_usd=0.0123,
    saved=False,
)


def line(width: int, status: Status = STATUS, theme: Theme = PLAIN) -> str:
    return status_line(replace(status, branch="main"), width, theme, "/home/me")


def test_with_room_everything_is_there() -> None:
    assert line(140) == (
        "gpt-5 high · edit · ~/src/nexus (main) · 12k of 112k · 3 left out · last 92% cached · $0.0123 · not saved"
    )


def test_what_the_cache_saved_is_told_from_a_cent_on_where_there_is_room() -> None:
    saving = replace(STATUS, saved_usd=0.124)
    assert " · $0.0123 · cache saved $0.12 · not saved" in line(140, saving)
    assert line(110, saving) == line(110) and line(140, replace(STATUS, saved_usd=0.0099)) == line(140)


def test_missing_walls_are_told_and_existing_ones_are_not() -> None:
    assert "sandbox" not in line(140)
    assert " edit · sandbox: none · " in line(140, replace(STATUS, has_sandbox=False))
    assert "sandbox: none" in line(60, replace(STATUS, has_sandbox=False))
    assert Theme(colour=True).paint("warn", "sandbox: none") in line(
        140, replace(STATUS, has_sandbox=False), Theme(colour=True)
    )


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (160, "(main) · 12k of 112k · 2 jobs j1 j3 · 3 left out · last 92% cached · $0.0123 · not saved"),
        (100, "nexus (main) · 12k of 112k · 2 jobs j1 j3 · 3 left out · $0.0123 · not saved"),
        (60, "gpt-5 · edit · 12k of 112k · 2 jobs · $0.0123 · not saved"),
    ],
)
def test_jobs_are_named_where_there_is_room_and_counted_where_there_is_little(width: int, shown: str) -> None:
    assert line(width, replace(STATUS, jobs=("j1", "j3"))).endswith(shown)
    assert "· 1 job j1 ·" in line(160, replace(STATUS, jobs=("j1",)))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (85, "gpt-5 · edit · nexus (main) · 12k of 112k · 3 left out · $0.0123 · not saved"),
        (60, "gpt-5 · edit · 12k of 112k · $0.0123 · not saved"),
        (42, "gpt-5 · edit · 11% · $0.0123 · not saved"),
        (40, "edit · 11% · $0.0123 · not saved"),
        (20, "11% · $0.0123"),
        (8, "11%"),
        (1, ""),
        (0, ""),
    ],
)
def test_what_matters_least_leaves_first(width: int, shown: str) -> None:
    assert line(width) == shown


@pytest.mark.parametrize("level", ["auto", "all"])
def test_a_level_that_asks_nothing_never_leaves(level: str) -> None:
    busy = replace(STATUS, allow=level, jobs=("j1",), until="make check", workers=2, asking=1, used=90_000)
    for width in range(15, 161):
        assert level in line(width, busy).split(" · "), width
    assert "ask" in line(40, replace(busy, allow="ask")).split(" · ")


def test_a_cost_is_what_is_known_of_it_and_a_pressed_window_has_a_sign() -> None:
    assert "· $0.0070+ ·" in line(120, replace(STATUS, cost_usd=None, known_usd=0.007))
    assert "$" not in line(120, replace(STATUS, cost_usd=None, known_usd=0.0))
    assert "70k of 100k ! ·" in line(120, replace(STATUS, used=70_000, budget=100_000))
    assert "90k of 100k !!" in line(60, replace(STATUS, used=90_000, budget=100_000))
    assert line(20, replace(STATUS, used=90_000, budget=100_000)) == "90% !! · $0.0123"
    assert line(8, replace(STATUS, used=90_000, budget=100_000)) == "90% !!"
    assert "\x1b[33mall\x1b[0m" in line(120, replace(STATUS, allow="all"), Theme()), "nothing is asked then"
    bare = line(120, replace(STATUS, drops=0, cached=None, saved=True))
    assert not any(words in bare for words in ("left out", "cached", "not saved"))
    assert line(120, theme=Theme(colour=False, signs=ASCII)).isascii()
    assert "- of 0 " in line(50, replace(STATUS, used=0, budget=0))


@pytest.mark.parametrize(
    ("used", "shown"), [(312, "312"), (9_949, "9.9k"), (9_950, "10k"), (12_499, "12k"), (1_234_567, "1.2M")]
)
def test_tokens_in_use_are_whole_thousands_as_soon_as_there_are_ten(used: int, shown: str) -> None:
    assert f" {shown} of 2M " in line(120, replace(STATUS, used=used, budget=2_000_000))


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=20), st.integers(0, 300), st.booleans())
def test_it_never_runs_over_and_steers_nothing(folder: str, model: str, branch: str, width: int, colour: bool) -> None:
    status = replace(STATUS, folder=folder, model=model, effort=branch, branch=branch, server=model)
    shown = status_line(status, width, Theme(colour=colour), folder[:3])
    assert cells(without_codes(shown)) <= max(0, width - 1)
    assert not any(ord(char) < 32 for char in shown.replace("\x1b[", "").replace("\x1b", "" if colour else "\x1b"))
    if width >= 20:
        assert "12k of 112k" in shown or "11%" in shown


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
    shown = [known_dollars(cost, cost) for cost in (0.0, 0.0123, 1.5, 12.345)]
    assert shown == ["$0.00", "$0.0123", "$1.50", "$12.35"]


def test_what_a_run_waits_for_is_said_while_there_is_room_and_that_it_waits_for_longer() -> None:
    waits = replace(STATUS, waits="build.done changes")
    assert " · waits: build.done changes · " in line(140, waits) and " · waiting · " in line(60, waits)
    assert line(51, waits) == "gpt-5 · edit · 11% · waiting · $0.0123 · not saved"


def test_a_request_that_misses_the_cache_is_shown_with_its_price() -> None:
    assert "3 left out · next $0.8400 uncached · $0.0123" in line(160, replace(STATUS, cold=True, cold_usd=0.84))
    assert "next uncached" in line(160, replace(STATUS, cold=True, cold_usd=None)), "a price that is not known"
    plain = replace(STATUS, cold=True, cold_usd=0.84, drops=0)
    assert any(
        " next $0.8400" in line(width, plain) and "uncached" not in line(width, plain) for width in range(20, 70)
    )
