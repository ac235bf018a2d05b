"""What each fault makes of the bytes, in every form."""

from __future__ import annotations

import pytest
from search import sample
from server.fault import KINDS
from server.fixtures import Start
from server.play import ScriptedServer
from server.raw_client import FORMS, LONG, deltas_of, once, post, request_body, text_of


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
