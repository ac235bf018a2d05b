"""The backend over a real socket: each wire form, each fault, stalls, cancelling, and what is put on the wire."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider.talk import ASKED, MODELS, TOOL, ask, hear, request
from server.play import ScriptedServer, closed_port

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.message import ToolCall
from nexus_cli.core.request import FinishDelta, ModelInfo, TextDelta, UsageDelta
from nexus_cli.provider.litellm_backend import LitellmBackend

FORMS = pytest.mark.parametrize("form", list(MODELS))
CALLS = [
    {"name": "look", "arguments": {"at": "a"}},
    {"name": "look", "arguments": {"at": "ü"}},
]


@FORMS
def test_text_thinking_and_several_calls_arrive_in_every_wire_form(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "hello wörld", "thinking": "let me see", "signature": "c2ln", "calls": CALLS}])
    heard = ask(model_server, form)
    assert heard.error is None
    message = heard.reply.message
    assert message.content == "hello wörld"
    assert message.tool_calls == (ToolCall("call0", "look", {"at": "a"}), ToolCall("call1", "look", {"at": "ü"}))
    assert heard.reply.finish == "tool_calls"
    assert heard.reply.usage is not None and heard.reply.usage.input > 0 and heard.reply.usage.output > 0


@FORMS
@pytest.mark.parametrize("write", [1, "utf8"])
def test_a_stream_split_at_every_byte_is_the_same_answer(
    form: str, write: int | str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "größe 漢字 🙂", "chunk": 3, "fragment": 1, "calls": CALLS, "write": write}])
    heard = ask(model_server, form)
    assert heard.error is None
    assert heard.reply.message.content == "größe 漢字 🙂"
    assert [c.arguments for c in heard.reply.message.tool_calls] == [{"at": "a"}, {"at": "ü"}]


@pytest.mark.parametrize("form", ["chat", "anthropic"])
@pytest.mark.parametrize("arguments", ["", '{"at": "cut', "[1, 2]", '"{\\"at\\": \\"x\\"}"', "null", "no json"])
def test_arguments_of_any_kind_become_a_recorded_call(
    form: str, arguments: str, model_server: ScriptedServer
) -> None:
    model_server.load([{"calls": [{"name": "look", "arguments": arguments}]}])
    heard = ask(model_server, form)
    assert heard.error is None
    (call,) = heard.reply.message.tool_calls
    expected: dict[str, tuple[dict[str, Any], str]] = {
        "": ({}, ""),
        "null": ({}, ""),
        '"{\\"at\\": \\"x\\"}"': ({"at": "x"}, ""),
    }
    assert (call.arguments, call.raw) == expected.get(arguments, ({}, arguments))


@pytest.mark.parametrize("ids", ["given", "missing", "empty", "same", "echoed"])
@pytest.mark.parametrize("indexes", ["given", "missing"])
@pytest.mark.parametrize("fragment", [0, 1])
def test_calls_with_odd_ids_and_indexes_are_told_apart(
    ids: str, indexes: str, fragment: int, model_server: ScriptedServer
) -> None:
    if ids == "same" and indexes == "missing":
        pytest.skip("nothing on the wire tells these calls apart")
    model_server.load([{"calls": CALLS, "ids": ids, "indexes": indexes, "fragment": fragment}])
    heard = ask(model_server, "chat")
    assert heard.error is None
    assert [c.arguments for c in heard.reply.message.tool_calls] == [{"at": "a"}, {"at": "ü"}]


STATUSES = {
    401: ("auth", False),
    403: ("auth", False),
    404: ("usage", False),
    429: ("rate_limit", True),
    500: ("provider", True),
    503: ("overloaded", True),
    529: ("overloaded", True),
}


@FORMS
@pytest.mark.parametrize("status", list(STATUSES))
def test_each_status_has_its_kind(form: str, status: int, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": {"status": status, "retry_after": 7}}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.transient) == STATUSES[status]
    assert heard.error.retry_after == 7
    assert not heard.error.started
    assert "sk-test" not in heard.error.line and "\n" not in heard.error.line
    assert len(model_server.requests) == 1, "litellm or the SDK tried again by itself"


@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini"])
def test_a_used_up_quota_is_not_tried_again(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": "quota"}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert heard.error.kind in ("rate_limit", "auth")
    assert not heard.error.transient


@FORMS
def test_an_overflow_is_told_from_other_refusals(form: str, start_server: Any) -> None:
    heard = ask(start_server(["x"], refuse_above=10), form)
    assert heard.error is not None and heard.error.kind == "overflow" and not heard.error.transient
    if form != "ollama":
        assert heard.error.limit == 10
        assert heard.error.counted is not None and heard.error.counted > 10


@pytest.mark.parametrize("dialect", ["openai", "deepseek", "mistral", "vllm", "llamacpp"])
def test_each_dialect_of_overflow_gives_its_numbers(dialect: str, start_server: Any) -> None:
    heard = ask(start_server(["x"], refuse_above=10, dialect=dialect), "chat")
    assert heard.error is not None and heard.error.kind == "overflow"
    assert heard.error.limit == 10
    assert heard.error.counted is not None and heard.error.counted > 10


@FORMS
@pytest.mark.parametrize("fault", ["done_only", "empty"])
def test_an_empty_stream_is_an_empty_answer_without_usage(
    form: str, fault: str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "x", "fault": fault}])
    heard = ask(model_server, form)
    assert heard.error is None
    assert heard.deltas == []
    assert (heard.reply.finish, heard.reply.usage) == ("empty", None)


@FORMS
def test_a_stream_without_a_finish_reason_is_not_called_finished(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "half an answer", "fault": "no_finish"}])
    heard = ask(model_server, form)
    assert heard.error is None
    assert not any(isinstance(d, FinishDelta | UsageDelta) for d in heard.deltas)
    assert (heard.reply.finish, heard.reply.message.content) == ("none", "half an answer")
    assert heard.reply.problem


@FORMS
@pytest.mark.parametrize(("finish", "outcome"), [("length", "length"), ("content_filter", "refused")])
def test_length_and_filter_keep_the_text_and_say_so(
    form: str, finish: str, outcome: str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "so far", "finish": finish}])
    heard = ask(model_server, form)
    assert (heard.reply.finish, heard.reply.message.content) == (outcome, "so far")
    assert heard.reply.problem


@FORMS
@pytest.mark.parametrize("fault", ["reset", "cut", "error_later"])
def test_a_stream_that_breaks_later_is_an_error_that_is_not_tried_again(
    form: str, fault: str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "one two three four five six seven", "fault": {"kind": fault, "after": 1}}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert heard.error.started and not heard.error.transient
    assert heard.error.kind == ("provider" if fault == "error_later" else "network")
    assert heard.deltas and all(isinstance(d, TextDelta) for d in heard.deltas)


@FORMS
def test_a_connection_that_ends_before_an_answer_may_be_tried_again(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": "close_before_head"}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.started, heard.error.transient) == ("network", False, True)


@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini"])
def test_an_error_as_the_first_event_of_a_200_may_be_tried_again(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": {"kind": "error_first", "status": 429}}])
    heard = ask(model_server, form)
    assert heard.error is not None and heard.error.transient and not heard.error.started
    if form != "anthropic":  # litellm drops the type of Anthropic's error events
        assert heard.error.kind == "rate_limit"


def test_an_event_that_is_no_json_and_bytes_that_are_no_utf8_end_the_stream(model_server: ScriptedServer) -> None:
    for fault, word in (("bad_json", "JSON"), ("bad_utf8", "UTF-8")):
        model_server.load([{"text": "one two three four five six", "fault": fault}])
        heard = ask(model_server, "chat")
        assert heard.error is not None
        assert (heard.error.kind, heard.error.started) == ("provider", True)
        assert word in heard.error.why


@FORMS
@pytest.mark.parametrize(("kind", "started"), [("stall_before_head", False), ("stall", True)])
def test_a_silent_line_is_a_stall(form: str, kind: str, started: bool, model_server: ScriptedServer) -> None:
    fault = {"kind": kind, "seconds": 8}
    model_server.load([{"text": "one two three four five six seven", "fault": fault}])
    heard = ask(model_server, form, stall_seconds=0.3)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.why) == ("network", "no data for 0.3 seconds")
    assert (heard.error.started, heard.error.transient) == (started, not started)
    assert model_server.wait_for(lambda s: s.requests[0].done)
    assert model_server.requests[0].closed_early


def test_a_slow_stream_and_a_slow_reader_are_no_stall(model_server: ScriptedServer) -> None:
    model_server.load([{"text": "abcdefgh", "chunk": 1, "pace": 0.1}])

    async def run() -> str:
        backend = LitellmBackend(api_base=model_server.base("chat"), api_key="k")
        text = ""
        async for delta in backend.stream(request(MODELS["chat"], stall_seconds=0.5)):
            if isinstance(delta, TextDelta):
                text += delta.text
                if text == "ab":
                    await asyncio.sleep(0.8)
        return text

    assert asyncio.run(run()) == "abcdefgh"


@FORMS
@pytest.mark.parametrize("how", ["cancel", "aclose", "cancel before the head"])
def test_stopping_closes_the_socket_at_once(form: str, how: str, model_server: ScriptedServer) -> None:
    kind = "stall_before_head" if how == "cancel before the head" else "stall"
    model_server.load([{"text": "one two three four five six seven", "fault": {"kind": kind, "seconds": 60}}])

    async def run() -> None:
        backend = LitellmBackend(api_base=model_server.base(form), api_key="k")
        stream = backend.stream(request(MODELS[form]))
        if how == "aclose":
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
        else:
            answering = asyncio.Event()
            task = asyncio.ensure_future(_drain(stream, answering))
            if how == "cancel":
                await answering.wait()
            else:
                await asyncio.to_thread(model_server.wait_for, lambda s: bool(s.requests))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.to_thread(model_server.wait_for, lambda s: s.requests[0].done)

    asyncio.run(run())
    assert model_server.requests[0].closed_early


async def _drain(stream: Any, answering: asyncio.Event) -> None:
    async for _ in stream:
        answering.set()


@FORMS
def test_a_refused_connection_is_a_network_error(form: str) -> None:
    async def run() -> ProviderError | None:
        backend = LitellmBackend(api_base=f"http://127.0.0.1:{closed_port()}", api_key="k")
        return (await hear(backend, request(MODELS[form]))).error

    error = asyncio.run(run())
    assert error is not None
    assert (error.kind, error.why, error.transient) == ("network", "the connection was refused", True)


@FORMS
def test_requests_one_after_another_share_a_connection(form: str, model_server: ScriptedServer) -> None:
    model_server.load(["one", "two", "three"])

    async def run() -> list[str]:
        backend = LitellmBackend(api_base=model_server.base(form), api_key="k")
        texts = [(await hear(backend, request(MODELS[form]))).reply.message.content for _ in range(3)]
        await backend.aclose()
        return texts

    assert asyncio.run(run()) == ["one", "two", "three"]
    assert len({r.connection for r in model_server.requests}) == 1


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


def test_ollama_is_told_the_size_of_the_window(model_server: ScriptedServer) -> None:
    async def run() -> None:
        info = ModelInfo("ollama_chat/mine", "ollama_chat", 24_000)
        backend = LitellmBackend(api_base=model_server.base("ollama"), info=lambda name: info)
        await hear(backend, request("ollama/mine"))

    asyncio.run(run())
    sent = model_server.requests[-1]
    assert sent.path == "/api/chat"
    assert sent.body["options"]["num_ctx"] == 24_000


def test_a_local_openai_server_needs_no_key_and_a_hosted_one_does(
    model_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> ProviderError | None:
        return (await hear(LitellmBackend(), request(MODELS["chat"]))).error

    monkeypatch.setenv("OPENAI_API_BASE", model_server.base("chat"))
    assert asyncio.run(run()) is None
    monkeypatch.setenv("OPENAI_API_BASE", "https://models.example.org/v1")
    error = asyncio.run(run())
    assert error is not None and error.kind == "auth" and "OPENAI_API_KEY" in error.hint
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("model", ["hosted_vllm/m", "lm_studio/m", "llamafile/m"])
def test_servers_of_ones_own_need_no_key(model: str, model_server: ScriptedServer) -> None:
    async def run() -> str:
        backend = LitellmBackend(api_base=model_server.base("chat"))
        return (await hear(backend, request(model))).reply.message.content

    model_server.load(["here"])
    assert asyncio.run(run()) == "here"
    assert model_server.requests[0].body["messages"] == list(ASKED)


def test_the_hook_is_called_once_per_request_when_the_answer_begins(model_server: ScriptedServer) -> None:
    calls: list[int] = []

    async def run() -> None:
        backend = LitellmBackend(
            api_base=model_server.base("chat"), api_key="k", first_byte_hook=lambda: calls.append(1)
        )
        await hear(backend, request(MODELS["chat"]))
        assert calls == [1]
        await hear(backend, request(MODELS["chat"]))

    asyncio.run(run())
    assert calls == [1, 1]


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


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/gpt-5", "openai/mine", "lm_studio/m", "llamafile/m"])
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

    assert not backend._walks(request(model), _where(model))
    check()


def _where(model: str) -> Any:
    from nexus_cli.provider.endpoint import endpoint

    return endpoint(model, {}, "http://127.0.0.1:1/v1", "k")


def test_models_of_the_responses_interface_go_through_litellm() -> None:
    backend = LitellmBackend(api_key="k")
    asked = request("openai/gpt-5.4")
    where = _where("openai/gpt-5.4")
    assert not backend._walks(asked, where), "a server of one's own has no such interface"
    hosted = type(where)(where.provider, where.model, None, "k")
    assert backend._walks(asked, hosted)


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


QUIET = """
import asyncio, gc, os, sys
sys.path.insert(0, sys.argv[2])
from nexus_cli.core.request import Request
from nexus_cli.provider.litellm_backend import LitellmBackend
before = dict(os.environ)
async def main():
    for model in ("openai/unheard-of", "gpt-4o", "anthropic/unheard-of"):
        base = sys.argv[1] + ("" if "anthropic" in model else "/v1")
        backend = LitellmBackend(api_base=base, api_key="k")
        for _ in range(2):
            try:
                async for delta in backend.stream(Request(model, [{"role": "user", "content": "x"}], [], 10)): pass
            except Exception as error: assert type(error).__name__ == "ProviderError", error
asyncio.run(main())
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert gc.isenabled()
import litellm
assert "STOLEN" not in os.environ
"""


def test_nothing_is_printed_nothing_left_in_the_environment_and_no_env_file_read(
    tmp_path: Any, start_server: Any
) -> None:
    (tmp_path / ".env").write_text("STOLEN=1\nOPENAI_BASE_URL=http://127.0.0.1:1\n")
    server = start_server({"rules": [{"when": {"number": 2}, "then": {"fault": 500}}], "default": "fine"})
    done = subprocess.run(
        [sys.executable, "-c", QUIET, server.url, os.getcwd()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(server.requests) == 6


def test_collection_is_on_again_after_the_import() -> None:
    LitellmBackend().prepare()
    assert gc.isenabled()
