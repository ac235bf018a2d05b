"""What the backend puts on the wire, and that messages past the SDK are the same bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider.talk import ASKED, MODELS, TOOL, ask, hear, request
from search import sample
from server.play import ScriptedServer

from nexus_cli.core.request import ModelInfo
from nexus_cli.core.wire import canonical
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.message_lines import MessageEncoder

FORMS = pytest.mark.parametrize("form", list(MODELS))


@pytest.mark.matrix
@FORMS
def test_the_output_cap_stands_on_the_wire(form: str, model_server: ScriptedServer) -> None:
    ask(model_server, form, max_output=77)
    body = model_server.requests[0].body
    places = {
        "chat": lambda: body["max_tokens"],
        "anthropic": lambda: body["max_tokens"],
        "gemini": lambda: body["generationConfig"]["max_output_tokens"],
        "ollama": lambda: body["options"]["num_predict"],
    }
    assert places[form]() == 77


def test_a_reasoning_model_gets_its_own_word_for_the_cap(model_server: ScriptedServer) -> None:
    ask(model_server, "chat", model="openai/gpt-5", effort="low", max_output=500)
    body = model_server.requests[0].body
    assert body["max_completion_tokens"] == 500 and "max_tokens" not in body
    assert body["reasoning_effort"] == "low"


def test_an_effort_that_the_model_does_not_take_is_left_out(model_server: ScriptedServer) -> None:
    heard = ask(model_server, "chat", effort="high")
    assert heard.error is None
    assert "reasoning_effort" not in model_server.requests[0].body


@pytest.mark.parametrize(
    ("form", "newer", "before"),
    [
        ("anthropic", "anthropic/claude-opus-5-5", "anthropic/claude-opus-5"),
        ("chat", "openai/gpt-6-luna", "openai/gpt-5.6-luna"),
        ("gemini", "gemini/gemini-3.8-flash", "gemini/gemini-3.5-flash"),
    ],
)
def test_a_model_that_litellm_lacks_gets_the_request_of_the_one_before(
    form: str, newer: str, before: str, model_server: ScriptedServer
) -> None:
    model_server.load(["one", "two"])
    for model in (newer, before):
        assert ask(model_server, form, model=model, effort="high", max_output=5_000).error is None
    sent, expected = ({**one.body, "model": ""} for one in model_server.requests)
    assert sent == expected
    assert "high" in json.dumps(sent) or "thinking" in json.dumps(sent)


async def test_ollama_is_told_the_size_of_the_window_that_is_known_by_then(model_server: ScriptedServer) -> None:
    """The server may have begun, or have got another version of the model, after the first request."""
    windows = [128_000, 8_000]

    model_server.load(["one", "two"])
    infos = (ModelInfo("ollama_chat/mine", "ollama_chat", window) for window in windows)
    backend = LitellmBackend(api_base=model_server.base("ollama"), info=lambda name: next(infos))
    for _ in windows:
        await hear(backend, request("ollama/mine"))
    await backend.aclose()
    sent = [one.body["options"]["num_ctx"] for one in model_server.requests if one.path == "/api/chat"]
    assert sent == windows


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
TURN = st.one_of(
    st.builds(lambda t: [{"role": "user", "content": t}, {"role": "assistant", "content": t}], TEXT),
    st.builds(
        lambda t, n: [
            {
                "role": "assistant",
                "content": None if n else t,
                "tool_calls": [
                    {"id": f"c{i}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                    for i in range(n + 1)
                ],
            },
            *({"role": "tool", "tool_call_id": f"c{i}", "content": t} for i in range(n + 1)),
        ],
        TEXT,
        st.integers(0, 2),
    ),
    st.builds(
        lambda t: [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": t},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            }
        ],
        TEXT,
    ),
)


@given(st.lists(st.lists(TURN, max_size=3), max_size=4), st.booleans())
def test_growing_and_rewritten_messages_are_encoded_as_all_at_once(
    growth: list[list[list[dict[str, Any]]]], rewrites: bool
) -> None:
    encoder, messages = MessageEncoder(), list[dict[str, Any]]()
    for turns in growth:
        messages += [message for turn in turns for message in turn]
        plain = [{key: value for key, value in one.items() if value is not None} for one in messages]
        assert encoder.encode(messages) == canonical(plain)
        if rewrites and len(messages) > 1:
            messages = messages[1:]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "model", sample(["openai/gpt-4o", "openai/gpt-5", "openai/mine", "lm_studio/m", "llamafile/m"], 3)
)
def test_messages_past_the_sdk_are_the_same_bytes(model: str, model_server: ScriptedServer) -> None:
    backend = LitellmBackend(api_base=model_server.base("chat"), api_key="k")
    walking = LitellmBackend(api_base=model_server.base("chat"), api_key="k")
    walking._walks = lambda *_: True  # type: ignore[method-assign]

    @settings(max_examples=15)
    @given(st.lists(TURN, max_size=4))
    def check(turns: list[list[dict[str, Any]]]) -> None:
        messages = [*ASKED, *(m for turn in turns for m in turn)]

        async def run() -> None:
            for way in (backend, walking):
                assert (await hear(way, request(model, messages, cache_key="key"))).error is None
                await way.aclose()

        asyncio.run(run())
        past, through = model_server.requests[-2:]
        assert past.raw == through.raw

    assert not backend._walks(_where(model), [TOOL], "")
    check()


def _where(model: str) -> Any:
    from nexus_cli.provider.endpoint import resolve_endpoint

    return resolve_endpoint(model, "http://127.0.0.1:1/v1", "k")


def test_models_of_the_responses_interface_go_through_litellm() -> None:
    backend = LitellmBackend(api_key="k")
    where = _where("openai/gpt-5.4")
    assert not backend._walks(where, [TOOL], ""), "a server of one's own has no such interface"
    hosted = type(where)(where.provider, where.model, None, "k")
    assert backend._walks(hosted, [TOOL], "")


@pytest.mark.matrix
def test_the_request_is_left_as_it_was(model_server: ScriptedServer) -> None:
    for form in MODELS:
        messages = [
            *ASKED,
            {"role": "assistant", "content": None, "tool_calls": [_call("c1")]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        ]
        before = json.dumps([messages, TOOL])
        heard = ask(model_server, form, messages, previous_end=2)
        assert heard.error is None
        assert json.dumps([messages, TOOL]) == before


def _call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}


def test_a_message_that_cannot_be_encoded_is_not_left_out_of_the_next_request() -> None:
    encoder, messages = MessageEncoder(), [{"content": "one"}, {"content": "two\ud800"}]
    for _ in range(2):
        with pytest.raises(UnicodeEncodeError):
            encoder.encode(messages)
    assert json.loads(encoder.encode(messages[:1])) == messages[:1]
