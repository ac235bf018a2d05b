"""Cache marks: where, how many, and that they change nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider.talk import ASKED, TOOL, ask
from server.play import ScriptedServer

from nexus_cli.core.request import Request
from nexus_cli.provider.prompt_cache import (
    LOOK_BACK,
    MAX_MARKS,
    add_cache_marks,
    cache_key_arguments,
    count_blocks,
    takes_marks,
)


def batch(calls: int) -> list[dict[str, Any]]:
    made = [{"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for n in range(calls)]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"r{n}"} for n in range(calls)]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *results]


def marked(messages: Sequence[Any]) -> list[int]:
    return [i for i, m in enumerate(messages) if "cache_control" in m]


def test_ends_of_system_previous_request_and_this_one_are_marked() -> None:
    messages = [*ASKED, *batch(2)]
    made = add_cache_marks(Request("claude-x", messages, [TOOL], 10, previous_end=2))
    assert marked(made.messages) == [0, 1, 4]


def test_a_long_batch_gets_a_spare_within_reach() -> None:
    messages = [*ASKED, *batch(30)]
    places = marked(add_cache_marks(Request("claude-x", messages, [TOOL], 10, previous_end=2)).messages)
    assert len(places) == 4
    assert places[:2] == [0, 1] and places[-1] == len(messages) - 1
    between = sum(count_blocks(m) for m in messages[2 : places[2] + 1])
    assert LOOK_BACK <= between <= 31


@given(
    st.lists(st.one_of(st.just("user"), st.integers(1, 25)), max_size=6),
    st.integers(0, 60),
    st.booleans(),
)
def test_marks_are_few_and_change_nothing_else(turns: list[Any], previous_end: int, system: bool) -> None:
    messages: list[Any] = list(ASKED if system else ASKED[1:])
    for turn in turns:
        messages += [{"role": "user", "content": "more"}] if turn == "user" else batch(turn)
    asked = Request("x/claude-y", messages, [TOOL, TOOL], 10, previous_end=min(previous_end, len(messages)))
    made = add_cache_marks(asked)
    assert [{k: v for k, v in m.items() if k != "cache_control"} for m in made.messages] == messages
    assert [{k: v for k, v in t.items() if k != "cache_control"} for t in made.tools] == [TOOL, TOOL]
    assert 0 < len(marked(made.messages)) + len(marked(made.tools)) <= MAX_MARKS
    assert all(made.messages[i]["role"] != "assistant" for i in marked(made.messages))


def test_only_claude_takes_marks() -> None:
    assert takes_marks("anthropic/anything", "anthropic") and takes_marks("openrouter/anthropic/claude-x", "openrouter")
    assert not takes_marks("openrouter/openai/gpt-5", "openrouter") and not takes_marks("openai/claude-x", "openai")


def test_on_the_wire_anthropic_gets_marks_and_unchanged_text(model_server: ScriptedServer) -> None:
    messages = [*ASKED, *batch(3)]
    ask(model_server, "anthropic", messages, previous_end=2)
    body = model_server.requests[0].body
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    first, _, results = (m["content"] for m in body["messages"])
    assert first == [{"type": "text", "text": "Look at it.", "cache_control": {"type": "ephemeral"}}]
    assert [("cache_control" in r, r["content"]) for r in results] == [(False, "r0"), (False, "r1"), (True, "r2")]


def test_a_second_request_is_read_from_the_cache_up_to_the_mark(model_server: ScriptedServer) -> None:
    first = ask(model_server, "anthropic")
    second = ask(model_server, "anthropic", [*ASKED, *batch(25)], previous_end=2)
    assert first.reply.usage is not None and second.reply.usage is not None
    assert second.reply.usage.cache_read == first.reply.usage.cache_write > 0


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("model", "provider"), [("openai/gpt-4o", "openai"), ("xai/grok-4", "xai"), ("mistral/mistral-large", "mistral")]
)
def test_the_cache_key_goes_where_the_provider_looks_for_it(
    model: str, provider: str, model_server: ScriptedServer
) -> None:
    assert ask(model_server, "chat", model=model, cache_key="lane-1").error is None
    sent = model_server.requests[0]
    assert (sent.body.get("prompt_cache_key") == "lane-1") == (provider == "openai")
    assert (sent.headers.get("x-grok-conv-id") == "lane-1") == (provider == "xai")


def test_without_a_key_nothing_is_sent() -> None:
    assert cache_key_arguments("", "openai") == {}
