"""Each way in which an answer breaks, over a real socket, in every wire form: kinds, stalls, and stopping."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from provider.talk import MODELS, Heard, ask, hear, request
from search import sample
from server.play import ScriptedServer, closed_port

from nexus_cli.core.request import SentDelta, TextDelta
from nexus_cli.provider.litellm_backend import LitellmBackend

FORMS = pytest.mark.parametrize("form", list(MODELS))


STATUSES = {
    401: ("auth", False),
    403: ("auth", False),
    404: ("usage", False),
    429: ("rate_limit", True),
    500: ("provider", True),
    503: ("overloaded", True),
    529: ("overloaded", True),
}


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize("status", sample(list(STATUSES), 4))
def test_each_status_has_its_kind(form: str, status: int, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": {"status": status, "retry_after": 7}}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.transient) == STATUSES[status]
    assert heard.error.retry_after == 7
    assert not heard.error.started
    assert "sk-test" not in heard.error.line and "\n" not in heard.error.line
    assert len(model_server.requests) == 1, "litellm or the SDK tried again by itself"


def ask_for_json(body: str) -> Heard:
    """What is heard of a server that answers one request with `body`, whole and as JSON."""
    status = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:

        def answer() -> None:
            with listening.accept()[0] as connection, connection.makefile("rb") as received:
                head = dict(line.lower().split(b":", 1) for line in iter(received.readline, b"\r\n") if b": " in line)
                received.read(int(head[b"content-length"]))  # what is left unread resets the connection
                connection.sendall(f"{status}{body}".encode())

        threads.submit(answer)
        backend = LitellmBackend(api_base=f"http://127.0.0.1:{listening.getsockname()[1]}/v1", api_key="sk-test")
        return asyncio.run(hear(backend, request(MODELS["chat"])))


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        ('{"error": {"message": "The queue is full.", "code": 503}}', "overloaded", "The queue is full."),
        ('{"error": "no credit for team x"}', "provider", "no credit for team x"),
        ('{"error": null, "choices": []}', "provider", "the server sent one JSON object instead of a stream"),
        ('data: {"error": "no credit for team x"}\n\n', "provider", "no credit for team x"),
    ],
)
def test_a_json_object_in_place_of_a_stream_is_named_by_its_error(body: str, kind: str, why: str) -> None:
    heard = ask_for_json(body)
    assert heard.error is not None and (heard.error.kind, heard.error.why) == (kind, why)


def test_a_stream_that_is_called_json_is_read() -> None:
    chunk = '{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [%s]}'
    text = chunk % '{"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}'
    heard = ask_for_json(f"data: {text}\n\ndata: [DONE]\n\n")
    assert heard.error is None and heard.reply.message.content == "fine"


def test_a_long_wait_that_the_provider_asks_for_is_named(model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": {"status": 429, "retry_after": 5400}}])
    heard = ask(model_server, "chat")
    assert heard.error is not None and heard.error.hint == "Try again in 1 h 30 min"


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini"])
def test_a_used_up_quota_is_not_tried_again(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": "quota"}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert heard.error.kind in ("provider", "auth") and "plan" in heard.error.hint
    assert not heard.error.transient


@FORMS
def test_a_refusal_that_quotes_the_key_is_told_without_it(
    form: str, model_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hunter2-my-own")
    model_server.load([{"fault": {"status": 401, "message": "Incorrect API key provided: hunter2-my-own."}}])
    error = ask(model_server, form).error
    assert error is not None and error.kind == "auth"
    assert "hunter2" not in error.line and "[redacted]" in error.why


@pytest.mark.matrix
@FORMS
def test_an_overflow_is_told_from_other_refusals(form: str, start_server: Any) -> None:
    heard = ask(start_server(["x"], refuse_above=10), form)
    assert heard.error is not None and heard.error.kind == "overflow" and not heard.error.transient
    if form != "ollama":
        assert heard.error.limit == 10
        assert heard.error.counted is not None and heard.error.counted > 10


@pytest.mark.matrix
@pytest.mark.parametrize("dialect", ["openai", "deepseek", "mistral", "vllm", "llamacpp"])
def test_each_dialect_of_overflow_gives_its_numbers(dialect: str, start_server: Any) -> None:
    heard = ask(start_server(["x"], refuse_above=10, dialect=dialect), "chat")
    assert heard.error is not None and heard.error.kind == "overflow"
    assert heard.error.limit == 10
    assert heard.error.counted is not None and heard.error.counted > 10


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize("fault", ["done_only", "empty"])
def test_an_empty_stream_is_an_empty_answer_without_usage(form: str, fault: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": fault}])
    heard = ask(model_server, form)
    assert heard.error is None
    assert all(isinstance(d, SentDelta) for d in heard.deltas)
    assert (heard.reply.finish, heard.reply.usage) == ("empty", None)


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize(("finish", "outcome"), [("length", "length"), ("content_filter", "refused")])
def test_length_and_filter_keep_the_text_and_say_so(
    form: str, finish: str, outcome: str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "so far", "finish": finish}])
    heard = ask(model_server, form)
    assert (heard.reply.finish, heard.reply.message.content) == (outcome, "so far")
    assert heard.reply.problem


@pytest.mark.matrix
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


@pytest.mark.matrix
@FORMS
def test_a_connection_that_ends_before_an_answer_may_be_tried_again(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "x", "fault": "close_before_head"}])
    heard = ask(model_server, form)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.started, heard.error.transient) == ("network", False, True)


@pytest.mark.matrix
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
@pytest.mark.parametrize(("kind", "started"), sample([("stall_before_head", False), ("stall", True)], 3))
def test_a_silent_line_is_a_stall(form: str, kind: str, started: bool, model_server: ScriptedServer) -> None:
    fault = {"kind": kind, "seconds": 60}
    model_server.load([{"text": "one two three four five six seven", "fault": fault}])
    seconds = 2.0 if started else 0.3
    heard = ask(model_server, form, stall_seconds=seconds)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.why) == ("network", f"no data for {seconds:g} seconds")
    assert (heard.error.started, heard.error.transient) == (started, not started)
    assert model_server.wait_for(lambda s: s.requests[0].done)
    assert model_server.requests[0].closed_early


@pytest.mark.matrix
async def test_a_slow_stream_and_a_slow_reader_are_no_stall(model_server: ScriptedServer) -> None:
    model_server.load([{"text": "abcdefgh", "chunk": 1, "pace": 0.3}])

    backend = LitellmBackend(api_base=model_server.base("chat"), api_key="k")
    text = ""
    async for delta in backend.stream(request(MODELS["chat"], stall_seconds=2.0)):
        if isinstance(delta, TextDelta):
            text += delta.text
            if text == "ab":
                await asyncio.sleep(2.5)
    assert text == "abcdefgh"


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize("how", ["cancel", "aclose", "cancel before the head"])
async def test_stopping_closes_the_socket_at_once(form: str, how: str, model_server: ScriptedServer) -> None:
    kind = "stall_before_head" if how == "cancel before the head" else "stall"
    model_server.load([{"text": "one two three four five six seven", "fault": {"kind": kind, "seconds": 60}}])

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
    assert model_server.requests[0].closed_early


async def _drain(stream: Any, answering: asyncio.Event) -> None:
    async for _ in stream:
        answering.set()


@pytest.mark.matrix
@FORMS
async def test_a_refused_connection_is_a_network_error_that_names_the_address(form: str) -> None:
    port = closed_port()
    backend = LitellmBackend(api_base=f"http://someone:secret@127.0.0.1:{port}", api_key="k")
    error = (await hear(backend, request(MODELS[form]))).error
    assert error is not None
    why = f"the connection to 127.0.0.1:{port} was refused"
    assert (error.kind, error.why, error.transient) == ("network", why, True)
