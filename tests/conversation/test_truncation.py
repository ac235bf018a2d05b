"""Truncation against an oracle written from seed A's text and the exceptions to it, and its elisions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from context.conversation import MARK, Letters, assert_pairs, manager, texts, tokens, without_system
from conversation.cut import truncate
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context import ContextManager, SimpleTokenCounter, TiktokenCounter
from nexus_cli.core import Message, Role, ToolCall
from nexus_cli.core.entry import Drop, ItemForm, WindowItem

STRATEGIES = ["oldest_first", "middle_out"]
both = pytest.mark.parametrize("strategy", STRATEGIES)

# -- the oracle ----------------------------------------------------------------------------------------------------


def groups_of(messages: list[Message]) -> list[list[Message]]:
    """Standalone messages, and calls with their results; the lists of these tests have no orphans."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role is Role.TOOL:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def said_first(groups: list[list[Message]]) -> list[list[Message]]:
    first = [index for index, group in enumerate(groups) if group[0].role is Role.USER]
    return groups[first[0] :] if first else groups


def truncated(groups: list[list[Message]], room: int, strategy: str) -> list[list[Message]]:
    """Seed A: fill from the newest group backwards; middle-out keeps the first as well."""
    sizes = [Letters().count_messages(group) for group in groups]
    users = [index for index, group in enumerate(groups) if group[0].role is Role.USER]
    kept = {len(groups) - 1, *users[-1:]}
    if strategy == "middle_out" and sum(sizes[i] for i in kept | {0}) <= room:
        kept.add(0)
    for index in range(len(groups) - 1, -1, -1):
        if index not in kept:
            if sum(sizes[i] for i in kept) + sizes[index] > room:
                break
            kept.add(index)
    return said_first([groups[index] for index in sorted(kept)])


@dataclass
class Oracle:
    """What a bare manager shows: it forgets only when it must, and remembers when everything fits again."""

    strategy: str
    everything: list[Message] = field(default_factory=list)
    shown: list[Message] = field(default_factory=list)

    def add(self, *messages: Message) -> None:
        self.everything += messages
        self.shown += messages

    def build(self, room: int) -> list[Message]:
        whole = flat(said_first(groups_of(self.everything)))
        if Letters().count_messages(whole) <= room:
            self.shown = list(self.everything)
            return whole
        groups = said_first(groups_of(self.shown))
        if Letters().count_messages(flat(groups)) > room:
            groups = truncated(groups, room, self.strategy)
        self.shown = flat(groups)
        return flat(groups)


def flat(groups: list[list[Message]]) -> list[Message]:
    return [message for group in groups for message in group]


SIZES = st.integers(0, 60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), SIZES),
        st.tuples(st.just("assistant"), SIZES.map(lambda n: n + 1)),
        st.tuples(st.just("calls"), st.lists(SIZES, min_size=1, max_size=3)),
        st.tuples(st.just("build"), st.none()),
        st.tuples(st.just("build"), st.none()),
        st.tuples(st.just("system"), st.integers(0, 300)),
        st.tuples(st.just("window"), st.integers(1000, 1800)),
        st.tuples(st.just("clear"), st.none()),
    ),
    min_size=10,
    max_size=70,
)


@both
@given(steps=STEPS)
def test_truncation_fills_the_budget_exactly_as_the_seed_says(strategy: str, steps: list[tuple[str, Any]]) -> None:
    context, oracle = manager(1000, strategy), Oracle(strategy)
    for number, (name, value) in enumerate([*steps, ("build", None)]):
        sign = chr(ord("a") + number % 26)
        match name:
            case "user":
                context.add_user_message(sign * value)
                oracle.add(Message(Role.USER, sign * value))
            case "assistant":
                context.add_assistant_message(sign * value)
                oracle.add(Message(Role.ASSISTANT, sign * value))
            case "calls":
                calls = tuple(ToolCall(f"{number}{chr(97 + i)}", "f") for i in range(len(value)))
                context.add_assistant_message("", calls)
                oracle.add(Message(Role.ASSISTANT, "", calls))
                for call, size in zip(calls, value, strict=True):
                    context.add_tool_result(call.id, "f", sign * size)
                    oracle.add(Message(Role.TOOL, sign * size, tool_call_id=call.id))
            case "system":
                context.set_system_prompt("s" * value)
            case "window":
                context.config.max_tokens = value
            case "clear":
                context.clear_messages()
                oracle = Oracle(strategy)
            case "build":
                usage = context.get_token_usage()
                room = usage["available"] - usage["system"]
                assert without_system(context.build_messages()) == oracle.build(room)


