"""What holds for a bare manager whatever a caller does, in any order."""

from __future__ import annotations

from typing import Any

import pytest
from context.conversation import HOSTILE, Act, Letters, act, assert_pairs, manager, tokens, without_system
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.context import ContextConfig, ContextManager, SimpleTokenCounter, TiktokenCounter
from nexus_cli.core import Message, Role, ToolCall, ToolResult

acts = st.lists(HOSTILE, max_size=40)
strategy_names = st.sampled_from(["oldest_first", "middle_out"])
tiny = st.integers(-50, 300)
COUNTERS = [Letters(), SimpleTokenCounter(), TiktokenCounter()]


@given(acts=acts, strategy=strategy_names)
def test_whatever_was_done_a_built_list_keeps_the_laws(acts: list[Act], strategy: str) -> None:
    context = manager(strategy=strategy)
    said = ""
    for what in acts:
        act(context, what)
        said = {"user": what.value, "big": "u", "clear": ""}.get(what.name, said)
        if what.name not in ("build", "compact", "big_result"):
            continue
        built = context.build_messages()
        rest = without_system(built)
        assert_pairs(rest)
        assert all(message.role is not Role.SYSTEM for message in rest)
        if any(message.role is Role.USER for message in rest):
            assert rest[0].role is Role.USER
        if said.strip():
            assert any(m.role is Role.USER and said in m.content for m in rest), "the newest words are in it"
        assert context.build_messages() == built, "twice in a row"
        assert context.messages == rest
        usage = context.get_token_usage()
        assert usage["total"] == usage["system"] + usage["tools"] + usage["messages"] == tokens(context, built)
        assert context.is_over_budget() == (usage["total"] > usage["available"])


@given(acts=acts, strategy=strategy_names)
def test_what_is_built_fits_with_a_counter_whose_every_letter_counts(acts: list[Act], strategy: str) -> None:
    context = manager(strategy=strategy)
    for what in acts:
        act(context, what)
    assert tokens(context, context.build_messages()) <= context.config.max_tokens


@pytest.mark.parametrize("counter", COUNTERS)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_built_fits_with_every_counter_and_a_clock(counter: Any, data: st.DataObject) -> None:
    from datetime import datetime

    context = manager(400, token_counter=counter, clock=lambda: datetime(2026, 1, 13, 14, 30))
    alphabet = data.draw(st.sampled_from(["ab c\n", "0123456789", "漢字かな", '"\\{}', "🙂é"]))
    for _ in range(data.draw(st.integers(1, 6))):
        text = (data.draw(st.text(alphabet, min_size=1, max_size=30)) * data.draw(st.integers(1, 400)))[:4000]
        role = data.draw(st.sampled_from(["user", "assistant", "tool"]))
        if role == "user":
            context.add_user_message(text)
        elif role == "assistant":
            context.add_assistant_message(text)
        else:
            context.add_assistant_message("", [ToolCall("c1", "write", {"path": "a.txt", "text": text})])
            context.add_tool_result("c1", "write", text)
        built = context.build_messages()
        assert tokens(context, built) <= 400
        assert context.build_messages() == built


@given(acts=acts, window=tiny, reserve=st.integers(0, 200), system=st.integers(0, 400))
def test_no_budget_is_too_small_to_build_something_sound(
    acts: list[Act], window: int, reserve: int, system: int
) -> None:
    context = manager(window)
    context.config.reserve_tokens = reserve
    for what in acts:
        if what.name != "window":
            act(context, what)
    context.set_system_prompt("s" * system)
    context.add_user_message("now")
    built = context.build_messages()
    assert_pairs(without_system(built))
    assert built[-1] == Message(Role.USER, "now")
    assert (built[0].content == "s" * system) if system else built[0].role is Role.USER
    assert context.build_messages() == built
    assert context.get_token_usage()["available"] == window - reserve


@given(acts=acts)
def test_the_history_holds_everything_that_was_ever_added(acts: list[Act]) -> None:
    context = manager(600)
    added: list[str] = []
    for what in acts:
        before = len(context.history)
        act(context, what)
        fresh = context.history[before:]
        if what.name in ("user", "calls", "result"):
            assert [message.content for message in fresh] == [what.value]
        elif what.name in ("build", "window", "system", "clear"):
            assert fresh == []
        added += [message.content for message in fresh]
    context.build_messages()
    assert [message.content for message in context.history] == added


@given(acts=st.lists(HOSTILE.filter(lambda a: a.name not in ("clear", "compact", "window")), max_size=30))
def test_a_large_enough_budget_shows_everything_again(acts: list[Act]) -> None:
    small, large = manager(500), manager(10**9)
    for what in acts:
        act(small, what)
        act(large, what)
        small.build_messages()
    small.config.max_tokens = 10**9
    assert small.build_messages() == large.build_messages()
    assert small.messages == large.messages


@given(acts=st.lists(HOSTILE.filter(lambda a: a.name not in ("clear", "compact", "window", "system")), max_size=30))
def test_building_on_the_way_changes_nothing_while_everything_fits(acts: list[Act]) -> None:
    often, once = manager(10**9), manager(10**9)
    previous: list[Message] = []
    for what in acts:
        act(often, what)
        act(once, what)
        often.build_messages()
        previous = often.messages
    assert once.build_messages() == often.build_messages() == previous


@given(
    calls=st.integers(1, 25),
    answered=st.integers(0, 25),
    length=st.integers(0, 300),
    room=st.integers(30, 400),
    strategy=st.sampled_from(["oldest_first", "middle_out"]),
)
def test_a_batch_larger_than_the_window_is_built_the_same_again_and_again(
    calls: int, answered: int, length: int, room: int, strategy: str
) -> None:
    config = ContextConfig(max_tokens=room, reserve_tokens=0, truncation_strategy=strategy)
    made = ContextManager(config=config, token_counter=SimpleTokenCounter())
    made.add_user_message("please look")
    ids = [f"c{number}" for number in range(calls)]
    made.add_assistant_message("", [ToolCall(name, "read_file", {"path": "src/a/file.py"}) for name in ids])
    for name in ids[:answered]:
        made.add_tool_result(name, "read_file", ToolResult(output="x" * length))
    built = [made.build_messages() for _ in range(3)]
    for name in ids[answered:]:
        made.add_tool_result(name, "read_file", ToolResult(output="late"))
    built += [made.build_messages() for _ in range(3)]
    assert built[0] == built[1] == built[2] and built[3] == built[4] == built[5]
    for messages in built:
        assert [one.tool_call_id for one in messages if one.tool_call_id] == ids
        assert [[call.id for call in one.tool_calls] for one in messages if one.tool_calls] == [ids]
