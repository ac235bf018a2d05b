"""Law 6: what a compaction keeps, within which shares, and what yields first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from context.conversation import MARK, Letters
from hypothesis import assume, given
from hypothesis import strategies as st

from nexus_cli.conversation.compaction.compaction_plan import (
    NOTE_TOKENS,
    PINS_SHARE,
    SUMMARY_FLOOR,
    WORTH_SHARE,
    CompactionPlan,
    Room,
    own_words_room,
    plan,
)
from nexus_cli.conversation.compaction.own_words import OwnWords, Quote
from nexus_cli.conversation.compaction.summary_head import Additions, head
from nexus_cli.conversation.groups import Group, flatten
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.entry import sum_tokens as group_tokens
from nexus_cli.core.message import Message, Role, ToolCall

COUNT = Letters().count
AVAILABLE = 20_000


def measure(message: Message, preamble: str) -> int:
    return Letters().count_messages([message]) + len(preamble)


def item(entry: int, message: Message, form: ItemForm = ItemForm.FULL) -> WindowItem:
    return WindowItem(entry, form, message, tokens=measure(message, ""))


def said(*turns: Sequence[int]) -> list[Group]:
    """Turns: the length of the person's words, then one call with a result of each length, then a reply."""
    groups: list[Group] = []
    entry = 0
    for number, (words, *steps) in enumerate(turns):
        entry += 1
        groups.append((item(entry, Message(Role.USER, f"{number}" * words)),))
        for length in steps:
            call = ToolCall(f"c{entry}", "f")
            groups.append(
                (
                    item(entry + 1, Message(Role.ASSISTANT, "", (call,))),
                    item(entry + 2, Message(Role.TOOL, "r" * length, tool_call_id=call.id)),
                )
            )
            entry += 2
        entry += 1
        groups.append((item(entry, Message(Role.ASSISTANT, "done")),))
    return groups


def total(chosen: CompactionPlan) -> int:
    return sum(s.tokens for s in chosen.kept)


def room(target: int) -> int:
    return target - max(SUMMARY_FLOOR, min(int(AVAILABLE * 0.08), target // 2)) - NOTE_TOKENS


def planned(groups: Sequence[Group], target: int = 7000, run: int = 0) -> CompactionPlan:
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT, run=run)
    assert chosen is not None
    return chosen


TURNS = st.lists(st.lists(st.integers(1, 1500), min_size=1, max_size=5), min_size=2, max_size=10)


@given(TURNS, st.integers(2000, 9000))
def test_every_group_either_goes_or_stays_whole_and_in_order(turns: list[list[int]], target: int) -> None:
    groups = said(*turns)
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT)
    assume(chosen is not None)
    assert chosen is not None
    kept = [group for group in groups if group[0] in chosen.kept]
    assert flatten(kept) == list(chosen.kept)
    assert [group for group in groups if group not in kept] == list(chosen.gone)
    assert groups[-1] in kept
    newest_words = [group for group in groups if group[0].message.role is Role.USER][-1]
    assert newest_words in kept, "the current request"


@given(TURNS, st.integers(2000, 9000))
def test_every_share_is_respected(turns: list[list[int]], target: int) -> None:
    groups = said(*turns)
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT)
    assume(chosen is not None)
    assert chosen is not None
    assert SUMMARY_FLOOR <= chosen.summary_cap <= max(SUMMARY_FLOOR, int(AVAILABLE * 0.08))
    spoken = head(chosen, "s", "d1", clock=lambda: datetime(2026, 1, 1), measure=measure)[0].message.content
    plain = head(
        CompactionPlan(chosen.gone, chosen.kept, (), chosen.summary_cap, 0, 0),
        "s",
        "d1",
        clock=lambda: datetime(2026, 1, 1),
        measure=measure,
    )[0].message.content
    assert len(spoken) - len(plain) <= own_words_room(AVAILABLE) + 60, "own words, beside their heading"
    least = measure(chosen.kept[0].message, "") + sum(map(group_tokens, groups[-1:]))
    if total(chosen) > least:
        assert total(chosen) + sum(map(len, chosen.own_words)) <= max(room(target), least)