def filled(strategy: str, *said: str, budget: int = 60) -> list[str]:
    """What is built of messages that alternate between the person (capital first letter) and the model."""
    context = manager(budget, strategy)
    for text in said:
        (context.add_user_message if text[0].isupper() else context.add_assistant_message)(text)
    return texts(context.build_messages())


def test_oldest_first_removes_the_oldest_groups() -> None:
    assert filled("oldest_first", "A" * 20, "b" * 16, "C" * 6, "d" * 6, "E" * 6) == ["C" * 6, "d" * 6, "E" * 6]


def test_middle_out_keeps_the_first_and_fills_from_the_end() -> None:
    assert filled("middle_out", "A" * 10, "b" * 26, "C" * 6, "d" * 6, "E" * 6) == ["A" * 10, "C" * 6, "d" * 6, "E" * 6]


def test_middle_out_fills_from_the_end_where_the_first_does_not_fit() -> None:
    assert filled("middle_out", "A" * 100, "b" * 26, "C" * 6, "d" * 6, "E" * 6) == ["C" * 6, "d" * 6, "E" * 6]


@both
def test_the_newest_user_message_is_counted_first_and_keeps_its_place(strategy: str) -> None:
    assert filled(strategy, "A" * 60, "b" * 9, "C" * 9, "d" * 8, "e" * 9)[-3:] == ["C" * 9, "d" * 8, "e" * 9]
    assert filled(strategy, "A" * 30, "C" * 9, "d" * 12, "e" * 12, "f" * 12, budget=50) == ["C" * 9, "e" * 12, "f" * 12]


@both
def test_a_history_without_any_user_message_is_truncated_where_it_stands(strategy: str) -> None:
    assert filled(strategy, "a" * 50, "b" * 20, "c" * 20)[-2:] == ["b" * 20, "c" * 20]
    assert filled(strategy, "a", "b") == ["a", "b"]


@both
def test_truncation_never_splits_a_group(strategy: str) -> None:
    context = manager(150, strategy)
    context.add_user_message("go")
    for number in range(6):
        calls = [ToolCall(f"{number}a", "f"), ToolCall(f"{number}b", "f")]
        context.add_assistant_message("", calls)
        context.add_tool_result(f"{number}b", "f", "second first")
        context.add_tool_result(f"{number}a", "f", "x" * number)
        built = context.build_messages()
        assert_pairs(built)
        assert built[0].content == "go"
        assert built[-1].tool_call_id == f"{number}b"


# -- remembering again ---------------------------------------------------------------------------------------------


def long_talk() -> ContextManager:
    context = manager(400)
    context.set_system_prompt("s" * 200)
    for number in range(8):
        context.add_user_message(f"{number}" * 30)
    assert len(without_system(context.build_messages())) < 8
    return context


def test_a_smaller_system_prompt_brings_the_history_back() -> None:
    context = long_talk()
    context.set_system_prompt("s")
    assert texts(context.build_messages())[1:] == [f"{n}" * 30 for n in range(8)] == texts(context.messages)


def test_a_larger_budget_brings_the_history_back_mutated_or_replaced() -> None:
    context = long_talk()
    context.config.max_tokens = 900
    assert len(context.build_messages()) == 9
    other = long_talk()
    other.config = type(other.config)(max_tokens=2000, reserve_tokens=100)
    assert len(other.build_messages()) == 9
    assert other.get_token_usage()["available"] == 1900


