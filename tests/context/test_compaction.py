"""Compaction as seed A's public functions, and how a manager takes its result."""

from __future__ import annotations

import inspect
from datetime import datetime
from typing import Any

import pytest
from context.conversation import Letters, assert_pairs, manager, texts
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context import (
    CompactionResult,
    ContextManager,
    SimpleTokenCounter,
    build_summarize_prompt,
    create_summary_message,
    select_messages_for_compaction,
)
from nexus_cli.core import Message, Role, ToolCall
from nexus_cli.core.clock import format_local_time, local_now

U, A = Role.USER, Role.ASSISTANT
SUMMARY = Message(U, "[CONTEXT SUMMARY] so far")
IDS = st.sampled_from(["a", "b"])
TALK = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from([U, A]), st.text("xy", max_size=30)),
        st.builds(
            lambda ids: Message(A, "", tuple(ToolCall(i, "f") for i in ids)), st.lists(IDS, min_size=1, max_size=2)
        ),
        st.builds(lambda i, text: Message(Role.TOOL, text, tool_call_id=i), IDS, st.text("r", max_size=30)),
    ),
    max_size=20,
)


def call(*ids: str) -> Message:
    return Message(A, "", tuple(ToolCall(i, "f") for i in ids))


def result(id: str, text: str = "r") -> Message:
    return Message(Role.TOOL, text, tool_call_id=id)


def selected(messages: list[Message], budget: int, ratio: float) -> tuple[list[Message], list[Message]]:
    return select_messages_for_compaction(messages, Letters(), budget, ratio)


# -- selection -----------------------------------------------------------------------------------------------------


def test_selection_has_the_seeds_parameters() -> None:
    parameters = inspect.signature(select_messages_for_compaction).parameters
    assert list(parameters) == ["messages", "token_counter", "available_budget", "recent_preserve_ratio"]
    split = select_messages_for_compaction(
        messages=[Message(U, "x")],
        token_counter=SimpleTokenCounter(),
        available_budget=6000,
        recent_preserve_ratio=0.25,
    )
    assert split == ([], [Message(U, "x")])
    assert selected([], 100, 0.25) == ([], [])


@given(TALK, st.integers(0, 400), st.floats(0, 1))
def test_both_parts_together_are_the_list_in_order_and_the_newest_is_preserved(
    messages: list[Message], budget: int, ratio: float
) -> None:
    old, recent = selected(messages, budget, ratio)
    assert old + recent == messages
    assert recent or not messages


@given(TALK, st.integers(0, 400), st.floats(0, 1))
def test_selection_never_splits_a_group(messages: list[Message], budget: int, ratio: float) -> None:
    old, recent = selected(messages, budget, ratio)
    waiting: list[str] = []
    for message in old:
        waiting = [c.id for c in message.tool_calls] if message.tool_calls else waiting
        if message.role is Role.TOOL and message.tool_call_id in waiting:
            waiting.remove(message.tool_call_id or "")
    later = {m.tool_call_id for m in recent[: next((i for i, m in enumerate(recent) if m.tool_calls), len(recent))]}
    assert not set(waiting) & later, "a result is preserved whose call is summarised"
    assert not old or not recent or recent[0].role is not Role.TOOL


@given(TALK, st.integers(0, 400), st.floats(0, 1))
def test_more_than_the_newest_is_preserved_only_within_the_budget(
    messages: list[Message], budget: int, ratio: float
) -> None:
    _, recent = selected(messages, budget, ratio)
    least = selected(messages, 0, 0)[1]
    assert recent[len(recent) - len(least) :] == least
    assert recent == least or Letters().count_messages(recent) <= int(budget * ratio)


def test_the_extremes_of_the_ratio() -> None:
    messages = [Message(U, "one"), call("a"), result("a"), Message(A, "two"), call("b", "c"), result("b"), result("c")]
    assert selected(messages, 1000, 0) == (messages[:4], messages[4:])
    assert selected(messages, 1000, 1) == ([], messages)
    assert selected(messages, 44, 1)[1] == messages[3:]


def test_a_late_result_keeps_everything_since_its_call_together() -> None:
    messages = [Message(U, "one"), call("a"), Message(U, "two"), result("a")]
    assert selected(messages, 0, 0) == (messages[:1], messages[1:])


# -- the prompt ----------------------------------------------------------------------------------------------------