def test_older_turns_yield_before_the_persons_own_words() -> None:
    turn = [500, 1500]
    groups = said(turn, turn, turn, turn, turn, [10, 10])
    ample, tight = planned(groups, 9000), planned(groups, 4360)
    users = [s for s in ample.kept if s.message.role is Role.USER]
    assert len(users) == 3, "the last three turns"
    assert [s.message.role for s in tight.kept].count(Role.USER) == 1
    assert len(tight.own_words) >= 2, "the room went to their words, not to whole turns"
    assert sum(map(len, tight.own_words)) <= own_words_room(AVAILABLE)


def test_own_words_yield_oldest_first_and_before_the_summary() -> None:
    groups = said([300, 800], [300, 800], [300, 800], [20, 1200])
    chosen = planned(groups, 1800)
    assert chosen.own_words
    assert chosen.own_words[-1] == "2" * 300, "the newest of them is whole"
    assert "0" * 300 not in chosen.own_words
    assert chosen.summary_cap == 900
    assert planned(groups, 500).own_words == ()


def test_the_summary_yields_last_down_to_half_its_share() -> None:
    def cap(newest: int) -> int:
        groups = said([300, 4000], [20])
        return planned([*groups[:-1], (item(9, Message(Role.ASSISTANT, "x" * newest)),)], 4000).summary_cap

    assert cap(2000) == 1600, "beside what is kept there is room for all of it"
    assert 1200 < cap(2500) < 1400
    assert cap(3900) == 800, "no further than to half"


@given(TURNS, st.integers(1000, 9000), st.integers(1, 12_000))
def test_a_summary_within_its_cap_always_frees_what_a_compaction_is_worth(
    turns: list[list[int]], target: int, request: int
) -> None:
    groups = said(*turns, [request, 500])
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT)
    assume(chosen is not None)
    assert chosen is not None
    made = head(chosen, "s" * chosen.summary_cap, "d1", clock=lambda: datetime(2026, 1, 1), measure=measure)
    notes = 550 - NOTE_TOKENS  # in letters they take more than in tokens
    assert sum(s.tokens for s in made) <= sum(map(group_tokens, groups)) - AVAILABLE * WORTH_SHARE + notes


def test_the_summary_has_its_half_beside_a_large_request() -> None:
    groups = said([50, *[900] * 8], [9000, *[900] * 3])
    chosen = planned(groups)
    assert chosen.summary_cap >= AVAILABLE * 0.08 / 2
    assert "1" * 9000 in [s.message.content for s in chosen.kept]


def test_there_is_no_plan_where_too_little_would_be_freed() -> None:
    groups = said([50, 300], [15_000, 900])
    assert plan(groups, available=AVAILABLE, target=7000, count=COUNT) is None


def summed_up(*earlier: tuple[int, str]) -> CompactionPlan:
    """The plan of a window that begins with a summary of entries 1 to 40, in which the person said this."""
    summary = (item(40, Message(Role.USER, "[CONTEXT SUMMARY]"), ItemForm.SUMMARY),)
    turns = [tuple(replace(s, entry=s.entry + 40) for s in group) for group in said([50, *[900] * 8], [5, *[900] * 30])]
    chosen = plan([summary, *turns], available=AVAILABLE, target=7000, count=COUNT, earlier=iter(earlier))
    assert chosen is not None
    return chosen


def test_the_persons_own_words_outlive_the_next_compaction() -> None:
    chosen = summed_up((30, "and no tabs"), (1, "RULE: never touch legacy.py"))
    assert chosen.own_words == ("RULE: never touch legacy.py", "and no tabs", "0" * 50)


