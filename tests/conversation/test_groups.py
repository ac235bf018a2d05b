"""The one repair of tool pairs, and the next step of the loop, over any sequence of messages."""

from __future__ import annotations

from context.conversation import assert_pairs
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.manager import from_first_user_message
from nexus_cli.conversation.groups import NextStep, flatten, group_tool_calls, next_step
from nexus_cli.core.entry import PLACEHOLDER, ItemForm, WindowItem, is_placeholder
from nexus_cli.core.message import Message, Role, ToolCall

IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(Message, st.just(Role.USER), st.text("x", max_size=2)),
        st.builds(
            lambda ids: Message(Role.ASSISTANT, "", tuple(ToolCall(i, "f") for i in ids)), st.lists(IDS, max_size=3)
        ),
        st.builds(lambda i, text: Message(Role.TOOL, text, tool_call_id=i), IDS, st.text("r", max_size=3)),
    ),
    max_size=25,
)


def items(messages: list[Message]) -> list[WindowItem]:
    return [WindowItem(number, ItemForm.FULL, message, tokens=1) for number, message in enumerate(messages, 1)]


def call(*ids: str) -> Message:
    return Message(Role.ASSISTANT, "", tuple(ToolCall(i, "f") for i in ids))


def result(id: str, text: str = "r") -> Message:
    return Message(Role.TOOL, text, tool_call_id=id)


U = Message(Role.USER, "u")


def arranged(*messages: Message) -> list[Message]:
    return [item.message for item in flatten(group_tool_calls(items(list(messages))))]


@given(MESSAGES)
def test_any_sequence_is_arranged_into_sound_pairs(messages: list[Message]) -> None:
    assert_pairs(arranged(*messages))


@given(MESSAGES)
def test_arranging_twice_changes_nothing(messages: list[Message]) -> None:
    once = group_tool_calls(items(messages))
    assert group_tool_calls(flatten(once)) == once


@given(MESSAGES)
def test_nothing_but_results_is_ever_left_out_and_nothing_but_placeholders_added(messages: list[Message]) -> None:
    given_, made = items(messages), flatten(group_tool_calls(items(messages)))
    speech = [item for item in given_ if item.message.role is not Role.TOOL]
    assert [item for item in made if item.message.role is not Role.TOOL] == speech
    assert all(item in given_ or is_placeholder(item) for item in made)


@given(MESSAGES, st.integers(0, 25))
def test_groups_that_are_complete_stay_as_they_are_when_more_is_said(messages: list[Message], cut: int) -> None:
    before = group_tool_calls(items(messages[:cut]))
    complete = next((i for i, group in enumerate(before) if any(map(is_placeholder, group))), len(before))
    assert group_tool_calls(items(messages))[:complete] == before[:complete]


def test_a_late_result_goes_to_its_call_and_what_came_between_follows() -> None:
    assert arranged(U, call("a"), U, result("a", "late")) == [U, call("a"), result("a", "late"), U]


def test_results_stand_in_call_order_whatever_the_order_of_their_arrival() -> None:
    assert arranged(call("a", "b"), result("b"), result("a")) == [call("a", "b"), result("a"), result("b")]


def test_orphans_second_results_and_results_before_their_call_are_left_out() -> None:
    assert arranged(U, result("x")) == [U]
    assert arranged(call("a"), result("a", "1"), result("a", "2")) == [call("a"), result("a", "1")]
    assert arranged(result("a", "early"), call("a")) == [call("a"), result("a", PLACEHOLDER)]


def test_an_id_that_is_used_again_belongs_to_the_newer_call() -> None:
    again = arranged(call("a"), result("a", "1"), call("a"), result("a", "2"))
    assert again == [call("a"), result("a", "1"), call("a"), result("a", "2")]
    twice = arranged(call("a", "a"), result("a", "1"), result("a", "2"))
    assert twice == [call("a", "a"), result("a", "1"), result("a", "2")]


def test_a_missing_result_is_filled_and_measured() -> None:
    group = group_tool_calls(items([call("a", "b"), result("b")]), lambda message, preamble: len(message.content))[0]
    assert [item.message.tool_call_id for item in group] == [None, "a", "b"]
    assert is_placeholder(group[1])
    assert group[1].tokens == len(PLACEHOLDER)


def test_groups_are_taken_from_the_first_user_message_on() -> None:
    assert (
        from_first_user_message(group_tool_calls(items([call(), U, call()])))
        == group_tool_calls(items([call(), U, call()]))[1:]
    )
    assert from_first_user_message(group_tool_calls(items([call()]))) == group_tool_calls(items([call()]))
    assert from_first_user_message([]) == []


@given(MESSAGES)
def test_open_calls_are_dispatched_first_and_in_call_order(messages: list[Message]) -> None:
    step = next_step(items(messages))
    if step.calls:
        assert not step.is_done
        last = next(m for m in reversed(messages) if m.role is Role.ASSISTANT)
        assert [c for c in last.tool_calls if c in step.calls] == list(step.calls)
    elif step.is_done:
        assert not messages or messages[-1].role in (Role.ASSISTANT, Role.TOOL)


def test_the_next_step_follows_from_the_tail_alone() -> None:
    done = Message(Role.ASSISTANT, "done")
    assert next_step([]).is_done
    assert next_step(items([U])) == NextStep()
    assert next_step(items([U, call("a", "b"), result("a")])) == NextStep((ToolCall("b", "f"),))
    assert next_step(items([U, call("a"), result("a")])) == NextStep()
    assert next_step(items([U, done])).is_done
    assert next_step(items([U, done, U])) == NextStep()
