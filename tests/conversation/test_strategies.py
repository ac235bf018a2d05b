"""The truncation strategies, and what each of them promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.strategies import STRATEGIES, Strategy

each = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
CHOICE = st.lists(st.integers(0, 50), min_size=1, max_size=20).flatmap(
    lambda sizes: st.tuples(
        st.just(sizes), st.integers(-10, 400), st.frozensets(st.integers(0, len(sizes) - 1)).map(set)
    )
)


@each
@given(CHOICE)
def test_what_is_required_stays_and_nothing_beyond_it_exceeds_the_budget(
    strategy: Strategy, choice: tuple[list[int], int, set[int]]
) -> None:
    sizes, budget, required = choice
    chosen = strategy(sizes, budget, frozenset(required))
    assert required <= chosen <= set(range(len(sizes)))
    if chosen != required:
        assert sum(sizes[index] for index in chosen) <= budget


@each
@given(CHOICE)
def test_everything_stays_where_everything_fits(strategy: Strategy, choice: tuple[list[int], int, set[int]]) -> None:
    sizes, _, required = choice
    assert strategy(sizes, sum(sizes), required) == set(range(len(sizes)))


@each
def test_nothing_can_be_chosen_of_nothing(strategy: Strategy) -> None:
    assert strategy([], 10, set()) == set()


@given(CHOICE)
def test_oldest_first_leaves_out_only_what_is_older_than_all_it_added(choice: tuple[list[int], int, set[int]]) -> None:
    sizes, budget, required = choice
    chosen = STRATEGIES["oldest_first"](sizes, budget, required)
    added, missing = chosen - required, set(range(len(sizes))) - chosen
    assert not added or not missing or max(missing) < min(added)


@given(CHOICE)
def test_middle_out_keeps_the_first_where_it_fits(choice: tuple[list[int], int, set[int]]) -> None:
    sizes, budget, required = choice
    fits = sum(sizes[index] for index in required | {0}) <= budget
    assert (0 in STRATEGIES["middle_out"](sizes, budget, required)) or not fits