def told(*messages: Message) -> str:
    prompt = build_summarize_prompt(list(messages))
    assert prompt.count("CONVERSATION:") >= 1
    assert prompt.rstrip().endswith("SUMMARY:")
    return prompt.partition("CONVERSATION:")[2].rpartition("SUMMARY:")[0].strip()


def test_the_transcript_has_a_line_for_each_speaker() -> None:
    spoken = told(Message(U, "hello"), Message(A, "I look", (ToolCall("c1", "f", {"at": "x"}),)), result("c1", "seen"))
    lines = spoken.splitlines()
    assert lines[0] == "USER: hello"
    assert lines[1] == "ASSISTANT: I look"
    assert lines[2].startswith("ASSISTANT: ")
    assert '{"at":"x"}' in lines[2]
    assert lines[-1] == "TOOL[c1]: seen"


@given(st.lists(st.builds(Message, st.sampled_from([U, A]), st.text("abc \nSUMMARY:", min_size=1)), max_size=5))
def test_the_whole_text_stands_between_the_two_words_even_when_it_contains_them(messages: list[Message]) -> None:
    spoken = told(*messages)
    assert spoken == "\n".join(f"{m.role.upper()}: {m.content}" for m in messages).strip()


def test_an_empty_conversation_still_makes_a_prompt() -> None:
    assert told() == ""
    assert told(Message(A, "", (ToolCall("c1", "f", {"odd": {1, 2}}),))).startswith("ASSISTANT: ")


KEYS = [
    "sk-abc123def456ghi789jkl",
    "sk-proj-AbCdEf0123456789_-xyz",
    "sk-ant-api03-AAAAbbbbCCCC1111",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnop",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "xoxb-123456789012-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "KEY={}", '{{"k": "{}"}}', "see {}.", "({})", "x\n{}\ny", "https://h/?k={}"])
def test_strings_that_look_like_keys_never_reach_the_summariser(key: str, around: str) -> None:
    text = around.format(key)
    for message in (Message(U, text), result("c1", text), Message(A, "", (ToolCall("c", "f", {"a": text}),))):
        prompt = build_summarize_prompt([message])
        assert key not in prompt
        assert key[10:] not in prompt
        assert "[redacted]" in prompt


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc123.def-456_ghi", "abc123.def-456_ghi"),
        ("authorization: bearer  AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEfGhIjKlMnOpQrStUvWx"),
        ('{"api_key":"0a1b2c3d4e5f"}', "0a1b2c3d4e5f"),
        ("export DB_PASSWORD='hunter2hunter2'", "hunter2hunter2"),
        ("postgres://app:pa55word@db/x", "pa55word"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ],
)
def test_secrets_that_are_named_are_redacted_and_their_names_stay(text: str, secret: str) -> None:
    spoken = told(Message(U, text))
    assert secret not in spoken
    assert "[redacted]" in spoken
    assert "BEGIN" in text or text[:8] in spoken


@pytest.mark.parametrize(
    "text",
    [
        "src/sketch_controller.py and skeleton-loader-component",
        "sk-learn-pipeline",
        "the bearer of good tidings",
        "sorted(rows, key=operator.itemgetter(1))",
        "def ask(token: str, tokens: int = 128000) -> None",
        "max_tokens=128000000",
        "https://example.org:8080/a@b",
        "ask for a hf_model",
        "SECRET = read(path)",
    ],
)
def test_prose_and_code_are_not_redacted(text: str) -> None:
    assert told(Message(U, text)) == f"USER: {text}"


