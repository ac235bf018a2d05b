"""The planner: forms grow with the budget, sticky sections never vanish, and every decision has its reason."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.tokens.counter import SimpleTokenCounter
from nexus_cli.core.section_rows import JOINT
from nexus_cli.sections.planner import (
    SectionChoice,
    SectionPlan,
    left_out_line,
    plan_sections,
    section_budget,
)
from nexus_cli.sections.section import DROP, Layer, Phase, Section


def words(text: str) -> int:
    """One token for each word."""
    return len(text.split())


def section(id: str, *sizes: int, order: int = Phase.CONSTRAINT, priority: float = 50, **more: Any) -> Section:
    """A section with forms of so many words."""
    return Section(id, order, tuple(" ".join(["w"] * size) for size in sizes), Layer.SYSTEM, priority, **more)


def forms(made: SectionPlan) -> dict[str, str]:
    return {one.section.id: one.name for one in made.chosen}


SIZES = st.lists(st.integers(1, 3000), min_size=1, max_size=4)


@st.composite
def drawn(draw: st.DrawFn) -> list[Section]:
    count = draw(st.integers(0, 9))
    made = []
    for number in range(count):
        sizes = draw(SIZES)
        if draw(st.booleans()):
            sizes = sorted(sizes, reverse=True)
        made.append(
            section(
                f"s{number}",
                *sizes,
                order=draw(st.integers(0, 7999)),
                priority=draw(st.sampled_from([0, 40, 50, 92, 100])),
                weight=draw(st.sampled_from([0.5, 1.0, 2.0])),
                sticky=draw(st.booleans()),
                least=draw(st.integers(0, len(sizes) - 1)),
            )
        )
    return made


def size(one: SectionChoice) -> tuple[int, int]:
    """How much of a section is sent."""
    return (0, 0) if one.form is None else (1, -one.form)


@given(drawn(), st.integers(1, 16_384), st.integers(0, 16_384))
def test_forms_grow_monotonically_with_the_budget(sections: list[Section], budget: int, more: int) -> None:
    small, large = (plan_sections(sections, tokens, words) for tokens in (budget, min(16_384, budget + more)))
    for one, two in zip(small.chosen, large.chosen, strict=True):
        assert one.section is two.section and size(one) <= size(two)


@given(drawn(), st.integers(1, 16_384))
def test_a_plan_keeps_to_its_budget_unless_it_had_to_be_raised_for_sticky_pointers(
    sections: list[Section], budget: int
) -> None:
    made = plan_sections(sections, budget, words)
    assert made.used <= max(budget, made.raised)
    assert (made.raised > 0) == (made.raised > budget)
    if made.raised:
        assert made.used == made.raised and f"raised from {budget:,}" in made.reasons[0]
        cheapest = sum(min(map(words, one.forms[one.least :])) + JOINT for one in sections if one.sticky)
        assert made.raised == cheapest


@given(drawn(), st.integers(0, 16_384), st.integers())
def test_sticky_sections_never_vanish_and_the_order_of_arguments_does_not_matter(
    sections: list[Section], budget: int, seed: int
) -> None:
    made = plan_sections(sections, budget, words)
    assert all(one.form is not None for one in made.chosen if one.section.sticky)
    assert all(one.form is None or one.form >= one.section.least for one in made.chosen)
    shuffled = list(sections)
    random.Random(seed).shuffle(shuffled)
    assert plan_sections(shuffled, budget, words) == made
    assert [one.section for one in made.chosen] == sorted(sections, key=lambda one: one.position)


@given(drawn(), st.integers(0, 16_384))
def test_what_is_not_whole_says_why(sections: list[Section], budget: int) -> None:
    made = plan_sections(sections, budget, words)
    assert len(made.reasons) == 1 + len(sections)
    for one in made.chosen:
        fullest = one.form == one.section.least
        dearer = one.form is not None and all(
            words(text) >= one.tokens for text in one.section.forms[one.section.least : one.form]
        )
        assert bool(one.why) or fullest or dearer
        assert one.name in one.reason


def test_levels_go_before_scores_and_scores_before_places() -> None:
    sections = [
        section("low", 30, 2, priority=10),
        section("high", 30, 2, priority=90),
        section("same.b", 30, 2, order=7, priority=50),
        section("same.a", 30, 2, order=8, priority=50),
    ]
    expected = [
        "dropped dropped dropped dropped",
        "dropped pointer dropped dropped",
        "dropped pointer pointer dropped",
        "dropped pointer pointer pointer",
        "pointer pointer pointer pointer",
        "pointer full pointer pointer",
        "pointer full full pointer",
        "pointer full full full",
        "full full full full",
    ]
    seen: list[str] = []
    for budget in range(130):
        found = forms(plan_sections(sections, budget, words))
        row = " ".join(found[name] for name in ("low", "high", "same.b", "same.a"))
        if not seen or seen[-1] != row:
            seen.append(row)
    assert seen == expected


def test_nothing_falls_off_a_cliff() -> None:
    long = section("long", 5000, 1000, 300, 10, sticky=True)
    seen = [forms(plan_sections([long], budget, words))["long"] for budget in (1, 50, 400, 1200, 6000)]
    assert seen == ["pointer", "pointer", "outline", "shortened", "full"]


def test_the_climb_ends_at_the_first_step_that_does_not_fit() -> None:
    big, small = section("big", 500, priority=90), section("small", 5, priority=10)
    made = plan_sections([big, small], 100, words)
    assert forms(made) == {"big": "dropped", "small": "dropped"}
    reasons = {one.section.id: one.reason for one in made.chosen}
    assert reasons == {
        "big": "dropped: the next form needs 501 tokens, 100 are left",
        "small": "dropped: big comes first and needs 501 tokens, 100 are left",
    }


def test_a_form_that_saves_nothing_is_passed_over() -> None:
    made = plan_sections([section("short", 5, 20, 9, sticky=True)], 100, words)
    assert forms(made) == {"short": "full"} and made.used == 6


def test_the_fullest_form_that_may_be_sent_is_the_top_of_the_ladder() -> None:
    [capped] = plan_sections([section("i", 5000, 900, 10, sticky=True, least=1)], 16_384, words).chosen
    assert (capped.name, capped.is_capped, capped.reason) == (
        "shortened",
        True,
        "shortened (score 50, 900 tokens): 5,000 tokens are above its cap",
    )
    [short] = plan_sections([section("i", 5000, 900, 10, sticky=True, least=1)], 500, words).chosen
    assert (short.name, short.is_capped) == ("pointer", False)


def test_a_multiplier_of_zero_switches_a_section_off_and_others_change_its_score() -> None:
    sections = [section("a", 60, 1, priority=50), section("b", 60, 1, priority=40), section("c", 9, sticky=True)]
    factors = {"a": 1.0, "b": 2.0, "c": 0.0}
    made = plan_sections(sections, 70, words, lambda one: factors[one.id])
    assert forms(made) == {"a": "pointer", "b": "full", "c": "dropped"}
    assert made.reasons[1:] == (
        "a: pointer (score 50, 1 tokens): the next form needs 59 tokens, 7 are left",
        "b: full (score 80, 60 tokens)",
        "c: off in this recipe",
    )
    off = made.chosen[2]
    assert not off.is_short and off.to_json(cached=True)["off"] and off.to_json(cached=True)["form"] == "dropped"


def test_the_room_of_a_drops_id_is_counted_before_it_is_known() -> None:
    [one] = plan_sections([Section("a", 0, ("w " * 50, f"{DROP}"), Layer.SYSTEM, 50, sticky=True)], 10, len).chosen
    assert one.tokens == len("d9999")


@pytest.mark.parametrize(
    ("available", "lowered", "tokens"),
    [(184_000, None, 16_384), (5_000, None, 1_250), (184_000, 500, 500), (5_000, 9_000, 1_250), (0, None, 0)],
)
def test_the_section_budget_is_a_quarter_at_most_sixteen_thousand_and_a_recipe_only_lowers_it(
    available: int, lowered: int | None, tokens: int
) -> None:
    assert section_budget(available, lowered) == tokens


def test_what_is_left_out_is_named_in_one_line_as_far_as_there_is_room() -> None:
    count = SimpleTokenCounter().count
    two = {"workspace": "d3", "preferences": "d4"}
    assert left_out_line(two, 100, count) == "[nexus: left out for space: workspace (d3), preferences (d4)]"
    assert left_out_line(two, 13, count) == "[nexus: left out for space: workspace (d3), 1 more]"
    assert left_out_line(two, 9, count) == "[nexus: 2 sections left out]"
    assert left_out_line(two, 1, count) == left_out_line({}, 100, count) == ""
    many = left_out_line({f"s{number}": f"d{number}" for number in range(500)}, 10_000, count)
    assert many.endswith("480 more]") and many.count("(d") == 20