def test_of_the_words_behind_a_summary_the_oldest_yield_first_and_are_not_even_read() -> None:
    asked: list[int] = []

    def earlier() -> Iterator[tuple[int, str]]:
        for entry in reversed(range(1, 40)):
            asked.append(entry)
            yield entry, f"{entry:02}" * 100

    summary = (item(40, Message(Role.USER, "[CONTEXT SUMMARY]"), ItemForm.SUMMARY),)
    turns = [tuple(replace(s, entry=s.entry + 40) for s in group) for group in said([50, *[900] * 8], [5, *[900] * 30])]
    chosen = plan([summary, *turns], available=AVAILABLE, target=7000, count=COUNT, earlier=earlier())
    assert chosen is not None
    assert chosen.own_words[-2:] == ("39" * 100, "0" * 50)
    assert sum(map(len, chosen.own_words)) <= own_words_room(AVAILABLE)
    assert len(asked) < 12


def test_a_long_turn_is_cut_between_groups_and_keeps_its_request() -> None:
    groups = said([50, 10], [100, *[300] * 60])
    chosen = planned(groups)
    assert chosen.kept[0].message.content == "1" * 100
    assert chosen.kept[1].message.role is Role.ASSISTANT
    newest = sum(s.tokens for s in chosen.kept[1:])
    assert AVAILABLE * 0.2 < newest <= AVAILABLE * 0.25


def far_below(groups: Sequence[Group], target: int = 2000) -> CompactionPlan:
    """The plan towards a target that system text and tools leave next to nothing of."""
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT, beyond=Room(1000, 1000, 16_000, True))
    assert chosen is not None
    return chosen


@pytest.mark.parametrize("run", [[100, *[300] * 45], [100]], ids=["in the midst of a turn", "at its beginning"])
def test_the_newest_groups_have_their_share_however_little_the_target_leaves(run: list[int]) -> None:
    groups = said([50, *[300] * 45], run)[:-1]
    chosen = far_below(groups)
    request = next(s for s in chosen.kept if s.message.content == "1" * 100)
    assert AVAILABLE * 0.2 < total(chosen) - request.tokens <= AVAILABLE * 0.25


def test_before_a_bare_request_the_answer_to_the_last_one_stays_even_above_the_share() -> None:
    groups = said([50, *[900] * 12], [100])[:-1]
    groups[-2] = (item(groups[-2][0].entry, Message(Role.ASSISTANT, "x" * 5200)),)
    assert [len(s.message.content) for s in far_below(groups).kept] == [5200, 100]


@given(TURNS, st.integers(-3000, 9000), st.booleans())
def test_the_newest_groups_leave_at_least_half_of_the_way_to_the_target(
    turns: list[list[int]], target: int, bare: bool
) -> None:
    groups = said(*turns)[: -1 if bare else None]
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT, beyond=Room(1000, 1000, 16_000, True))
    assume(chosen is not None)
    assert chosen is not None
    at_least = [group for group in groups if group[0].message.content == str(len(turns) - 1) * turns[-1][0]]
    at_least += [group for group in groups[-1:] if group not in at_least]
    half = target + max(0, chosen.before - target) // 2
    assert total(chosen) <= max(sum(map(group_tokens, at_least)), half - chosen.summary_cap - NOTE_TOKENS)


def test_steering_belongs_to_the_current_request() -> None:
    groups = said([50, 10], [100, *[300] * 30], [7, *[300] * 30])
    first = next(g[0].entry for g in groups if g[0].message.content == "1" * 100)
    chosen = planned(groups, run=first)
    assert [s.message.content for s in chosen.kept if s.message.role is Role.USER] == ["1" * 100, "2" * 7]


def test_one_newest_group_stays_however_large_it_is() -> None:
    groups = said([50, 2000], [100, 300])[:-1]
    groups.append((item(99, Message(Role.ASSISTANT, "x" * 19_000)),))
    assert planned(groups).kept[-1].message.content == "x" * 19_000