@pytest.mark.parametrize(
    "piece", ["token", "password=", "a", "eyJ-", "sk-", "bearer ", "a://", "-----BEGIN PRIVATE KEY"]
)
def test_no_text_makes_redaction_slow(piece: str) -> None:
    assert told(Message(U, piece * (60_000 // len(piece)))).startswith("USER: ")


# -- the summary ---------------------------------------------------------------------------------------------------


def test_the_summary_is_a_user_message_with_prefix_time_and_text() -> None:
    message = create_summary_message("the\n---\ntext", lambda: datetime(2026, 1, 13, 14, 30))
    assert message.role is U
    assert message.content.startswith("[CONTEXT SUMMARY")
    assert "2026-01-13 14:30" in message.content.splitlines()[0]
    assert message.content.endswith("---\nthe\n---\ntext")
    assert create_summary_message("x").content.endswith("---\nx")
    began, content = local_now(), create_summary_message("x").content
    assert any(format_local_time(moment) in content for moment in (began, local_now()))
    assert create_summary_message("").content.endswith("---\n")


def test_a_result_holds_what_the_seed_names() -> None:
    outcome = CompactionResult(SUMMARY, [Message(U, "x")], 100, 20)
    assert (outcome.summary_message, outcome.preserved_messages) == (SUMMARY, [Message(U, "x")])
    assert (outcome.original_token_count, outcome.new_token_count) == (100, 20)


# -- applying it ---------------------------------------------------------------------------------------------------


def talk(*messages: Message, budget: int = 10_000) -> ContextManager:
    context = manager(budget)
    for message in messages:
        if message.role is U:
            context.add_user_message(message.content)
        elif message.role is A:
            context.add_assistant_message(message.content, message.tool_calls)
        else:
            context.add_tool_result(message.tool_call_id or "", "f", message.content)
    return context


ONE, TWO, OK, YES = Message(U, "one"), Message(U, "two"), Message(U, "ok"), Message(A, "yes")


@pytest.mark.parametrize(
    ("said", "kept", "fresh", "request_"),
    [
        ([ONE, YES, TWO], [], 0, TWO),
        ([ONE, YES, TWO], [TWO], 0, None),
        ([ONE, YES, TWO], [YES, TWO], 0, None),
        ([ONE, YES, TWO], [ONE, YES, TWO], 0, None),
        ([OK, YES, OK, YES], [OK, YES], 0, None),
        ([OK, YES, OK, YES], [OK, YES, OK, YES], 0, None),
        ([OK, OK, OK], [OK, OK], 0, None),
        ([ONE, YES, TWO], [ONE], 1, TWO),
        ([ONE, YES, TWO], [TWO, Message(A, "new")], 1, None),
        ([ONE, YES, TWO], [Message(U, "edited"), TWO], 2, None),
        ([ONE, call("a"), result("a")], [call("a"), result("a")], 0, ONE),
        ([ONE, call("a", "b"), result("b"), result("a")], [call("a", "b"), result("a"), result("b")], 0, ONE),
        ([], [ONE], 1, None),
    ],
)
def test_preserved_messages_are_matched_to_the_end_of_the_window_and_the_newest_request_stays(
    said: list[Message], kept: list[Message], fresh: int, request_: Message | None
) -> None:
    context = talk(*said)
    context.build_messages()
    before = len(context.history)
    context.apply_compaction(SUMMARY, kept)
    shown = [SUMMARY, *([request_] if request_ else []), *kept]
    assert context.messages == shown
    assert context.build_messages() == shown
    assert len(context.history) == before + fresh


@given(TALK, st.integers(0, 400), st.floats(0, 1), st.booleans())
def test_what_was_selected_from_the_window_is_taken_without_anything_new(
    messages: list[Message], budget: int, ratio: float, built: bool
) -> None:
    context = talk(*messages)
    if built:
        context.build_messages()
    before = context.history
    _, recent = selected(context.messages, budget, ratio)
    newest = next((m for m in reversed(context.messages) if m.role is U), None)
    context.apply_compaction(summary_message=SUMMARY, preserved_messages=recent)
    assert context.history == before
    assert context.messages == [SUMMARY, *([newest] if newest and newest not in recent else []), *recent]
    made = context.build_messages()
    assert made[0] == SUMMARY
    assert_pairs(made)


def test_a_built_list_may_be_given_as_what_was_preserved() -> None:
    context = manager(10_000, clock=lambda: datetime(2026, 1, 13, 14, 30))
    context.set_system_prompt("S")
    context.add_user_message("one")
    built = context.build_messages()
    context.apply_compaction(SUMMARY, built)
    assert context.build_messages() == [built[0], SUMMARY, built[1]]
    assert context.history == [ONE]


def test_an_open_call_that_was_preserved_still_gets_its_real_result() -> None:
    context = talk(ONE, call("a"))
    context.build_messages()
    context.apply_compaction(SUMMARY, context.messages[1:])
    context.add_tool_result("a", "f", "at last")
    assert context.messages == [SUMMARY, ONE, call("a"), result("a", "at last")]
    assert context.build_messages() == context.messages


def test_a_placeholder_that_is_handed_back_is_not_taken_for_a_result() -> None:
    context = talk(ONE, call("a"))
    context.build_messages()
    context.apply_compaction(SUMMARY, [TWO, *context.messages[1:]])
    assert texts(context.history) == ["one", "", "two", ""]
    context.add_tool_result("a", "f", "at last")
    assert context.build_messages() == [SUMMARY, ONE, TWO, call("a"), result("a", "at last")]


def test_a_result_without_its_call_is_not_shown_after_compaction() -> None:
    context = talk(ONE, call("a"), result("a"), TWO)
    context.apply_compaction(SUMMARY, [result("a"), TWO])
    assert context.build_messages() == [SUMMARY, TWO]


def test_a_new_system_prompt_comes_with_the_compaction_and_only_then() -> None:
    context = talk(ONE, YES)
    context.set_system_prompt("old")
    context.apply_compaction(SUMMARY, [YES], new_system_prompt="new")
    assert texts(context.build_messages()) == ["new", SUMMARY.content, "one", "yes"]
    context.apply_compaction(SUMMARY, [])
    assert context.system_prompt == "new"
    context.apply_compaction(SUMMARY, [], new_system_prompt="")
    assert context.build_messages() == [SUMMARY, ONE]


def state(context: ContextManager) -> tuple[Any, ...]:
    """Everything that can be seen of a manager without building."""
    usage, over = context.get_token_usage(), context.is_over_budget()
    return (
        context.messages,
        context.history,
        context.system_prompt,
        usage,
        over,
        context.conversation.epoch,
        context.conversation.items,
    )


@pytest.mark.parametrize("text", ["", " \n", create_summary_message("").content, create_summary_message("\n ").content])
@pytest.mark.parametrize("built", [True, False])
def test_a_blank_summary_is_refused_and_leaves_everything_as_it_was(text: str, built: bool) -> None:
    context = talk(ONE, YES, TWO)
    if built:
        context.build_messages()
    before = state(context)
    with pytest.raises(ValueError, match="summary"):
        context.apply_compaction(Message(U, text), [TWO, Message(A, "new")], new_system_prompt="another")
    assert state(context) == before


@pytest.mark.parametrize("role", [A, Role.SYSTEM, Role.TOOL])
def test_a_summary_that_would_be_left_out_of_what_is_built_is_refused(role: Role) -> None:
    context = talk(ONE)
    with pytest.raises(ValueError, match="user message"):
        context.apply_compaction(Message(role, "summary"), [])


@given(
    TALK,
    st.integers(0, 600),
    st.integers(0, 6),
    st.lists(st.sampled_from([ONE, TWO, YES]), max_size=2),
    st.none() | st.integers(0, 300),
    st.booleans(),
)
def test_a_compaction_is_refused_where_the_window_becomes_larger_and_over_the_budget_and_only_there(
    messages: list[Message], length: int, keep: int, fresh: list[Message], system: int | None, built: bool
) -> None:
    context = talk(*messages, budget=400)
    if built:
        context.build_messages()
    before, seen = state(context), context.messages
    tokens = context.get_token_usage()["messages"]
    kept = [*(seen[-keep:] if keep else []), *fresh]
    newest = next((m for m in reversed(seen) if m.role is U), None)
    summary = Message(U, "s" * length)
    prompt = None if system is None else "p" * system
    try:
        context.apply_compaction(summary, kept, new_system_prompt=prompt)
    except ValueError:
        assert state(context) == before
        twin = talk(summary, *([newest] if newest and newest not in kept else []), *kept)
        twin.set_system_prompt(prompt or "")
        usage = twin.get_token_usage()
        assert not length or (usage["messages"] > tokens and usage["total"] > 400)
        return
    usage = context.get_token_usage()
    assert length and (usage["messages"] <= tokens or usage["total"] <= 400)
    assert context.messages[0] == summary
    assert newest is None or newest in context.messages
    assert context.history[: len(before[1])] == before[1]


def test_compaction_again_and_again_keeps_one_summary() -> None:
    context = talk(ONE, YES)
    for number in range(4):
        context.add_user_message(f"turn {number}")
        context.apply_compaction(Message(U, f"summary {number}"), context.messages[-1:])
        assert texts(context.build_messages()) == [f"summary {number}", f"turn {number}"]
    assert len(context.history) == 6
