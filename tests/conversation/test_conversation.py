"""A lane: within an epoch lines are only appended, and only a rewrite begins another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from context.conversation import Letters
from conversation.planned import Conversation
from epochs import make_header as EpochHeader
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.groups import flatten
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Epoch, ItemForm, Kind
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.wire import canonical

U, A, T = Role.USER, Role.ASSISTANT, Role.TOOL


class Record(MemoryLog):
    """A log that keeps the epochs too."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[Epoch] = []

    def begin_epoch(self, epoch: Epoch, drops: Any, memos: Any = ()) -> None:
        super().begin_epoch(epoch, drops, memos)
        self.epochs.append(epoch)


def measure(message: Message, preamble: str) -> int:
    return Letters().count_messages([message]) + len(preamble)


def new_lane() -> Conversation:
    header = EpochHeader("m", "system text", ({"name": "look"},), system_tokens=10, tools_tokens=5)
    return Conversation(Record(), lambda: datetime(2026, 1, 13, tzinfo=UTC), measure, header)


def lines(lane: Conversation) -> list[bytes]:
    """What a request sent now would hold."""
    return [canonical(message) for message in lane.freeze_request().wire.messages]


def say(lane: Conversation, role: Role, text: str) -> None:
    kind = {U: Kind.USER, A: Kind.ASSISTANT}[role]
    lane.append(kind, Message(role, text), "someone")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.text("x", max_size=5)),
        st.tuples(st.just("reply"), st.text("y", min_size=1, max_size=5)),
        st.tuples(st.just("calls"), st.integers(1, 3)),
        st.tuples(st.just("dress"), st.text("p", min_size=1, max_size=5)),
        st.tuples(st.just("send"), st.none()),
    ),
    max_size=30,
)
REWRITES = st.one_of(st.tuples(st.just("rewrite"), st.integers(0, 9)), st.tuples(st.just("undress"), st.none()))


@given(STEPS, st.lists(st.tuples(st.integers(0, 30), REWRITES), max_size=4))
def test_within_an_epoch_each_request_begins_with_the_one_before(
    steps: list[tuple[str, Any]], rewrites: list[tuple[int, tuple[str, Any]]]
) -> None:
    lane, before = new_lane(), list[bytes]()
    for place, step in rewrites:
        steps.insert(place, step)
    for number, (name, value) in enumerate([*steps, ("send", None)]):
        match name:
            case "user":
                say(lane, U, value)
            case "reply":
                say(lane, A, value)
            case "calls":
                calls = tuple(ToolCall(f"c{number}{i}", "look") for i in range(value))
                lane.append(Kind.ASSISTANT, Message(A, "", calls), "agent")
                for call in reversed(calls):
                    lane.append(Kind.TOOL, Message(T, "seen", tool_call_id=call.id), "tool:look")
            case "dress":
                lane.attach_preamble(value)
            case "undress":
                lane.detach_preamble()
            case "rewrite":
                lane.rewrite(flatten(lane.groups()[-value:]), "truncation", ())
                before = []
            case "send":
                now = lines(lane)
                assert now[: len(before)] == before
                before = now
                assert lane.cursor == lane.last
                assert not lane.is_preamble_due()
    assert lane.counted == 15 + sum(measure(s.message, s.preamble) for s in lane.items)


@given(STEPS, st.integers(0, 30))
def test_a_lane_that_is_loaded_goes_on_with_the_same_lines(steps: list[tuple[str, Any]], cut: int) -> None:
    lane = new_lane()
    lane.begin()
    for number, (name, value) in enumerate(steps):
        if name == "user":
            say(lane, U, value)
        elif name == "calls":
            lane.append(Kind.ASSISTANT, Message(A, "", (ToolCall(f"c{number}", "look"),)), "agent")
            lane.append(Kind.TOOL, Message(T, "seen", tool_call_id=f"c{number}"), "tool:look")
        if number == cut and lane.items:
            lane.freeze_request()
    again = Conversation.load(lane.log, local_now, measure, lane.epoch, lane.cursor, [b""])
    assert again.items == lane.items
    assert again.counted == lane.counted
    assert again.run == lane.run
    first, second = lane.freeze_request(), again.freeze_request()
    assert second.wire.messages == first.wire.messages
    assert second.wire.sha256 == first.wire.sha256
    assert second.fixed == first.fixed
    assert second.previous_end == first.previous_end


