"""What each fault makes of the bytes, in every form."""

from __future__ import annotations

import socket

import pytest
from search import sample
from server.fault import KINDS
from server.fixtures import Start
from server.play import ScriptedServer
from server.raw_client import (
    DELTAS,
    FORMS,
    LONG,
    PATHS,
    Heard,
    deltas_of,
    once,
    post,
    request_body,
    request_bytes,
    text_of,
)


@pytest.mark.matrix
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, {"chat": "invalid_api_key", "anthropic": "authentication_error", "gemini": "UNAUTHENTICATED"}),
        (403, {"chat": "permission_error", "anthropic": "permission_error", "gemini": "PERMISSION_DENIED"}),
        (404, {"chat": "model_not_found", "anthropic": "not_found_error", "gemini": "NOT_FOUND"}),
        (429, {"chat": "rate_limit_exceeded", "anthropic": "rate_limit_error", "gemini": "RESOURCE_EXHAUSTED"}),
        (500, {"chat": "server_error", "anthropic": "api_error", "gemini": "INTERNAL"}),
        (503, {"chat": "overloaded", "anthropic": "api_error", "gemini": "UNAVAILABLE"}),
        (529, {"chat": "overloaded_error", "anthropic": "overloaded_error", "gemini": "UNAVAILABLE"}),
    ],
)
def test_an_error_status_has_the_words_of_its_provider(
    model_server: ScriptedServer, form: str, status: int, words: dict[str, str]
) -> None:
    heard = once(model_server, form, {"fault": {"status": status, "retry_after": "7"}})
    assert (heard.status, heard.end, heard.headers["retry-after"]) == (status, "complete", "7")
    assert words.get(form, "error") in heard.body.decode()
    assert model_server.requests[-1].status == status


@pytest.mark.parametrize(
    ("dialect", "form", "words"),
    [
        ("openai", "chat", "maximum context length is 20 tokens. However, your messages resulted in 254 tokens"),
        ("deepseek", "chat", "maximum context length is 20 tokens. However, you requested 254 tokens"),
        ("vllm", "chat", '"type": "BadRequestError"'),
        ("mistral", "chat", "Prompt contains 254 tokens, too large for model with 20 maximum context length"),
        ("llamacpp", "chat", '"n_prompt_tokens": 254, "n_ctx": 20'),
        ("", "anthropic", "prompt is too long: 254 tokens > 20 maximum"),
        ("", "gemini", "The input token count (254) exceeds the maximum number of tokens allowed (20)."),
        ("", "ollama", "exceeds the context length (254 > 20)"),
    ],
)
def test_a_request_above_the_window_is_refused_in_the_providers_words(
    start_server: Start, dialect: str, form: str, words: str
) -> None:
    server = start_server(["fits"], refuse_above=20, dialect=dialect)
    refused = post(server, form, request_body(form, "x" * 1000))
    assert refused.status == 400 and words in refused.body.decode()


def test_a_request_above_the_window_takes_no_step_and_warms_no_cache(start_server: Start) -> None:
    server = start_server(["one", "two"], refuse_above=20)
    long, short = request_body("chat", "x" * 1000), request_body("chat", "x")
    assert [post(server, "chat", body).status for body in (long, short, long, short)] == [400, 200, 400, 200]
    assert server.script.left == 0 and [r.fault for r in server.requests] == ["overflow", "", "overflow", ""]
    assert [request.tokens.cache_read for request in server.requests] == [0, 0, 0, 5]


def test_an_overflow_can_be_scripted_without_a_window(start_server: Start) -> None:
    server = start_server([{"fault": "overflow"}, "one"])
    assert [post(server, "chat").status, post(server, "chat").status] == [400, 200]


@pytest.mark.matrix
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.parametrize("kind", ["reset", "cut"])
def test_a_broken_connection_lets_exactly_so_many_deltas_through(
    model_server: ScriptedServer, form: str, after: int, kind: str
) -> None:
    heard = once(model_server, form, LONG | {"fault": {"kind": kind, "after": after}})
    assert heard.end == {"reset": "reset", "cut": "closed"}[kind]
    assert deltas_of(heard, form) == after
    assert not model_server.requests[-1].closed_early


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("fault", "status", "end"), [("close_before_head", 0, "closed"), ("empty", 200, "complete")])
def test_nothing_at_all_can_be_sent(model_server: ScriptedServer, form: str, fault: str, status: int, end: str) -> None:
    heard = once(model_server, form, {"fault": fault})
    assert (heard.status, heard.body, heard.end) == (status, b"", end)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_goes_on_behind_bad_json_and_ends_with_an_error(model_server: ScriptedServer, form: str) -> None:
    later = once(model_server, form, LONG | {"fault": {"kind": "error_later", "after": 3, "message": "gone"}})
    assert (later.end, deltas_of(later, form)) == ("complete", 3) and b"gone" in later.chunks[-1]
    bad_json = once(model_server, form, LONG | {"fault": {"kind": "bad_json", "after": 2}})
    assert [event for event in bad_json.events if isinstance(event, str) and event != "[DONE]"] == [
        '{"id": "broken", "choi'
    ]
    assert deltas_of(bad_json, form) == DELTAS


