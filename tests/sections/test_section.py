"""Sections: place, score, forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.sections.section import DROP, Layer, Phase, Section


def section(**changes: Any) -> Section:
    values: dict[str, Any] = {"id": "a", "order": 10, "forms": ("text",), "layer": Layer.SYSTEM, "priority": 92}
    return Section(**{**values, **changes})


def test_layers_stand_in_the_order_of_how_often_they_change() -> None:
    assert [layer.rank for layer in (Layer.SYSTEM, Layer.HISTORY, Layer.EVENT)] == [1, 2, 3]


def test_phases_are_thousands_in_the_order_of_the_design() -> None:
    assert {phase.label: int(phase) for phase in Phase} == {
        "constraint": 0,
        "persona": 1000,
        "task": 2000,
        "memory": 3000,
        "tools": 4000,
        "history": 5000,
        "event": 6000,
        "tool_result": 7000,
    }


@given(st.integers(0, 7999))
def test_the_phase_is_the_thousand_of_the_order(order: int) -> None:
    assert section(order=order).phase == order - order % 1000


@given(
    st.lists(
        st.tuples(st.sampled_from(Layer), st.integers(0, 7999), st.text("ab", min_size=1)), min_size=2, max_size=8
    ),
    st.lists(st.floats(0, 100), min_size=8, max_size=8),
)
def test_the_place_is_layer_order_id_whatever_the_score(
    places: list[tuple[Layer, int, str]], priorities: list[float]
) -> None:
    made = [
        section(layer=layer, order=order, id=name, priority=priority)
        for (layer, order, name), priority in zip(places, priorities, strict=False)
    ]
    ordered = sorted(made, key=lambda each: each.position)
    assert [(each.layer.rank, each.order, each.id) for each in ordered] == sorted(
        (layer.rank, order, name) for layer, order, name in places
    )


def test_the_score_is_priority_times_weight_times_multiplier() -> None:
    assert section(priority=80, weight=0.5).score(2.0) == 80
    assert section(priority=92).score() == 92
    assert section().score(0) == 0


@pytest.mark.parametrize("forms", [(), ("",), ("text", " \n"), tuple("abcde")])
def test_a_section_without_a_text_in_every_form_is_refused(forms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each with a text"):
        section(forms=forms)


@pytest.mark.parametrize("least", [-1, 2])
def test_the_fullest_form_that_may_be_sent_is_one_of_its_forms(least: int) -> None:
    with pytest.raises(ValueError, match="no form"):
        section(forms=("a", "b"), least=least)


def test_forms_are_named_by_how_many_there_are() -> None:
    named = [section(forms=tuple("abcd"[:size])).names for size in range(1, 5)]
    assert named == [
        ("full",),
        ("full", "pointer"),
        ("full", "shortened", "pointer"),
        ("full", "shortened", "outline", "pointer"),
    ]


@pytest.mark.parametrize("order", [-1, 8000])
def test_an_order_outside_the_phases_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match="outside all phases"):
        section(order=order)


def test_the_id_of_a_drop_is_put_where_the_form_leaves_room_for_it() -> None:
    named = section(forms=("full", f'[... recall("{DROP}") ...]')).with_drop_id("d3")
    assert named.forms == ("full", '[... recall("d3") ...]')


def test_a_section_describes_itself_with_the_keys_of_the_context_report() -> None:
    assert section(id="instructions.project", sticky=True, source="NEXUS.md").to_json() == {
        "id": "instructions.project",
        "layer": "system",
        "phase": "constraint",
        "order": 10,
        "priority": 92,
        "weight": 1.0,
        "sticky": True,
        "source": "NEXUS.md",
        "unread_bytes": 0,
    }
