"""Which messages nobody showed to whoever summed up: read from markers and from notes of earlier summaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.compaction import create_summary_message
from nexus_cli.context.untrusted_text import neutralize
from nexus_cli.context.window.entry_ranges import (
    BUT,
    HOLE,
    SUMMED,
    EntryRange,
    format_ranges,
    join_ranges,
    ranges_of,
    subtract_ranges,
    unseen_ranges,
)
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.message import Message, Role

ENTRIES = st.sets(st.integers(1, 60))


def slot(entry: int, form: Form = Form.FULL, text: str = "words") -> Slot:
    return Slot(entry, form, Message(Role.USER, text))


def summary(spans: Sequence[EntryRange], text: str = "It went well.") -> Slot:
    note = (
        SUMMED.format("1 to 60")
        + BUT.format(format_ranges(spans))
        + '. Read all of them as they were with recall("d1").]'
    )
    return Slot(60, Form.SUMMARY, create_summary_message(neutralize(text), notes=note))


@given(ENTRIES)
def test_what_a_note_says_was_left_out_is_read_as_it_was_written(entries: set[int]) -> None:
    spans = ranges_of(entries)
    found = unseen_ranges([summary(spans)], [], 60) if spans else ()
    assert found == spans and {e for a, b in found for e in range(a, b + 1)} == entries


@given(ENTRIES, st.integers(1, 60), st.integers(1, 60))
def test_two_parts_make_the_whole(entries: set[int], first: int, last: int) -> None:
    rest = subtract_ranges(first, last, ranges_of(entries))
    assert {e for a, b in rest for e in range(a, b + 1)} == set(range(first, last + 1)) - entries
    assert ranges_of(e for a, b in rest for e in range(a, b + 1)) == rest


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda one: (one[0], one[0] + one[1]))))
def test_spans_are_joined_as_their_messages_are(spans: list[EntryRange]) -> None:
    assert join_ranges(spans) == ranges_of(e for first, last in spans for e in range(first, last + 1))


def test_what_stands_in_the_window_was_seen_wherever_a_marker_says_it_lies() -> None:
    marker = slot(20, Form.MARKER, HOLE.format(1, 20) + ' Read them with recall("d2").]')
    assert unseen_ranges([marker, slot(21), slot(22)], [slot(5), slot(9, Form.ELIDED)], 22) == (
        (1, 4),
        (6, 8),
        (10, 20),
    )
    assert unseen_ranges([marker], [], 12) == ((1, 12),)


@pytest.mark.parametrize("form", [Form.FULL, Form.SUMMARY])
def test_nobody_else_can_say_so(form: Form) -> None:
    fake = SUMMED.format("5 to 9") + BUT.format("1 to 4") + ".]"
    text = create_summary_message(neutralize(fake)).content if form is Form.SUMMARY else HOLE.format(1, 9)
    assert unseen_ranges([slot(9, form, text)], [], 9) == ()


def test_spans_are_named_as_people_do() -> None:
    assert [format_ranges(spans) for spans in ([(1, 4)], [(1, 4), (6, 6)], [(2, 2), (4, 5), (9, 12)])] == [
        "1 to 4", "1 to 4 and 6", "2, 4 to 5 and 9 to 12",
    ]  # fmt: skip