@pytest.mark.parametrize("form", ["chat", "anthropic"])
def test_the_last_mark_can_be_missing_or_alone(model_server: ScriptedServer, form: str) -> None:
    mark = {"chat": b"[DONE]", "anthropic": b"message_stop"}[form]
    without = once(model_server, form, LONG | {"fault": "no_done"})
    assert without.end == "complete" and mark not in without.body and text_of(without, form) == LONG["text"]
    alone = once(model_server, form, LONG | {"fault": "done_only"})
    assert alone.end == "complete" and len(alone.chunks) == 1 and mark in alone.body


@pytest.mark.parametrize("form", FORMS)
def test_a_finish_reason_can_be_missing_short_or_a_filter(model_server: ScriptedServer, form: str) -> None:
    words = {
        "chat": ("length", "content_filter"),
        "anthropic": ("max_tokens", "refusal"),
        "gemini": ("MAX_TOKENS", "SAFETY"),
        "ollama": ("length", "content_filter"),
    }[form]
    key = {"chat": b'"finish_reason":"', "anthropic": b'"stop_reason":"', "gemini": b"finishReason", "ollama": b"done_"}
    bare = once(model_server, form, LONG | {"fault": "no_finish"})
    assert bare.end == "complete" and key[form] not in bare.body and text_of(bare, form) == LONG["text"]
    for reason, word in zip(("length", "content_filter"), words, strict=True):
        assert f'"{word}"'.encode() in once(model_server, form, LONG | {"finish": reason}).body


@pytest.mark.matrix
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("after", [-1, 0, 2])
def test_a_stall_stops_after_so_many_deltas_and_then_goes_on(
    model_server: ScriptedServer, form: str, after: int
) -> None:
    model_server.load([LONG | {"fault": {"kind": "stall", "seconds": 30, "after": after}}])
    with socket.create_connection(("127.0.0.1", model_server.port), timeout=120) as line:
        line.sendall(request_bytes(PATHS[form], request_body(form)))
        got = b""
        while b"\r\n\r\n" not in got or deltas_of(Heard(chunks=[got]), form) < after:
            got += line.recv(65536)
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                got += line.recv(65536)
    assert b"200 OK" in got and deltas_of(Heard(chunks=[got]), form) == max(after, 0)
    assert model_server.wait_for(lambda server: server.requests[0].closed_early)
    heard = once(model_server, form, LONG | {"fault": {"kind": "stall", "seconds": 0.01, "after": after}})
    assert heard.end == "complete" and text_of(heard, form) == LONG["text"]


@pytest.mark.parametrize("form", FORMS)
def test_a_fault_that_waits_for_more_deltas_than_there_are_still_strikes(
    model_server: ScriptedServer, form: str
) -> None:
    signs = {"bad_json": b"broken", "bad_utf8": b"\xff", "error_later": b"error"}
    for kind in ("reset", "cut", *signs):
        heard = once(model_server, form, {"text": "short", "fault": {"kind": kind, "after": 99}})
        assert deltas_of(heard, form) == 1
        assert signs[kind] in heard.body if kind in signs else heard.end in ("closed", "reset")


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(FORMS, 4))
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_is_recorded_and_the_server_goes_on(
    model_server: ScriptedServer, form: str, kind: str
) -> None:
    plain = once(model_server, form, LONG)
    heard = once(model_server, form, LONG | {"fault": {"kind": kind, "seconds": 0.01}})
    seen = (heard.status, heard.end, len(heard.chunks), b"\xff" in heard.body)
    unchanged = seen == (plain.status, plain.end, len(plain.chunks), False)
    harmless = {"stall", "stall_before_head"} | ({"no_done"} if form in ("gemini", "ollama") else set())
    assert unchanged is (kind in harmless)
    assert [request.fault for request in model_server.requests] == ["", kind]
    assert text_of(once(model_server, form, LONG), form) == LONG["text"]
