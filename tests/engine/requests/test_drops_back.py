"""Which drops are left out no more, against the same said with sets of messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.drop_list import returned_drops, window_drops
from nexus_cli.core.entry import Cause, Drop, EntryRange, ItemForm, Memo, WindowItem
from nexus_cli.core.memo_kinds import UNDONE_COMPACTION
from nexus_cli.core.message import Message, Role

LAST = 14
SPANS = st.none() | st.tuples(st.integers(1, LAST), st.integers(0, 6)).map(lambda one: (one[0], sum(one)))
FORMS = st.sampled_from([None, ItemForm.FULL, ItemForm.FULL, ItemForm.ELIDED])


def drops_of(spans: Sequence[EntryRange | None]) -> list[Drop]:
    return [Drop(f"d{n}", "", 1, Cause.COMPACTION, "", span) for n, span in enumerate(spans, 1)]


def item(entry: int, form: ItemForm) -> WindowItem:
    return WindowItem(entry, form, Message(Role.USER, "words"))


def undone(drops: Sequence[Drop]) -> Memo:
    return Memo(UNDONE_COMPACTION, "", 0, {"drops": [drop.id for drop in drops]})


@given(st.lists(SPANS, max_size=5), st.lists(FORMS, max_size=LAST + 6), st.sets(st.integers(0, 4)))
def test_each_is_back_when_its_messages_are(
    spans: list[EntryRange | None], forms: list[ItemForm | None], taken_back: set[int]
) -> None:
    drops = drops_of(spans)
    items = [item(entry, form) for entry, form in enumerate(forms, 1) if form]
    there = {one.entry for one in items}
    whole = {one.entry for one in items if one.form is ItemForm.FULL}
    expected, gone = set[str](), set[int]()
    for number, drop in reversed(list(enumerate(drops))):
        first, last = drop.entries or (1, 0)
        held = set(range(first, last + 1))
        undone_now = number in taken_back and (not held or (bool(held & there) and not (held - there) & gone))
        if undone_now or (held and held <= whole):
            expected.add(drop.id)
        else:
            gone |= held
    memos = [undone([drops[n]]) for n in taken_back if n < len(drops)]
    assert returned_drops(drops, items, lambda kind: memos if kind == UNDONE_COMPACTION else ()) == expected


def test_the_sections_of_an_epoch_of_before_they_had_hashes_bring_nothing_back() -> None:
    rows = [{"id": "contract", "form": "full", "tokens": 9}, {"id": "notes", "form": "short", "drop": "d1"}]
    older = json.dumps(rows)
    drops = drops_of([None, (1, 2)])
    assert returned_drops(drops, [], lambda kind: (), older) == set()
    assert [one["tokens"] for one in window_drops("s", drops, (), lambda kind: (), older)["drops"]] == [1, 1]
