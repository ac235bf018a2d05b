"""Folding deltas: any chunking of calls, odd ids, thinking, outcomes, and cost that is linear."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.message import Role
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, OpaqueDelta, TextDelta, ThinkingDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.provider.reply import NAMELESS, Reply, ReplyFold, parse_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=4)


def folded(deltas: list[Delta], provider: str = "openai") -> Reply:
    fold = ReplyFold(lambda n: f"id{n}", provider, f"{provider}/m")
    for delta in deltas:
        fold.feed(delta)
    return fold.finish()


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    return [*pieces, text[at:]]


@pytest.mark.matrix
@given(
    st.lists(st.tuples(OBJECT, st.lists(st.integers(0, 4), max_size=8)), min_size=1, max_size=4),
    st.sampled_from(["once", "never", "empty", "echoed", "same"]),
    st.randoms(use_true_random=False),
)
def test_calls_cut_anywhere_and_mixed_anyhow_come_out_whole(
    calls: list[tuple[dict[str, Any], list[int]]], ids: str, random: Any
) -> None:
    queues: list[list[CallDelta]] = []
    for place, (arguments, sizes) in enumerate(calls):
        own = {"never": "", "empty": "", "same": "x"}.get(ids, f"p{place}")
        pieces = cut(json.dumps(arguments), sizes)
        first = CallDelta(place, own, f"tool{place}", pieces[0])
        rest = [CallDelta(place, own if ids == "echoed" else "", "", piece) for piece in pieces[1:]]
        queues.append([first, *rest])
    deltas: list[Delta] = [queue.pop(0) for queue in queues]
    while waiting := [queue for queue in queues if queue]:
        deltas.append(random.choice(waiting).pop(0))
    reply = folded([*deltas, FinishDelta("stop")])
    assert [(c.id, c.name, c.arguments, c.raw) for c in reply.message.tool_calls] == [
        (f"id{n}", f"tool{n}", arguments, "") for n, (arguments, _) in enumerate(calls)
    ]
    assert reply.finish == "tool_calls"


@pytest.mark.matrix
@given(st.lists(st.tuples(OBJECT, st.lists(st.integers(0, 4), max_size=8)), min_size=1, max_size=4), st.booleans())
def test_calls_without_an_index_go_by_id_or_by_name(
    calls: list[tuple[dict[str, Any], list[int]]], with_ids: bool
) -> None:
    deltas: list[Delta] = []
    for place, (arguments, sizes) in enumerate(calls):
        own = f"p{place}" if with_ids else ""
        pieces = cut(json.dumps(arguments), sizes)
        deltas += [CallDelta(None, own, "look", pieces[0])]
        deltas += [CallDelta(None, own, "", piece) for piece in pieces[1:]]
    reply = folded(deltas)
    assert [c.arguments for c in reply.message.tool_calls] == [arguments for arguments, _ in calls]


def test_several_calls_that_all_claim_index_0_are_several() -> None:
    reply = folded([CallDelta(0, "a", "look", '{"n": 1}'), CallDelta(0, "b", "look", '{"n": 2}')])
    assert [c.arguments for c in reply.message.tool_calls] == [{"n": 1}, {"n": 2}]
    reply = folded([CallDelta(0, "", "look", '{"n": 1}'), CallDelta(0, "", "look", '{"n": 1}')])
    assert len(reply.message.tool_calls) == 2


def test_a_name_in_pieces_is_joined_and_a_repeated_one_is_not_doubled() -> None:
    joined = folded([CallDelta(0, "a", "read_"), CallDelta(0, "", "file"), CallDelta(0, "", "", "{}")])
    repeated = folded([CallDelta(0, "a", "read_file", "{"), CallDelta(0, "a", "read_file", "}")])
    assert joined.message.tool_calls[0].name == repeated.message.tool_calls[0].name == "read_file"


@pytest.mark.matrix
@given(st.text(max_size=80))
def test_every_name_becomes_one_that_providers_take_back(name: str) -> None:
    (call,) = folded([CallDelta(0, "a", name, "{}")]).message.tool_calls
    assert call.name and len(call.name) <= 64
    assert call.name.replace("_", "a").replace("-", "a").isalnum() and call.name.isascii()


def test_a_call_without_a_name_is_still_a_call() -> None:
    assert folded([CallDelta(0, "a", "", "{}")]).message.tool_calls[0].name == NAMELESS


@pytest.mark.matrix
@given(st.text())
def test_arguments_are_an_object_or_the_raw_text(text: str) -> None:
    arguments, raw = parse_arguments(text)
    assert raw in ("", text)
    assert not (arguments and raw)


@pytest.mark.matrix
@given(OBJECT)
def test_objects_are_read_once_or_twice_encoded(value: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(value)) == (value, "")
    assert parse_arguments(json.dumps(json.dumps(value))) == (value, "")


DEEP = '{"a": ' + "[" * 400 + "]" * 400 + "}"
RAW = [
    "[1]",
    "3",
    "true",
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": [-1e999]}',
    '{"a": 1',
    "{}{}",
    '"text"',
    "[" * 100_000,
    DEEP,
]


@pytest.mark.parametrize("text", [*RAW, json.dumps('{"a": 1e999}')])
def test_what_is_no_object_is_kept_raw(text: str) -> None:
    assert parse_arguments(text) == ({}, text)


OUTCOMES: list[tuple[list[Delta], str, bool]] = [
    ([TextDelta("a"), FinishDelta("stop")], "stop", False),
    ([TextDelta("a"), FinishDelta("eos")], "stop", False),
    ([TextDelta("a")], "none", True),
    ([], "empty", True),
    ([FinishDelta("stop")], "empty", True),
    ([TextDelta(" \n"), FinishDelta("stop")], "empty", True),
    ([FinishDelta("length")], "length", True),
    ([TextDelta("a"), FinishDelta("length")], "length", True),
    ([TextDelta("a"), FinishDelta("content_filter")], "refused", True),
    ([CallDelta(0, "", "look", "{}"), FinishDelta("stop")], "tool_calls", False),
    ([CallDelta(0, "", "look", '{"a'), FinishDelta("length")], "tool_calls", True),
    ([CallDelta(0, "", "look", "{}")], "tool_calls", True),
    ([CallDelta(0, "", "look", "{}"), FinishDelta("content_filter")], "refused", True),
]


@pytest.mark.parametrize(("deltas", "finish", "problem"), OUTCOMES)
def test_the_outcome_goes_by_what_is_there(deltas: list[Delta], finish: str, problem: bool) -> None:
    reply = folded(deltas)
    assert (reply.finish, bool(reply.problem)) == (finish, problem)
    assert bool(reply.message.tool_calls) == (finish == "tool_calls")


def test_usage_is_none_unless_it_was_reported() -> None:
    assert folded([TextDelta("a"), FinishDelta("stop")]).usage is None
    assert folded([UsageDelta(Usage(3, 4)), FinishDelta("stop")]).usage == Usage(3, 4)


def test_the_partial_message_has_the_text_and_no_half_call() -> None:
    fold = ReplyFold(lambda n: f"id{n}", "anthropic", "m")
    for delta in (TextDelta("so "), TextDelta("far"), CallDelta(0, "a", "look", '{"')):
        fold.feed(delta)
    message = fold.partial()
    assert (message.role, message.content, message.tool_calls, message.opaque) == (Role.ASSISTANT, "so far", (), None)


def opaque(reply: Reply) -> dict[str, Any]:
    assert reply.message.opaque is not None
    loaded: dict[str, Any] = json.loads(reply.message.opaque.data)
    return loaded


def block(thinking: str, signature: str = "") -> OpaqueDelta:
    value = {"type": "thinking", "thinking": thinking} | ({"signature": signature} if signature else {})
    return OpaqueDelta("thinking_blocks", [value])


@pytest.mark.parametrize("last", ["", "one two"])
def test_signed_thinking_is_joined_whether_the_signature_repeats_the_text_or_not(last: str) -> None:
    redacted = OpaqueDelta("thinking_blocks", [{"type": "redacted_thinking", "data": "RR"}])
    reply = folded([block("one "), block("two"), block(last, "S1"), redacted, block("x", "S2")], "anthropic")
    assert opaque(reply)["message"]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "one two", "signature": "S1"},
        {"type": "redacted_thinking", "data": "RR"},
        {"type": "thinking", "thinking": "x", "signature": "S2"},
    ]


def test_unsigned_or_made_up_thinking_does_not_go_back() -> None:
    assert folded([block("one"), TextDelta("a"), FinishDelta("stop")], "anthropic").message.opaque is None
    assert folded([block("one", "mistral"), TextDelta("a")], "mistral").message.opaque is None


def test_thinking_takes_the_time_until_the_answer_or_the_end_of_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("nexus_cli.provider.reply.time.monotonic", lambda: now[0])

    def seconds(*deltas: Delta) -> float:
        fold = ReplyFold(str, "openai", "openai/m")
        for delta in (ThinkingDelta("hm"), *deltas):
            fold.feed(delta)
            now[0] += 2
        return float(fold.shown_thinking.note(None)["seconds"])

    assert seconds(TextDelta("\n"), TextDelta("so"), TextDelta("it is")) == 4, "as a screen counts"
    assert seconds(CallDelta(0, "c1", "look", "{}")) == 4
    assert seconds(ThinkingDelta("more"), TextDelta("so")) == 4


def test_thoughts_before_and_behind_a_text_are_kept_apart() -> None:
    fold = ReplyFold(str, "openai", "openai/m")
    for delta in (
        TextDelta("Well"),
        ThinkingDelta("First"),
        ThinkingDelta(" one."),
        TextDelta("so"),
        ThinkingDelta("Then."),
    ):
        fold.feed(delta)
    assert fold.shown_thinking.note(None)["text"] == "First one.\n\nThen."


def test_reasoning_text_goes_back_only_where_it_is_wanted() -> None:
    deltas: list[Delta] = [
        OpaqueDelta("reasoning_content", "be"),
        OpaqueDelta("reasoning_content", "cause"),
        TextDelta("a"),
        FinishDelta("stop"),
    ]
    assert opaque(folded(deltas, "deepseek")) == {"message": {"reasoning_content": "because"}, "calls": {}}
    assert folded(deltas, "openai").message.opaque is None


def test_the_providers_call_ids_are_kept_where_they_carry_a_signature() -> None:
    deltas: list[Delta] = [CallDelta(0, "call_1__thought__SIG", "look", "{}"), FinishDelta("stop")]
    assert opaque(folded(deltas, "gemini"))["calls"] == {"id0": {"id": "call_1__thought__SIG"}}
    assert folded(deltas, "openai").message.opaque is None


@pytest.mark.parametrize(("provider", "kept"), [("gemini", ["a", "b"]), ("openai", ["a", "a", "b"])])
def test_equal_calls_become_one_only_where_the_adapter_would_send_one(provider: str, kept: list[str]) -> None:
    deltas: list[Delta] = [
        CallDelta(n, f"x{n}", "read_file", json.dumps({"path": path})) for n, path in enumerate(["a", "a", "b"])
    ]
    reply = folded([*deltas, FinishDelta("tool_calls")], provider)
    assert [call.arguments["path"] for call in reply.message.tool_calls] == kept
    assert [call.id for call in reply.message.tool_calls] == [f"id{n}" for n in range(len(kept))]
