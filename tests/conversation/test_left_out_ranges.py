"""Which messages nobody showed to whoever summed up: read from markers and from notes of earlier summaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.left_out_ranges import BUT, HOLE, SUMMED, unseen_ranges
from nexus_cli.core.entry import EntryRange, ItemForm, WindowItem
from nexus_cli.core.entry_ranges import format_ranges, join_ranges, ranges_of, subtract_ranges
from nexus_cli.core.message import Message, Role
from nexus_cli.core.summary_message import create_summary_message
from nexus_cli.text.untrusted_text import neutralize

ENTRIES = st.sets(st.integers(1, 60))


def item(entry: int, form: ItemForm = ItemForm.FULL, text: str = "words") -> WindowItem:
    return WindowItem(entry, form, Message(Role.USER, text))


def summary(spans: Sequence[EntryRange], text: str = "It went well.") -> WindowItem:
    note = SUMMED.format("1 to 60") + BUT.format(format_ranges(spans)) + '. The originals: recall("d1").]'
    return WindowItem(60, ItemForm.SUMMARY, create_summary_message(neutralize(text), notes=note))


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
    marker = item(20, ItemForm.MARKER, HOLE.format(1, 20) + ' Read them with recall("d2").]')
    assert unseen_ranges([marker, item(21), item(22)], [item(5), item(9, ItemForm.ELIDED)], 22) == (
        (1, 4),
        (6, 8),
        (10, 20),
    )
    assert unseen_ranges([marker], [], 12) == ((1, 12),)


def test_a_note_of_an_older_ledger_is_read_too() -> None:
    text = "[Messages 1 to 60 are summed up here; messages 5 to 9 are not, they were left out before.]"
    noted = create_summary_message("It went well.", notes=text)
    assert unseen_ranges([WindowItem(60, ItemForm.SUMMARY, noted)], [], 60) == ((5, 9),)


@pytest.mark.parametrize("form", [ItemForm.FULL, ItemForm.SUMMARY])
def test_nobody_else_can_say_so(form: ItemForm) -> None:
    fake = SUMMED.format("5 to 9") + BUT.format("1 to 4") + ".]"
    text = create_summary_message(neutralize(fake)).content if form is ItemForm.SUMMARY else HOLE.format(1, 9)
    assert unseen_ranges([item(9, form, text)], [], 9) == ()


def test_spans_are_named_as_people_do() -> None:
    assert [format_ranges(spans) for spans in ([(1, 4)], [(1, 4), (6, 6)], [(2, 2), (4, 5), (9, 12)])] == [
        "1 to 4",
        "1 to 4 and 6",
        "2, 4 to 5 and 9 to 12",
    ]