def test_a_budget_that_is_still_too_small_changes_nothing() -> None:
    context = long_talk()
    before = context.build_messages()
    context.config.max_tokens += 20
    assert context.build_messages() == before


def test_what_was_compacted_or_cleared_away_does_not_come_back() -> None:
    context = long_talk()
    context.apply_compaction(Message(Role.USER, "summary"), context.messages[-1:])
    context.config.max_tokens = 10_000
    assert texts(context.build_messages())[1:] == ["summary", "7" * 30]


# -- elision -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("size", [401, 1000, 100_000])
def test_an_oversized_user_message_keeps_its_beginning_its_end_and_one_marker(strategy: str, size: int) -> None:
    context = manager(400, strategy)
    context.add_user_message("BEGIN" + "x" * size + "END")
    built = context.build_messages()
    assert tokens(context, built) <= 400
    text = built[0].content
    assert text.startswith("BEGIN")
    assert text.endswith("END")
    assert text.count(MARK) == 1
    assert len(text) > 200, "the budget is used"
    assert texts(context.history) == ["BEGIN" + "x" * size + "END"]


@pytest.mark.parametrize(
    ("counter", "least"),
    [(Letters(), 45), (SimpleTokenCounter(), 14), (TiktokenCounter(), 20)],
    ids=["letters", "simple", "tiktoken"],
)
def test_one_oversized_message_fits_every_budget_that_can_hold_a_marker(counter: Any, least: int) -> None:
    for budget in [*range(least, least + 40), 100, 333]:
        for text in ("word " * 4000, "x" * 9000, "漢字" * 2000, "line\n" * 3000):
            context = manager(budget, token_counter=counter)
            context.add_user_message(text)
            built = context.build_messages()
            assert tokens(context, built) <= budget
            assert built[0].content.count(MARK) == 1


@pytest.mark.parametrize(("counter", "least"), [(SimpleTokenCounter(), 14), (TiktokenCounter(), 20)])
def test_a_short_message_that_does_not_fit_otherwise_is_cut_too(counter: Any, least: int) -> None:
    for budget in range(least, 60):
        context = manager(budget, token_counter=counter)
        context.add_user_message("word " * budget)
        built = context.build_messages()
        assert tokens(context, built) <= budget
        assert built[0].content.count(MARK) == 1


def test_an_oversized_request_leaves_room_for_the_steps_of_its_run_and_is_cut_the_same_each_time() -> None:
    context = manager(1000)
    context.add_user_message("BEGIN" + "x" * 5000 + "END")
    first = context.build_messages()
    for number in range(6):
        context.add_assistant_message(f"step {number} " + "y" * 60)
        built = context.build_messages()
        assert built[0] == first[0]
        assert built[-1].content.startswith(f"step {number}")
        assert len(built) >= min(number + 2, 4)


def test_what_is_cut_again_is_cut_from_the_original() -> None:
    context = manager(1000)
    original = "BEGIN" + "x" * 5000 + "END"
    context.add_user_message(original)
    for window in (1000, 500, 250, 600):
        context.config.max_tokens = window
        context.add_assistant_message("y" * 200)
        text = context.build_messages()[0].content
        line = next(line for line in text.splitlines() if MARK in line)
        left_out = int(re.sub(r"\D", "", line))
        assert left_out + sum(map(len, text.splitlines())) - len(line) == len(original)


def test_an_elided_message_is_whole_again_when_it_fits() -> None:
    context = manager(400)
    context.add_user_message("x" * 5000)
    context.build_messages()
    context.add_assistant_message("y")
    context.build_messages()
    context.config.max_tokens = 10_000
    assert texts(context.build_messages()) == ["x" * 5000, "y"]


def test_an_oversized_tool_result_is_elided_and_the_request_stays_whole() -> None:
    context = manager(500)
    context.add_user_message("please look")
    context.add_assistant_message("", [ToolCall("c1", "f"), ToolCall("c2", "f")])
    context.add_tool_result("c1", "f", "HEAD" + "x" * 9000 + "TAIL")
    context.add_tool_result("c2", "f", "short")
    built = context.build_messages()
    assert tokens(context, built) <= 500
    assert_pairs(built)
    assert texts(built)[0] == "please look"
    assert built[2].content.startswith("HEAD")
    assert built[2].content.endswith("TAIL")
    assert built[2].content.count(MARK) == 1
    assert built[3].content == "short"


