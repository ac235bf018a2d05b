"""The real client library reaches the server through every wire form, with tools, and gives back what was scripted."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from search import sample
from server.blocks import first_difference, is_prefix
from server.fixtures import Start
from server.play import ScriptedServer, closed_port

MODELS = {
    "chat": "openai/scripted",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama_chat/scripted",
}
VARIABLES = {
    "chat": ("OPENAI_API_BASE", "OPENAI_API_KEY"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY"),
    "gemini": ("GEMINI_API_BASE", "GEMINI_API_KEY"),
    "ollama": ("OLLAMA_API_BASE", "OLLAMA_API_KEY"),
}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "reads", "parameters": SCHEMA}}
    for name in ("read_file", "grep")
]
STEP = {
    "text": "héllo 日本 🙂, and on it goes",
    "thinking": "hmm, well, let me see",
    "signature": "c2lnbmF0dXJl",
    "calls": [{"name": "read_file", "arguments": {"path": "ä.py"}}, {"name": "grep", "arguments": {"path": "b"}}],
}


@dataclass
class Got:
    """One reply, folded."""

    text: str = ""
    thinking: str = ""
    signature: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """id, name, arguments."""
    finish: str | None = None
    usage: Any = None


Ask = Callable[..., Coroutine[Any, Any, Got]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """A function that sends one request with tools through litellm and folds the stream."""
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        monkeypatch.setenv(name, "True")
    monkeypatch.setenv("LITELLM_MODE", "PRODUCTION")
    monkeypatch.setenv("LITELLM_LOG", "ERROR")
    gc.disable()
    try:
        import litellm
    finally:
        gc.enable()
    from litellm.llms.openai import openai as adapter
    from openai import AsyncOpenAI

    monkeypatch.setattr(adapter, "AsyncOpenAI", AsyncOpenAI)  # other tests of this process replace it
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", False)

    async def send(form: str, messages: list[dict[str, Any]], **extra: Any) -> Got:
        options: dict[str, Any] = {"stream_options": {"include_usage": True}, "tools": TOOLS, "max_tokens": 500}
        stream = await litellm.acompletion(
            model=MODELS[form], messages=messages, stream=True, num_retries=0, max_retries=0, **(options | extra)
        )
        got = Got()
        async for chunk in stream:
            got.usage = getattr(chunk, "usage", None) or got.usage
            for choice in chunk.choices:
                _fold(got, choice.delta)
                got.finish = choice.finish_reason or got.finish
        return got

    yield send


def _fold(got: Got, delta: Any) -> None:
    got.text += delta.content or ""
    got.thinking += getattr(delta, "reasoning_content", None) or ""
    for block in getattr(delta, "thinking_blocks", None) or ():
        got.signature += block.get("signature") or ""
    for call in delta.tool_calls or ():
        if call.id and [call.id] not in [known[:1] for known in got.calls]:
            got.calls.append([call.id, "", ""])
        got.calls[-1][1] += call.function.name or ""
        got.calls[-1][2] += call.function.arguments or ""


def at(server: ScriptedServer, form: str) -> dict[str, Any]:
    return {"api_base": server.base(form), "api_key": "sk-test"}


TALK: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(MODELS, 3))
@pytest.mark.parametrize("write", [0, 1, "utf8"])
def test_text_thinking_and_calls_arrive_in_every_form(start_server: Start, ask: Ask, form: str, write: object) -> None:
    server = start_server([STEP | {"write": write}])
    got = asyncio.run(ask(form, TALK, **at(server, form)))
    assert (got.text, got.thinking) == (STEP["text"], STEP["thinking"])
    calls = [(name, json.loads(arguments)) for _, name, arguments in got.calls]
    assert calls == [("read_file", {"path": "ä.py"}), ("grep", {"path": "b"})]
    assert got.finish == ("stop" if form == "ollama" else "tool_calls")
    if form == "anthropic":
        assert got.signature == STEP["signature"]
    if form == "gemini":
        assert str(STEP["signature"]) in got.calls[0][0]


@pytest.mark.matrix
@pytest.mark.parametrize("form", MODELS)
def test_the_environment_alone_leads_to_the_server(
    start_server: Start, ask: Ask, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(["found you"])
    base, key = VARIABLES[form]
    monkeypatch.setenv(base, server.base(form))
    monkeypatch.setenv(key, "sk-from-the-environment")
    assert asyncio.run(ask(form, TALK)).text == "found you"
    assert server.requests[0].form == form and "sk-from-the-environment" in str(server.requests[0].headers)


@pytest.mark.matrix
@pytest.mark.parametrize("form", MODELS)
def test_a_tool_loop_keeps_its_prefix_and_reads_the_cache(start_server: Start, ask: Ask, form: str) -> None:
    server = start_server([{"calls": [{"name": "read_file", "arguments": {"path": "a"}}]}, "done", "again"])
    marked = [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]
    talk = [{"role": "system", "content": marked if form == "anthropic" else "be brief"}, TALK[1]]

    async def loop() -> list[Got]:
        replies = [await ask(form, talk, **at(server, form))]
        given, name, arguments = replies[0].calls[0]
        function = {"name": name, "arguments": arguments}
        said = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": given, "type": "function", "function": function}],
        }
        talk.extend([said, {"role": "tool", "tool_call_id": given, "content": "contents"}])
        replies.append(await ask(form, talk, **at(server, form)))
        talk.extend([{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}])
        replies.append(await ask(form, talk, **at(server, form)))
        return replies

    replies = asyncio.run(loop())
    first, second, third = (request.blocks for request in server.requests)
    assert is_prefix(first, second) and is_prefix(second, third), first_difference(first, second)
    assert [block.role for block in server.requests[1].content][-2:] == ["assistant", "tool"]
    for reply, request in zip(replies, server.requests, strict=True):
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
            request.tokens.input,
            request.tokens.output,
        )
    reads = [request.tokens.cache_read for request in server.requests]
    assert reads[0] == 0 and (form == "ollama" or reads[1] > 0)
    details = replies[2].usage.prompt_tokens_details
    assert form == "ollama" or details.cached_tokens == reads[2]


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(MODELS, 4))
@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ({"status": 401}, ""),
        ({"status": 404}, ""),
        ({"status": 429, "retry_after": 3}, ""),
        ({"status": 500}, ""),
        ({"status": 529}, ""),
        ({"kind": "overflow"}, "ContextWindowExceededError"),
        ({"kind": "close_before_head"}, ""),
        ({"kind": "error_first", "status": 429}, ""),
        ({"kind": "error_later"}, ""),
        ({"kind": "reset"}, ""),
        ({"kind": "cut"}, ""),
    ],
)
def test_the_client_sees_a_failure_and_asks_once(
    start_server: Start, ask: Ask, form: str, fault: dict[str, Any], word: str
) -> None:
    server = start_server([STEP | {"fault": fault}])
    with pytest.raises(Exception) as raised:
        asyncio.run(ask(form, TALK, **at(server, form)))
    assert len(server.requests) == 1
    if word and form != "ollama":
        assert word in [cls.__name__ for cls in type(raised.value).__mro__]
    if "retry_after" in fault and form in ("chat", "anthropic"):
        assert raised.value.litellm_response_headers["retry-after"] == "3"  # type: ignore[attr-defined]


@pytest.mark.matrix
@pytest.mark.parametrize("form", MODELS)
def test_a_closed_port_is_a_failure_to_connect(ask: Ask, form: str) -> None:
    with pytest.raises(Exception, match=r"(?i)connect"):
        asyncio.run(ask(form, TALK, api_base=f"http://127.0.0.1:{closed_port()}", api_key="sk-test"))


@pytest.mark.parametrize("form", MODELS)
def test_a_cancelled_request_closes_its_connection(start_server: Start, ask: Ask, form: str) -> None:
    server = start_server([STEP | {"fault": {"kind": "stall", "seconds": 60}}])

    async def cancel() -> None:
        task = asyncio.create_task(ask(form, TALK, **at(server, form)))
        assert await asyncio.to_thread(server.wait_for, lambda s: bool(s.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.wait_for, lambda s: s.requests[0].closed_early)

    asyncio.run(cancel())