@pytest.mark.parametrize("groups", [[], said([5])[:1], said([5])])
def test_there_is_no_plan_where_nothing_would_go(groups: list[Group]) -> None:
    assert plan(groups, available=AVAILABLE, target=7000, count=COUNT) is None


def test_a_marker_alone_is_not_worth_a_summary() -> None:
    marker = (item(3, Message(Role.USER, "[left out]"), ItemForm.MARKER),)
    groups = [marker, *said([5])]
    assert plan(groups, available=AVAILABLE, target=7000, count=COUNT) is None


def test_the_head_is_one_summary_that_names_its_drop_and_quotes_the_person() -> None:
    code = (item(0, Message(Role.USER, "fix List<List<int>>\n  keep\x0cthis >\n")),)
    groups = [code, *said([5, *[900] * 30])]
    chosen = planned(groups)
    items = head(chosen, "all is well", "d7", clock=lambda: datetime(2026, 1, 13, 14, 30), measure=measure)
    text = items[0].message.content
    assert items[0].form is ItemForm.SUMMARY
    assert items[0].message.role is Role.USER
    assert items[0].tokens == measure(items[0].message, "")
    assert items[1:] == chosen.kept
    assert text.startswith("[CONTEXT SUMMARY")
    assert text.endswith("---\nall is well")
    assert 'recall("d7")' in text
    assert "> fix List<List<int>>\n>   keep\x0cthis >\n> " in text, "word for word"


def test_an_overlong_word_of_the_person_is_quoted_in_part() -> None:
    chosen = planned(said([5000, 10], [5, *[900] * 30]))
    assert len(chosen.own_words) == 1
    assert MARK in chosen.own_words[0]
    assert len(chosen.own_words[0]) <= own_words_room(AVAILABLE)


def test_the_entries_that_go_are_named_from_first_to_last() -> None:
    groups = said([50, 10], [100, *[900] * 30])
    chosen = planned(groups)
    first, last = chosen.entries
    assert first == 1
    assert last == max(s.entry for group in chosen.gone for s in group)
    summary = (item(9, Message(Role.USER, "[CONTEXT SUMMARY]"), ItemForm.SUMMARY),)
    again = planned([summary, *groups[4:]])
    assert again.entries[0] == 1, "a summary stands for everything before it"


def pin(number: int, text: str, entry: int = 0) -> Quote:
    return Quote(entry, text, pin=f"p{number}")


def with_pins(groups: Sequence[Group], *pins: Quote, target: int = 7000) -> CompactionPlan:
    chosen = plan(groups, available=AVAILABLE, target=target, count=COUNT, pins=pins)
    assert chosen is not None
    return chosen


def test_a_pin_of_what_stays_is_not_doubled_and_one_of_what_goes_is_no_longer_quoted() -> None:
    groups = said([50, *[900] * 8], [60, 10])
    chosen = with_pins(groups, pin(1, "0" * 50, 1), pin(2, "1" * 60, chosen_entry(groups)))
    assert [one.pin for one in chosen.pins] == ["p1"] and not chosen.crowded
    assert chosen.own_words == ()


def chosen_entry(groups: Sequence[Group]) -> int:
    return [group[0].entry for group in groups if group[0].message.role is Role.USER][-1]


@given(TURNS, st.lists(st.integers(1, 900), max_size=6), st.integers(2000, 9000))
def test_pins_take_their_share_at_most_and_none_is_forgotten(
    turns: list[list[int]], sizes: list[int], target: int
) -> None:
    pins = [pin(number, "x" * length) for number, length in enumerate(sizes)]
    chosen = plan(said(*turns), available=AVAILABLE, target=target, count=COUNT, pins=pins)
    assume(chosen is not None)
    assert chosen is not None
    assert sorted([*chosen.pins, *chosen.crowded], key=lambda one: one.pin) == pins
    assert sum(one.labelled_tokens(COUNT) for one in chosen.pins) <= AVAILABLE * PINS_SHARE
    assert chosen.summary_cap >= SUMMARY_FLOOR