def test_huge_call_arguments_are_elided_and_stay_an_object() -> None:
    context = manager(500)
    context.add_user_message("write it")
    context.add_assistant_message("", [ToolCall("c1", "write", {"path": "a.txt", "text": "T" * 9000, "n": 3})])
    context.add_tool_result("c1", "write", "done")
    built = context.build_messages()
    assert tokens(context, built) <= 500
    arguments = built[1].tool_calls[0].arguments
    assert arguments["path"] == "a.txt"
    assert arguments["n"] == 3
    assert MARK in arguments["text"]
    assert arguments["text"].startswith("T")


@pytest.mark.parametrize("huge", [list(range(5000)), ["word"] * 3000, {"k" * 4000: "v"}, {"deep": [{"a": "b"}] * 900}])
def test_arguments_that_are_huge_without_a_long_string_become_one_marker(huge: Any) -> None:
    context = manager(500)
    context.add_user_message("write it")
    context.add_assistant_message("", [ToolCall("c1", "write", {"it": huge})])
    context.add_tool_result("c1", "write", "done")
    built = context.build_messages()
    assert tokens(context, built) <= 500
    assert MARK in str(built[1].tool_calls[0].arguments)


def test_request_and_newest_group_are_both_elided_where_both_are_oversized() -> None:
    context = manager(600)
    context.add_user_message("ASK" + "u" * 5000)
    context.add_assistant_message("t" * 3000, [ToolCall("c1", "f")])
    context.add_tool_result("c1", "f", "r" * 5000)
    built = context.build_messages()
    assert tokens(context, built) <= 600
    assert [message.content.count(MARK) for message in built] == [1, 1, 1]
    assert built[0].content.startswith("ASK")
    assert context.build_messages() == built


def test_many_open_calls_are_answered_by_placeholders_that_are_counted() -> None:
    context = manager(900)
    context.add_user_message("go")
    context.add_assistant_message("before" * 60)
    context.add_assistant_message("", [ToolCall(f"c{n}", "f") for n in range(9)])
    built = context.build_messages()
    assert tokens(context, built) <= 900
    assert_pairs(built)


def test_a_system_prompt_above_the_budget_is_returned_with_the_newest_group() -> None:
    context = manager(400)
    for text in ("one", "two", "three"):
        context.add_user_message(text)
    context.set_system_prompt("s" * 1000)
    assert texts(context.build_messages()) == ["s" * 1000, "three"]
    context.add_assistant_message("", [ToolCall("c1", "f")])
    context.add_tool_result("c1", "f", "r")
    assert texts(context.build_messages()) == ["s" * 1000, "three", "", "r"]


def test_a_system_prompt_just_below_the_budget_leaves_the_request_what_is_left() -> None:
    context = manager(1000)
    context.set_system_prompt("s" * 850)
    context.add_user_message("BEGIN" + "u" * 500)
    built = context.build_messages()
    assert tokens(context, built) <= 1000
    assert built[1].content.startswith("BEGIN")


@pytest.mark.parametrize(("window", "reserve"), [(0, 0), (0, 100), (100, 100), (100, 5000), (-5, 0)])
def test_without_any_room_only_the_newest_is_kept(window: int, reserve: int) -> None:
    context = manager(window)
    context.config.reserve_tokens = reserve
    context.add_user_message("one")
    context.add_assistant_message("two")
    context.add_user_message("three" * 200)
    assert texts(context.build_messages()) == ["three" * 200], "whole: nothing would make it fit"
    assert context.is_over_budget()


def test_the_strategy_of_a_changed_configuration_is_used() -> None:
    context = manager(60)
    context.config.truncation_strategy = "middle_out"
    for text in ("A" * 10, "B" * 26, "C" * 16):
        context.add_user_message(text)
    assert texts(context.build_messages()) == ["A" * 10, "C" * 16]


