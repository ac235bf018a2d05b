"""Each cut of a window makes drops of what left it then, and the marker leads to all that is out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from context.conversation import Letters
from conversation.cut import truncate
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.conversation.left_out_ranges import HOLE, hole_ranges
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.conversation.truncation import Hole
from nexus_cli.conversation.window_truncation import MOST, hole_line, links_of_hole
from nexus_cli.core.entry import Drop, ItemForm, Kind, WindowItem
from nexus_cli.core.message import Message, Role

WAY = re.compile(r'recall\("(d\d+)"\)')
WINDOW = 4000


def item(entry: int, form: ItemForm = ItemForm.FULL, text: str = "x", tokens: int = 10) -> WindowItem:
    return WindowItem(entry, form, Message(Role.USER, text), tokens=tokens)


def entries(drop: Drop) -> set[int]:
    first, last = drop.entries or (1, 0)
    return set(range(first, last + 1))


def cuts(sizes: list[int], every: int) -> Iterator[tuple[ContextManager, list[Drop], dict[int, int]]]:
    """A conversation that is cut down after every so many messages: the drops of each cut, and what stood before it."""
    config = ContextConfig(WINDOW, 0)
    context = ContextManager(config, MemoryLog(), token_counter=Letters(), low_water=0.5, markers=True)
    lane = context.conversation
    for number, size in enumerate(sizes, 1):
        person = number % 2 == 1
        message = Message(Role.USER if person else Role.ASSISTANT, "x" * size)
        lane.append(Kind.USER if person else Kind.ASSISTANT, message, "person" if person else "agent")
        if number % every == 0:
            before = {one.entry: one.tokens for one in lane.items if one.form is ItemForm.FULL}
            yield context, truncate(context.truncator, lane, WINDOW), before


@given(st.lists(st.integers(1, 900), min_size=6, max_size=90), st.integers(2, 7))
def test_a_drop_holds_what_left_the_window_and_its_marker_leads_to_all_that_is_out(
    sizes: list[int], every: int
) -> None:
    known: dict[str, Drop] = {}
    for context, drops, before in cuts(sizes, every):
        stays = {one.entry for one in context.conversation.items if one.form in (ItemForm.FULL, ItemForm.ELIDED)}
        went = {entry: tokens for entry, tokens in before.items() if entry not in stays}
        spans = [drop for drop in drops if drop.entries]
        assert sum(drop.tokens for drop in spans) == sum(went.values())
        for drop in spans:
            if "read with" not in drop.what:
                assert drop.tokens == sum(went.pop(entry) for entry in entries(drop)), "text and tokens agree"
            else:
                went = {entry: tokens for entry, tokens in went.items() if entry not in entries(drop)}
        assert not went, "something left the window without a drop"
        known |= {drop.id: drop for drop in drops}
        for marker in (one for one in context.conversation.items if one.form is ItemForm.MARKER):
            ((first, last),) = hole_ranges([marker])
            ways = WAY.findall(marker.message.content)
            assert 1 <= len(ways) <= MOST
            assert set(range(first, last + 1)) <= set().union(*(entries(known[name]) for name in ways))


def test_the_second_cut_names_what_went_with_it_and_the_way_to_what_had_gone_before() -> None:
    marker = item(18, ItemForm.MARKER, hole_line(1, 18, ["d5"]), 60)
    hole = Hole(0, 1, 42, 240, tuple(item(entry) for entry in range(19, 43)), (marker,))
    ways = links_of_hole(hole)
    assert [(part.what, part.tokens, part.entries) for part in ways.new] == [
        ("messages 19 to 42 of the conversation", 240, (19, 42))
    ]
    assert hole_line(1, 42, [*ways.known, "d9"]) == HOLE.format(1, 42) + ' Read them with recall("d5"), recall("d9").]'


def test_messages_on_both_sides_of_what_had_gone_are_two_drops() -> None:
    hole = Hole(
        0, 1, 12, 40, (item(1), item(10), item(11), item(12)), (item(9, ItemForm.MARKER, hole_line(2, 9, ["d1"])),)
    )
    assert [(part.what, part.tokens) for part in links_of_hole(hole).new] == [
        ("message 1 of the conversation", 10),
        ("messages 10 to 12 of the conversation", 30),
    ]


def test_where_the_ways_become_too_many_one_drop_holds_all_and_says_what_of_it_is_new() -> None:
    marker = item(18, ItemForm.MARKER, hole_line(1, 18, [f"d{number}" for number in range(1, MOST + 1)]))
    ways = links_of_hole(Hole(0, 1, 20, 20, (item(19), item(20)), (marker,)))
    assert ways.known == () and [(part.what, part.tokens, part.entries) for part in ways.new] == [
        ("messages 19 to 20 of the conversation; read with 1 to 18, left out before", 20, (1, 20))
    ]


def test_a_hole_without_a_known_way_and_a_summary_that_goes_are_held_by_one_drop() -> None:
    bare = item(18, ItemForm.MARKER, hole_line(1, 18, ()))
    hole = Hole(0, 1, 19, 10, (item(19),), (bare,))
    assert [part.entries for part in links_of_hole(hole).new] == [(1, 19)]
    assert [part.entries for part in links_of_hole(hole, recalls=False).new] == [(19, 19)], "nobody has to be led there"
    summed = Hole(0, 1, 53, 30, (item(50, ItemForm.SUMMARY), item(52), item(53)))
    (part,) = links_of_hole(summed).new
    assert part.what == "messages 52 to 53 of the conversation; read with 1 to 51, summarized or left out before"
    (part,) = links_of_hole(Hole(0, 1, 50, 10, (item(50, ItemForm.SUMMARY),))).new
    assert (part.what, part.entries) == ("the summary of messages 1 to 50", (1, 50))