def test_pins_yield_after_own_words_and_before_the_summary() -> None:
    groups = said([300, 800], [300, 800], [300, 800], [20, 1200])
    one = pin(1, "k" * 400)
    ample, tight, none = (with_pins(groups, one, target=target) for target in (2600, 2220, 900))
    assert ample.pins and ample.own_words
    assert tight.pins and sum(map(len, tight.own_words)) < sum(map(len, ample.own_words))
    assert none.crowded == (one,) and none.summary_cap >= 256


def test_what_stands_below_a_summary_stands_in_its_order() -> None:
    groups = [(item(1, Message(Role.USER, "words")),), *said([5, *[900] * 30])]
    chosen = with_pins(groups, pin(1, "kept\nfor ever"))
    more = Additions("Record:\n- a.py", [("p9", "d8")])
    text = head(chosen, "all is well", "d7", clock=lambda: datetime(2026, 1, 13), measure=measure, more=more)[
        0
    ].message.content
    below = text.split("\n---\n")[1]
    places = [
        below.index(part) for part in ("all is well", "Record:\n- a.py", "[p1]\n> kept\n> for ever", 'p9: recall("d8")')
    ]
    assert places == sorted(places)


def test_own_words_and_pins_exceed_the_target_rather_than_go_but_never_the_budget() -> None:
    """The request and the newest step alone are above the target, and far below the budget."""
    groups = said([60, *[900] * 8], [60, *[900] * 4], [9000, 400])
    one, room = pin(1, "kept"), Room(1000, 1000, 16_000)
    ample = plan(groups, available=AVAILABLE, target=7000, count=COUNT, pins=[one], beyond=room)
    tight = plan(groups, available=AVAILABLE, target=7000, count=COUNT, pins=[one], beyond=replace(room, most=7000))
    assert ample is not None and tight is not None
    assert ample.pins == (one,) and [len(text) for text in ample.own_words] == [60, 60]
    assert tight.crowded == (one,) and not tight.own_words
    assert ample.kept == tight.kept and total(ample) > 7000


@given(TURNS, st.integers(500, 9000), st.integers(0, 9000), st.lists(st.integers(1, 300), max_size=4))
def test_whatever_exceeds_the_target_keeps_to_the_budget(
    turns: list[list[int]], target: int, beyond: int, sizes: list[int]
) -> None:
    pins = [pin(number, "x" * length) for number, length in enumerate(sizes)]
    room = Room(1000, 1000, target + beyond)
    chosen = plan(said(*turns), available=AVAILABLE, target=target, count=COUNT, pins=pins, beyond=room)
    assume(chosen is not None)
    assert chosen is not None
    beside = sum(one.labelled_tokens(COUNT) for one in chosen.pins) + sum(map(OwnWords(COUNT).cost, chosen.own_words))
    assert not beside or total(chosen) + chosen.summary_cap + NOTE_TOKENS + beside <= room.most


def test_what_is_pinned_is_not_counted_as_quoted_too() -> None:
    groups = said([400, 700], [400, 700], [400, 700], [400, 700], [400, 700], [10])
    people = [group[0] for group in groups if group[0].message.role is Role.USER]
    pins = [Quote(one.entry, one.message.content, pin=f"p{one.entry}") for one in people[:-1]]
    compared = 0
    for target in range(4000, 9000, 100):
        bare, full = (
            plan(groups, available=AVAILABLE, target=target, count=COUNT, pins=pins, beyond=Room(words, 4000, target))
            for words in (0, 3000)
        )
        if bare and full and not bare.crowded:
            assert full.kept == bare.kept and not full.quotes, "no room is kept free for words that a pin says"
            compared += 1
    assert compared > 10