# -- in a session: markers, drops, and the floor of the request ----------------------------------------------------


def in_session(budget: int) -> ContextManager:
    return manager(budget, markers=True, low_water=0.5)


def cut(context: ContextManager) -> list[Drop]:
    return truncate(context.truncator, context.conversation, context.available)


@given(st.lists(st.integers(1, 900), min_size=8, max_size=30), st.integers(4000, 8000))
def test_one_cut_goes_down_to_the_low_water_mark_and_leaves_a_line_in_each_hole(sizes: list[int], budget: int) -> None:
    context = in_session(budget)
    for number, size in enumerate(sizes):
        (context.add_user_message if number % 5 == 0 else context.add_assistant_message)("x" * size)
    before = context.conversation.items
    drops = cut(context)
    after = context.conversation.items
    whole = sum(item.tokens for item in before)
    markers = [item for item in after if item.form is ItemForm.MARKER]
    assert len(markers) == len(drops)
    assert all(drop.id in item.message.content for drop, item in zip(drops, markers, strict=True))
    assert next(item for item in after if item not in markers).message.role is Role.USER
    assert sum(item.tokens for item in after if item not in markers) <= max(budget // 2, 904 * 2)
    assert sum(drop.tokens for drop in drops) + sum(s.tokens for s in after if s not in markers) == whole
    gone = {e for drop in drops if drop.entries for e in range(drop.entries[0], drop.entries[1] + 1)}
    assert gone == {item.entry for item in before} - {item.entry for item in after if item not in markers}


def test_a_request_in_a_session_keeps_a_quarter_of_the_budget_whatever_else_is_there() -> None:
    context = in_session(4000)
    context.set_system_prompt("s" * 3500)
    context.add_user_message("u" * 3000)
    drops = cut(context)
    assert 900 <= context.conversation.items[0].tokens <= 1000
    assert [drop.text for drop in drops] == ["u" * 3000]


@pytest.mark.parametrize("over", [1, 3, 20, 40])
def test_a_request_that_is_a_little_too_long_loses_a_little(over: int) -> None:
    context = in_session(4000)
    context.set_system_prompt("s" * 3500)
    context.add_user_message("u" * (1000 - 4 + over))
    cut(context)
    assert 900 <= context.conversation.items[0].tokens <= 1000


def test_an_elided_result_names_the_drop_and_the_range_that_holds_the_rest() -> None:
    context = in_session(4000)
    context.add_user_message("go")
    context.add_assistant_message("", [ToolCall("c1", "write", {"text": "t" * 4000})])
    context.add_tool_result("c1", "write", "".join(map(str, range(2000))))
    call, result = cut(context)
    window = context.conversation.items
    shown = window[2].message.content
    found = re.search(r'recall\("(d\d+)", "(\d+):(\d+)"\)', shown)
    assert found is not None
    assert found[1] == result.id
    assert result.text is not None
    start, end = int(found[2]), int(found[3])
    line = next(line for line in shown.splitlines() if "recall(" in line)
    head, _, tail = shown.partition(line)
    assert head.removesuffix("\n") + result.text[start:end] + tail.removeprefix("\n") == result.text
    inside = window[1].message.tool_calls[0].arguments["text"]
    assert f'recall("{call.id}")' in inside
    assert call.text is not None
    assert "t" * 4000 in call.text


def test_a_summary_that_had_to_be_cut_is_still_a_summary() -> None:
    context = in_session(3000)
    summary = Message(Role.USER, "[CONTEXT SUMMARY] " + "s" * 5000)
    context.conversation.rewrite(
        [WindowItem(0, ItemForm.SUMMARY, summary, tokens=context.measure(summary, ""))], "compaction", ()
    )
    cut(context)
    item = context.conversation.items[0]
    assert (item.form, item.tokens <= 3000) == (ItemForm.SUMMARY, True)
    assert MARK not in item.message.content or item.message.content.startswith("[CONTEXT SUMMARY]")
