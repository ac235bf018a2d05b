"""Parts of a whole: they come to it exactly, and none is further from its share than one."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.apportion import apportion


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), max_size=40))
def test_the_parts_come_to_the_total_and_each_is_its_share_rounded(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert len(parts) == len(weights)
    assert sum(parts) == (total if sum(weights) else 0)
    for part, weight in zip(parts, weights, strict=True):
        assert part >= 0 and abs(part - Fraction(total * weight, sum(weights) or 1)) < 1
        assert weight or not part


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40))
def test_where_nothing_is_scaled_nothing_changes(weights: list[int]) -> None:
    assert apportion(sum(weights), weights) == weights