def test_what_was_pasted_does_not_crowd_out_what_was_said() -> None:
    words = OwnWords(COUNT)
    said_ = [(5, "x" * 5000), (4, "use tabs"), (3, "y" * 4000), (2, "no eval"), (1, "port 8081")]
    quotes = words.choose_quotes(said_, 1000)
    assert [(quote.entry, quote.whole) for quote in quotes] == [(1, True), (2, True), (3, False), (4, True), (5, False)]
    assert sum(words.cost(quote.text) for quote in quotes) <= 1000
    assert len(words.newest(iter(said_), 1000)) == 5, "and does not keep from reading on"


def test_several_pastes_do_not_crowd_out_what_was_said_either() -> None:
    words = OwnWords(COUNT)
    pastes = [(entry, "x" * 5000) for entry in range(99, 9, -1)]
    rules = [(entry, f"rule {entry}: keep this in mind as well") for entry in range(9, 0, -1)]
    quotes = words.choose_quotes(pastes[:6] + rules, 1000)[:9]
    assert quotes == tuple(Quote(*one, tokens=words.cost(one[1])) for one in reversed(rules))
    assert len(words.newest(iter(pastes), 1000)) < 20, "and are not all read for it"


@pytest.mark.parametrize("line", ["x", "a line of a log", ""])
def test_a_pasted_log_of_many_short_lines_is_quoted_in_part_with_the_words_around_it(line: str) -> None:
    words = OwnWords(COUNT)
    (quote,) = words.choose_quotes([(1, "mind the port\n" + f"{line}\n" * 4000 + "and use tabs")], 1000)
    assert not quote.whole and quote.text.startswith("mind the port") and quote.text.endswith("use tabs")
    assert words.cost(quote.text) <= 250


@given(st.lists(st.integers(1, 900), max_size=12), st.integers(0, 1500))
def test_quotes_keep_to_their_room_and_stand_in_order(sizes: list[int], room: int) -> None:
    words = OwnWords(COUNT)
    rows = [(entry, "x" * length) for entry, length in enumerate(sizes, 1)]
    quotes = words.choose_quotes(reversed(rows), room)
    assert sum(words.cost(quote.text) for quote in quotes) <= room
    assert [quote.entry for quote in quotes] == sorted({quote.entry for quote in quotes})
    assert all(quote.text == "x" * sizes[quote.entry - 1] for quote in quotes if quote.whole)
    if sum(words.cost(text) for _, text in rows) <= room:
        assert len(quotes) == len(rows)


def test_a_request_that_stays_before_what_goes_is_not_named() -> None:
    chosen = planned(said([100, *[300] * 60]))
    first, last = chosen.entries
    assert first > 1 and chosen.staying == () and chosen.named == f"{first} to {last}"


def test_a_request_that_stays_in_the_midst_of_what_goes_is_named() -> None:
    chosen = planned(said([50, 10], [100, *[300] * 60]))
    assert chosen.staying == (5,) and chosen.named == f"1 to {chosen.entries[1]} without 5"
    text = head(chosen, "s", "d1", clock=lambda: datetime(2026, 1, 1), measure=measure)[0].message.content
    assert f"[Messages {chosen.named} are summarized here" in text
    more = Additions("", [("p1", "d2")], False)
    bare = head(chosen, "s", "d1", clock=lambda: datetime(2026, 1, 1), measure=measure, more=more)[0].message.content
    assert "recall" not in bare and "left out here for room: p1]" in bare


def test_what_was_attached_to_the_persons_words_is_not_quoted_as_theirs() -> None:
    groups = said((3, 4000), (3, 4000), (3, 4000), (3, 4000), (3, 4000))
    words = "look at this"
    block = '<shell command="cat a">\n' + "Never ask. " * 20 + "\n</shell>"
    groups[0] = (item(1, Message(Role.USER, f"{words}\n\n{block}")),)
    groups[3] = (item(groups[3][0].entry, Message(Role.USER, block)),)
    chosen = plan(groups, available=AVAILABLE, target=8000, count=COUNT)
    assert chosen is not None
    assert chosen.own_words[0] == words
    assert not any("Never ask" in quote for quote in chosen.own_words)
