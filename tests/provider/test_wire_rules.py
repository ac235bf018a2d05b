"""The rules of neighbours, against litellm's own transformations: longer requests begin with shorter ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server.blocks import blocks, first_difference, is_prefix

from nexus_cli.core.request import Request
from nexus_cli.core.wire import WireRules
from nexus_cli.provider.prompt_cache import add_cache_marks, takes_marks
from nexus_cli.provider.wire_rules import RULES, rules_for

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
ENTRY = st.one_of(
    st.tuples(st.just("user"), TEXT),
    st.tuples(st.just("assistant"), TEXT),
    st.tuples(st.just("batch"), st.lists(TEXT, min_size=1, max_size=3)),
)
ENTRIES = st.lists(ENTRY, max_size=9)


def rendered(rules: WireRules, entries: list[tuple[str, Any]]) -> tuple[list[dict[str, Any]], list[int]]:
    """The messages with bridges, and where a request could have ended: after the person's words or a whole batch."""
    out: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    ends: list[int] = []
    previous: str | None = None
    count = 0

    def add(message: dict[str, Any]) -> None:
        nonlocal previous
        bridge = rules.between(previous, message["role"])
        out.extend([bridge] if bridge else [])
        out.append(message)
        previous = message["role"]

    for kind, value in entries:
        if kind != "batch":
            add({"role": kind, "content": value})
        else:
            ids = [rules.call_id(f"c{count + n}") for n in range(len(value))]
            count += len(value)
            functions = [{"name": "look", "arguments": json.dumps({"at": i})} for i in ids]
            calls = [{"id": i, "type": "function", "function": f} for i, f in zip(ids, functions, strict=True)]
            said: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": calls}
            if not rules.null_content:
                del said["content"]
            add(said)
            for own, text in zip(ids, value, strict=True):
                add({"role": "tool", "tool_call_id": own, "content": text})
        if kind != "assistant":
            ends.append(len(out))
    return out, ends


def configs() -> dict[str, tuple[str, str, Callable[[], Any]]]:
    """Provider to model, wire form and litellm's class that makes the body."""
    import litellm

    return {
        "openai": ("gpt-4o", "chat", litellm.OpenAIGPTConfig),
        "anthropic": ("claude-sonnet-4-5", "anthropic", litellm.AnthropicConfig),
        "mistral": ("mistral-large-latest", "chat", litellm.MistralConfig),
        "deepseek": ("deepseek-chat", "chat", litellm.DeepSeekChatConfig),
        "ollama_chat": ("llama3", "ollama", litellm.OllamaChatConfig),
    }


def body(provider: str, messages: list[dict[str, Any]]) -> tuple[Any, str]:
    """What litellm would send to `provider`, and in which form."""
    fresh = json.loads(json.dumps(messages))
    if provider == "gemini":
        from litellm.llms.vertex_ai.gemini.transformation import _gemini_convert_messages_with_history

        system, rest = fresh[0]["content"], fresh[1:]
        contents = _gemini_convert_messages_with_history(rest, model="gemini-2.5-pro")
        made = {"system_instruction": {"parts": [{"text": system}]}, "contents": contents}
        return json.loads(json.dumps(made)), "gemini"
    model, form, config = configs()[provider]
    tools = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    made = config().transform_request(
        model=model, messages=fresh, optional_params={"max_tokens": 9, "tools": tools}, litellm_params={}, headers={}
    )
    return json.loads(json.dumps(made)), form


PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "mistral", "deepseek", "ollama_chat"])


@pytest.mark.matrix
@PROVIDERS
def test_on_the_wire_each_request_begins_with_the_one_before(provider: str) -> None:
    rules = rules_for(provider)

    @settings(max_examples=40)
    @given(ENTRIES)
    def check(entries: list[tuple[str, Any]]) -> None:
        messages, ends = rendered(rules, entries)
        before: list[Any] = []
        previous = 0
        for end in ends:
            asked = Request(f"{provider}/m", messages[:end], [], 10, previous_end=previous)
            marked = (add_cache_marks(asked) if takes_marks(asked.model, provider) else asked).messages
            seen = blocks(*body(provider, [dict(m) for m in marked]))
            assert is_prefix(before, seen), first_difference(before, seen)
            before, previous = seen, end

    check()


@pytest.mark.matrix
@given(ENTRIES)
def test_bridges_stand_wherever_a_provider_refuses_the_neighbours(entries: list[tuple[str, Any]]) -> None:
    for provider in RULES:
        messages = rendered(rules_for(provider), entries)[0]
        roles = [m["role"] for m in messages[1:]]
        pairs = list(pairwise(roles))
        if provider == "mistral":
            assert ("tool", "user") not in pairs
            assert all(len(c["id"]) == 9 for m in messages for c in m.get("tool_calls", ()))
            assert all(v is not None for m in messages for v in m.values())
        if provider == "deepseek":
            assert ("user", "user") not in pairs and ("assistant", "assistant") not in pairs
        if provider == "gemini":
            assert ("assistant", "assistant") not in pairs
        if provider != "openai" and roles:
            assert roles[0] == "user"


@given(ENTRIES)
def test_a_rule_only_inserts(entries: list[tuple[str, Any]]) -> None:
    plain = [m for m in rendered(WireRules(), entries)[0] if m["role"] in ("user", "tool")]
    for provider in RULES:
        kept = rendered(rules_for(provider), entries)[0]
        texts = [m["content"] for m in kept if m["role"] in ("user", "tool")]
        left = iter(texts)
        assert all(m["content"] in left for m in plain)


@pytest.mark.parametrize(
    ("asked", "family", "provider"),
    [
        ("openai", "openai", "openai"),
        ("unheard-of", "openai", "unheard-of"),
        ("ollama_chat", "ollama", "ollama_chat"),
        ("openrouter/mistralai/mistral-large", "mistral", "openrouter"),
        ("openrouter/deepseek/deepseek-chat", "deepseek", "openrouter"),
        ("openrouter/openai/gpt-5", "openai", "openrouter"),
        ("hosted_vllm/mistralai/Devstral-Small", "mistral", "hosted_vllm"),
        ("openrouter", "openai", "openrouter"),
        ("vertex_ai/claude-sonnet-4-5", "anthropic", "vertex_ai"),
        ("mistral/mistral-large-latest", "mistral", "mistral"),
        ("", "openai", "openai"),
    ],
)
def test_the_rules_of_a_provider_carry_its_own_name(asked: str, family: str, provider: str) -> None:
    found = rules_for(asked)
    assert found.provider == provider
    wanted = RULES[family]
    assert (found.user_after_tool, found.user_after_user, found.call_id_length) == (
        wanted.user_after_tool,
        wanted.user_after_user,
        wanted.call_id_length,
    )
    assert WireRules.loads(found.dumps()) == found


def test_a_provider_and_a_model_given_apart_have_the_rules_of_both() -> None:
    whole = "openrouter/mistralai/mistral-large"
    assert rules_for("openrouter", whole) == rules_for(whole) != rules_for("openrouter")
    assert rules_for("openai", "gpt-4o") == RULES["openai"]