def test_a_preamble_goes_to_the_newest_unsent_message_and_never_to_a_sent_one() -> None:
    lane = new_lane()
    assert not lane.attach_preamble("nothing is there")
    say(lane, U, "one")
    assert lane.is_preamble_due()
    assert lane.attach_preamble("first")
    assert lane.attach_preamble("second")
    assert lane.items[0].preamble == "first\nsecond"
    sent = lines(lane)
    assert not lane.attach_preamble("too late")
    lane.append(Kind.ASSISTANT, Message(A, "", (ToolCall("c1", "look"),)), "agent")
    lane.append(Kind.TOOL, Message(T, "seen", tool_call_id="c1"), "tool:look")
    assert lane.attach_preamble("notice")
    assert lines(lane)[: len(sent)] == sent
    assert lane.items[-1].preamble == "notice"


def test_what_is_added_to_a_head_is_settled_by_its_first_request() -> None:
    lane = new_lane()
    say(lane, U, "one")
    lane.attach_preamble("old")
    lane.rewrite(lane.items, "truncation", ())
    recorded = lane.epoch
    lane.detach_preamble()
    assert lane.attach_preamble("new") and lane.attach_preamble("newer")
    assert (recorded.head[0].preamble, lane.items[0].preamble) == ("old", "new\nnewer")
    [fixed] = lane.freeze_request().changed_head
    assert (fixed.entry, fixed.preamble, fixed.tokens) == (1, "new\nnewer", lane.items[0].tokens)
    assert not lane.attach_preamble("too late")
    lane.detach_preamble()
    assert lane.items[0].preamble == "new\nnewer" and not lane.freeze_request().changed_head
    again = Conversation.load(lane.log, local_now, measure, recorded, 0, [])
    assert (
        again.attach_preamble("later")
        and not again.fork(lane.log).attach_preamble("in a fork")
        and not again.attach_preamble("after it")
    )


def test_what_is_settled_is_said_once_and_the_head_with_the_first_request() -> None:
    lane = new_lane()
    say(lane, U, "one")
    say(lane, A, "two")
    lane.rewrite(lane.items, "truncation", ())
    say(lane, U, "three")
    first, second = lane.freeze_request(), lane.freeze_request()
    assert len(first.head_lines) == 2
    assert [fixed.entry for fixed in first.fixed] == [3]
    assert (second.head_lines, second.fixed) == ((), ())
    assert (first.previous_end, second.previous_end) == (0, 4)


def test_the_first_request_records_the_epoch_that_nobody_began() -> None:
    lane = new_lane()
    say(lane, U, "one")
    log: Any = lane.log
    assert (lane.is_recorded, log.epochs) == (False, [])
    lane.freeze_request()
    assert lane.is_recorded
    assert [epoch.system for epoch in log.epochs] == ["system text"]
    lane.freeze_request()
    assert len(log.epochs) == 1


def test_a_rewrite_begins_an_epoch_with_a_parent_and_another_frame() -> None:
    lane = new_lane()
    lane.begin()
    say(lane, U, "one")
    epoch = lane.rewrite(lane.items, "reload", (), EpochHeader("n", "other", system_tokens=3))
    assert (epoch.id, epoch.parent, epoch.cause, epoch.base) == (1, 0, "reload", 1)
    assert (epoch.model, epoch.system, epoch.tools) == ("n", "other", ())
    assert lane.tail == []
    assert lane.counted == 3 + measure(Message(U, "one"), "")


def test_a_placeholder_is_never_part_of_a_head() -> None:
    lane = new_lane()
    lane.append(Kind.ASSISTANT, Message(A, "", (ToolCall("c1", "look"),)), "agent")
    placeholder = lane.groups()[0][1]
    assert placeholder.form is ItemForm.STUB
    assert placeholder.tokens == measure(placeholder.message, "")
    lane.rewrite([item for group in lane.groups() for item in group], "truncation", ())
    assert [item.message.role for item in lane.items] == [A]
    lane.append(Kind.TOOL, Message(T, "real", tool_call_id="c1"), "tool:look")
    assert lane.groups()[0][1].message.content == "real"


def test_a_fork_begins_with_the_lines_of_its_parent_and_leaves_it_alone() -> None:
    lane = new_lane()
    lane.begin()
    say(lane, U, "one")
    parent = lines(lane)
    say(lane, A, "two")
    window, cursor = lane.items, lane.cursor
    fork = lane.fork(MemoryLog(lane.last, epochs=1))
    fork.append(Kind.INSTRUCTION, Message(U, "sum up"), "nexus")
    sent = lines(fork)
    assert sent[: len(parent)] == parent
    assert (lane.items, lane.cursor) == (window, cursor)
    assert lines(lane) == sent[:-1]
