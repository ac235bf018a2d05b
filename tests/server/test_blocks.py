"""Blocks of a request: the same in every form, blind to cache marks and to nothing else."""

from __future__ import annotations

import ast
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.blocks import blocks, content, first_difference, is_prefix

MARK = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"cache_control": {"type": "string"}}}

CHAT: dict[str, Any] = {
    "model": "m",
    "prompt_cache_key": "k",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ],
}
ANTHROPIC: dict[str, Any] = {
    "tools": [{"name": "f", "input_schema": SCHEMA}],
    "system": "be brief",
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"cache_control": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
    ],
}
GEMINI: dict[str, Any] = {
    "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}],
    "systemInstruction": {"parts": [{"text": "be brief"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"content": "found"}}}]},
    ],
}
BODIES = {"chat": CHAT, "anthropic": ANTHROPIC, "gemini": GEMINI, "ollama": CHAT}


def marked(body: dict[str, Any], form: str) -> dict[str, Any]:
    """`body` as a client sends it that marks everything that can be marked."""
    made = copy.deepcopy(body)
    for tool in made["tools"]:
        tool |= MARK
    if isinstance(made.get("system"), str):
        made["system"] = [MARK | {"type": "text", "text": made["system"]}]
    for message in made["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"], **MARK}]
        elif isinstance(message["content"], list):
            for part in message["content"]:
                part |= MARK
                if isinstance(part.get("content"), str):
                    part["content"] = [{"type": "text", "text": part["content"], **MARK}]
        elif form == "chat":
            message |= MARK
    return made


@pytest.mark.parametrize("form", ["chat", "anthropic"])
def test_cache_marks_change_no_block_and_are_seen(form: str) -> None:
    body = BODIES[form]
    assert blocks(marked(body, form), form) == blocks(body, form)
    assert all(block.marked for block in content(marked(body, form), form))
    assert not any(block.marked for block in content(body, form))


@pytest.mark.parametrize("form", ["chat", "anthropic"])
def test_a_key_named_like_a_mark_inside_a_schema_is_content(form: str) -> None:
    changed = copy.deepcopy(BODIES[form])
    tool = changed["tools"][0]
    schema = tool["input_schema"] if form == "anthropic" else tool["function"]["parameters"]
    schema["properties"]["cache_control"] = {"type": "integer"}
    assert blocks(changed, form) != blocks(BODIES[form], form)


@pytest.mark.parametrize("form", BODIES)
def test_any_changed_text_or_id_shows(form: str) -> None:
    before = blocks(BODIES[form], form)
    text = str(BODIES[form])
    for old, new in (("be brief", "be long"), ("'hi'", "'ho'"), ("found", "lost"), ("'f'", "'h'")):
        changed = ast.literal_eval(text.replace(old, new))
        assert blocks(changed, form) != before and first_difference(before, blocks(changed, form))


MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=8)}), max_size=8
)


@given(MESSAGES, st.data())
def test_a_request_is_a_prefix_of_a_longer_one_and_of_no_changed_one(messages: list[Any], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(messages)))
    short, long = blocks({"messages": messages[:length]}, "chat"), blocks({"messages": messages}, "chat")
    assert is_prefix(short, long) and first_difference(short, long) == ""
    if length:
        place = data.draw(st.integers(0, length - 1))
        changed = copy.deepcopy(messages)
        changed[place]["content"] += "!"
        other = blocks({"messages": changed}, "chat")
        assert not is_prefix(short, other)
        assert first_difference(short, other).startswith(f"block {place} at character")
