"""Learned multipliers: bounded, slow, independent of order; a section never left out keeps its own."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.sections.learned import LEAST, MOST, learned_multiplier

EVENTS = st.lists(st.booleans(), max_size=500)
"""True: the section was recalled after it had been left out."""


def learned(events: list[bool]) -> float:
    return learned_multiplier(len(events), sum(events))


def test_without_an_event_it_is_one() -> None:
    assert learned([]) == 1.0


@given(EVENTS)
def test_it_stays_within_half_and_twice(events: list[bool]) -> None:
    assert LEAST <= learned(events) <= MOST


@given(EVENTS, st.booleans())
def test_one_event_changes_it_a_little_and_the_right_way(events: list[bool], wanted: bool) -> None:
    before, after = learned(events), learned([*events, wanted])
    assert abs(after / before - 1) < 0.04
    assert after >= before if wanted else after <= before


@given(EVENTS, st.randoms(use_true_random=False))
def test_it_is_a_mean_that_does_not_depend_on_the_order(events: list[bool], chance: random.Random) -> None:
    mixed = list(events)
    chance.shuffle(mixed)
    assert learned(mixed) == learned(events)


def test_many_events_of_one_kind_come_near_the_bounds() -> None:
    assert learned([True] * 400) > 1.9 and learned([False] * 400) < 0.53
