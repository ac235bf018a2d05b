"""The meter: estimates anchored on reports, one learned factor per model, a known error."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nexus_cli.context.meter import LEAST, MOST, Meter
from nexus_cli.core.services import Calibration

TOKENS = st.integers(0, 200_000)
REPORTS = st.lists(st.tuples(st.integers(1, 200_000), st.integers(0, 400_000)), max_size=12)


def taught(reports: list[tuple[int, int]]) -> Meter:
    meter = Meter()
    for number, (counted, reported) in enumerate(reports):
        meter.report(number, counted, reported)
    return meter


@given(REPORTS, TOKENS, TOKENS)
def test_more_counted_is_never_estimated_as_less(reports: list[tuple[int, int]], one: int, two: int) -> None:
    meter = taught(reports)
    low, high = sorted((one, two))
    assert meter.estimate(low) <= meter.estimate(high)
    assert meter.upper(low) <= meter.upper(high)
    assert meter.countable(low) <= meter.countable(high)
    assert meter.estimate(low) <= meter.upper(low)


@given(REPORTS, st.one_of(st.none(), TOKENS), st.one_of(st.none(), TOKENS))
def test_the_factor_stays_within_its_bounds(
    reports: list[tuple[int, int]], reported: int | None, limit: int | None
) -> None:
    meter = taught(reports)
    assert LEAST == 0.5 <= meter.calibration.factor <= MOST == 2.5
    meter.overflowed(1000, reported, limit)
    assert LEAST <= meter.calibration.factor <= MOST
    assert meter.anchor is None


@given(REPORTS, st.integers(1, 160_000), st.integers(1, 400_000))
def test_a_report_anchors_the_estimate_of_what_was_sent(
    reports: list[tuple[int, int]], counted: int, reported: int
) -> None:
    assume(LEAST * counted <= reported <= MOST * counted)
    meter = taught(reports)
    meter.report(99, counted, reported)
    assert meter.estimate(counted) == meter.upper(counted) == reported
    assert meter.basis == "reported+estimate"
    meter.forget()
    assert meter.basis == "estimate"
    assert meter.estimate(counted) == round(meter.calibration.factor * counted)


@given(TOKENS, REPORTS)
def test_what_is_countable_fits_with_the_known_error(tokens: int, reports: list[tuple[int, int]]) -> None:
    meter = taught(reports)
    meter.forget()
    assert meter.upper(meter.countable(tokens)) <= tokens


@given(REPORTS, st.integers(1, 200_000), st.sampled_from([0.0, 0.01, 0.49, 2.51, 40.0]))
def test_an_absurd_report_leaves_everything_as_it_was(
    reports: list[tuple[int, int]], counted: int, ratio: float
) -> None:
    meter = taught([*reports, *[(1000, 1000)] * 5])
    before = (meter.calibration, meter.anchor, meter.error)
    assert meter.report(99, counted, int(ratio * counted) if ratio < 1 else int(ratio * counted) + 1) is None
    assert (meter.calibration, meter.anchor, meter.error) == before


@pytest.mark.parametrize("odd", [510, 2490])
def test_one_odd_report_teaches_nothing(odd: int) -> None:
    meter = taught([(1000, 1100)] * 8)
    before = meter.calibration
    assert meter.report(50, 2000, 2 * odd) is None
    assert meter.calibration == before
    assert meter.error > 0.5, "until the next report says which of them was odd"
    meter.forget()
    assert meter.report(51, 1000, 1100) is not None
    assert meter.calibration.factor == 1.1 and meter.error < 0.1


@pytest.mark.parametrize("odd", [510, 2490])
def test_what_two_reports_agree_on_is_believed_and_outlived_when_it_was_wrong(odd: int) -> None:
    meter = taught([(1000, 1100)] * 8)
    meter.report(50, 2000, 2 * odd)
    meter.forget()
    assert meter.report(51, 2000, 2 * odd) is not None
    assert meter.error > 0.5
    for number in range(40):
        meter.forget()
        meter.report(60 + number, 1000, 1100)
    assert meter.error < 0.05
    assert meter.calibration.factor == 1.1


def test_a_request_with_images_teaches_nothing_beyond_itself() -> None:
    meter = Meter()
    assert meter.report(1, 10_000, 6000, teaches=False) is None
    assert meter.calibration == Calibration()
    assert meter.estimate(10_100) == 6100


def test_the_error_is_ten_per_cent_until_five_reports_then_the_largest_seen() -> None:
    meter = Meter()
    for number in range(4):
        meter.report(number, 1000 * (number + 1), 1030 * (number + 1))
    assert meter.error == 0.10
    meter.report(5, 5000, 5300)
    assert 0.02 < meter.error < 0.10
    meter.report(6, 6000, 9000)
    assert meter.error > 0.10


def test_the_largest_miss_stays_as_long_as_no_other_window_was_estimated_better() -> None:
    meter = taught([(1000, 1000), (2000, 2000), (3000, 3000), (4000, 4000), (5000, 5700)])
    for number in range(20):
        meter.report(10 + number, 5000 + 100 * number, 5700 + 114 * number)
    assert meter.error == pytest.approx(700 / 5700)
    for number in range(20):
        meter.forget()
        meter.report(40 + number, 5000, 5700)
    assert meter.error < 0.02


def test_small_and_empty_reports_teach_nothing() -> None:
    meter = Meter()
    assert meter.report(1, 100, 180) is None
    assert meter.report(2, 1000, 0) is None
    assert meter.calibration == Calibration()


@pytest.mark.parametrize(
    ("reported", "limit", "low", "high"), [(15_000, None, 1.5, 1.5), (None, 12_000, 1.2, 1.4), (None, None, 1.2, 1.4)]
)
def test_an_overflow_raises_the_factor(reported: int | None, limit: int | None, low: float, high: float) -> None:
    meter = Meter()
    meter.overflowed(10_000, reported, limit)
    assert low <= meter.calibration.factor <= high


def test_a_fork_knows_what_its_parent_knows_and_each_learns_for_both() -> None:
    meter = taught([(1000, 1500)])
    fork = meter.fork()
    assert fork.estimate(2000) == meter.estimate(2000) == 3000 and fork.anchor == meter.anchor
    fork.report(2, 2000, 2000)
    assert meter.calibration == fork.calibration and meter.calibration.factor == 1.0
    assert meter.anchor != fork.anchor, "what was reported of its window is each lane's own"
    meter.forget()
    assert meter.estimate(2000) == 2000
