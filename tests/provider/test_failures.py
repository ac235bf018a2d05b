"""Sorting failures: wordings of overflow, waits, redaction, and addresses that are settled before anything is sent."""

from __future__ import annotations

import socket
import ssl
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surroundings import with_variables

from nexus_cli.core.errors import EXIT_STATUS, ProviderError
from nexus_cli.core.redact_secrets import redact
from nexus_cli.provider.endpoint import is_loopback, resolve_endpoint
from nexus_cli.provider.error_text import LINE, format_error_line
from nexus_cli.provider.failures import overflow_numbers, retry_after, to_provider_error
from nexus_cli.provider.local_servers import LocalServer, local_servers

OVERFLOWS: list[tuple[str, int | None, int | None]] = [
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130,500 tokens.",
        128000,
        130500,
    ),
    (
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the "
        "messages, 4000 in the completion).",
        65536,
        66000,
    ),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300001 tokens.",
        272000,
        300001,
    ),
    ("Your input exceeds the context window of this model.", None, None),
    ("prompt is too long: 210000 tokens > 200000 maximum", 200000, 210000),
    ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease", 200000, 190000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576, 1200000),
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768,
        40000,
    ),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072, 537812),
    ("The decoder prompt (length 50000) is longer than the maximum model length of 4096.", 4096, 50000),
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 5000),
    (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens",
        4096,
        5000,
    ),
    ("Input is too long for requested model.", None, None),
]


@pytest.mark.parametrize(("text", "limit", "counted"), OVERFLOWS)
def test_overflows_are_recognised_with_their_numbers(text: str, limit: int | None, counted: int | None) -> None:
    assert to_provider_error(Said(text, 400), model="openai/gpt-4o").kind == "overflow"
    assert overflow_numbers(text) == (limit, counted)


class Said(Exception):
    """An exception as the libraries raise them."""

    def __init__(self, message: str, status: int | None = None, body: Any = None, headers: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status
        self.body = body
        self.headers = headers


SORTED: list[tuple[Said, str, bool]] = [
    (Said("The response was blocked", 500, {"code": "content_filter", "message": "blocked"}), "refused", False),
    (Said("litellm.BadRequestError: OpenAIException - bad key", 401), "auth", False),
    (Said("Missing Anthropic API Key - a call is being made"), "auth", False),
    (Said("API key not valid. Please pass a valid API key.", 400), "auth", False),
    (Said("Your credit balance is too low to access the API", 400), "provider", False),
    (Said("Insufficient Balance", 402), "provider", False),
    (Said("Pay first", 402), "provider", False),
    (Said("The spend limit of this key is reached", 403), "provider", False),
    (Said("You may not use this model", 403), "auth", False),
    (Said("The model `x` does not exist", 404), "usage", False),
    (Said("mistral: Invalid model: x", 400), "usage", False),
    (Said("slow down", 429), "rate_limit", True),
    (Said("x", 429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}), "provider", False),
    (Said('You exceeded your current quota. {"retryDelay": "34s"}', 429), "rate_limit", True),
    (Said('You exceeded your current quota. PerDay {"retryDelay": "34s"}', 429), "rate_limit", False),
    (Said("Overloaded", 500), "overloaded", True),
    (Said("x", 200, {"type": "overloaded_error", "message": "Overloaded"}), "overloaded", True),
    (Said("x", None, {"code": 429, "message": "later"}), "rate_limit", True),
    (Said("bad gateway", 502), "provider", True),
    (Said("temperature is not supported", 400), "provider", False),
    (Said("The response was filtered by content_filter", 400), "refused", False),
    (Said("prompt is too long: 9 tokens > 8 maximum", 400), "overflow", False),
    (Said("Request too large for gpt-4o: Limit 30000, Requested 50000", 429), "provider", False),
    (Said("'NoneType' object has no attribute 'access_key'\nTraceback (most recent call last):\n x"), "auth", False),
    (Said("something inside\nTraceback (most recent call last):\n  File x", 500), "provider", False),
]


@pytest.mark.parametrize(("error", "kind", "transient"), SORTED)
def test_failures_are_sorted_by_body_and_status(error: Said, kind: str, transient: bool) -> None:
    found = to_provider_error(error, model="openai/gpt-4o")
    assert (found.kind, found.transient) == (kind, transient)
    assert found.hint and found.kind in EXIT_STATUS
    assert not to_provider_error(error, model="openai/gpt-4o", started=True).transient


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "the connection was refused"),
        (TimeoutError("timed out"), "the connection timed out"),
        (socket.gaierror(-2, "Name or service not known"), "the host name was not found"),
        (OSError(113, "No route to host"), "[Errno 113] No route to host"),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"),
            "the connection failed: the server does not use TLS; http:// instead of https:// reaches it",
        ),
    ],
)
def test_a_network_error_is_found_behind_the_500_that_litellm_makes_of_it(cause: OSError, why: str) -> None:
    outer = Said("litellm.InternalServerError: Connection error.", 500)
    outer.__cause__ = cause
    found = to_provider_error(outer, model="anthropic/x")
    assert (found.kind, found.why, found.transient) == ("network", why, True)


@pytest.mark.parametrize(
    ("error", "variable"),
    [
        (httpx.InvalidURL("Invalid port: ':1]'"), "NO_PROXY"),
        (httpx.InvalidURL("Invalid port: 'hunter2'"), "HTTP_PROXY"),
        (ValueError("Unknown scheme for proxy URL URL('%20http://me:hunter2@proxy:1')"), "HTTP_PROXY"),
        (ssl.SSLError(136, "[X509: NO_CERTIFICATE_OR_CRL_FOUND] no certificate or crl found"), "SSL_CERT_FILE"),
    ],
)
def test_a_setting_of_the_network_that_no_library_accepts_is_named_at_once(error: Exception, variable: str) -> None:
    found = to_provider_error(error, model="openai/x")
    assert (found.kind, found.transient) == ("config", False) and variable in found.hint
    assert "hunter2" not in found.line


@pytest.mark.parametrize(
    ("module", "said", "package"),
    [
        ("google", "No module named 'google'\nTraceback (most recent call last):\n  File x", "google-auth"),
        (
            "vertexai",
            'vertexai import failed please run `pip install -U "google-cloud-aiplatform>=1.38"`.',
            "google-cloud-aiplatform",
        ),
        ("boto3", "no boto3", "boto3"),
    ],
)
def test_a_missing_package_is_named_and_not_tried_again(module: str, said: str, package: str) -> None:
    class APIConnectionError(Said):
        pass

    outer = APIConnectionError(said, 500)
    outer.__context__ = ModuleNotFoundError(f"No module named {module!r}", name=module)
    found = to_provider_error(outer, model="vertex_ai/gemini-2.5-pro")
    assert (found.kind, found.transient, found.exit_status) == ("config", False, 2)
    assert package in found.why and package in found.hint and "Traceback" not in found.line
    absent = to_provider_error(ModuleNotFoundError("No module named 'litellm'", name="litellm"), model="gpt-4o")
    assert absent.kind == "internal" and "litellm" in absent.why


def test_a_traceback_is_cut_off_a_line() -> None:
    assert format_error_line("it broke\nTraceback (most recent call last):\n  File x, line 1") == "it broke"


def test_a_quota_that_is_used_up_is_not_called_temporary() -> None:
    spent = to_provider_error(
        Said("x", 429, {"code": "insufficient_quota", "message": "no quota"}), model="openai/gpt-4o"
    )
    assert spent.exit_status == 1 and "plan" in spent.hint
    for words in ("Insufficient Balance", "Pay first"):
        unpaid = to_provider_error(Said(words, 402), model="openai/gpt-4o")
        assert (unpaid.exit_status, unpaid.hint) == (1, spent.hint)
    daily = to_provider_error(Said("exceeded your current quota. RequestsPerDay", 429), model="gemini/gemini-2.5-pro")
    assert daily.exit_status == 75 and "plan" in daily.hint


def test_the_key_of_the_environment_is_in_no_line_whatever_it_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2-my-key")
    found = to_provider_error(Said("Incorrect API key provided: hunter2-my-key. See x.", 401), model="openai/gpt-4o")
    assert "hunter2" not in found.line + found.why + str(found) and "Incorrect API key provided" in found.why
    assert found.hint.startswith("Correct or unset OPENAI_API_KEY"), "the variable wins over a stored key"


def test_the_hint_about_a_connection_names_the_variable_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = ConnectionRefusedError(111, "Connection refused")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")
    assert "OPENAI_API_BASE" in to_provider_error(lost, model="openai/gpt-4o").hint
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert "OPENAI_BASE_URL" in to_provider_error(lost, model="openai/gpt-4o").hint


def test_waits_are_read_in_every_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}) == 30.0
    assert retry_after({"retry-after": "Thu, 01 Jan 2015 00:00:30 GMT"}) == 0.0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}, 'details: {"retryDelay": "34s"}') == 34.0
    assert retry_after({}) is None
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert retry_after({"retry-after": "Thu Jan  1 00:00:30 2026"}) == 30.0, "this form means UTC, wherever we are"
    monkeypatch.undo()
    time.tzset()


def test_a_silence_outside_a_stream_names_no_limit_of_streams() -> None:
    why = to_provider_error(httpx.ReadTimeout("timed out"), model="github_copilot/").why
    assert "timed out" in why and "0 seconds" not in why


def test_a_number_without_a_digit_is_no_window() -> None:
    assert overflow_numbers("maximum context length is ,, tokens") == (None, None)


KEYS = [
    "sk-proj-abcdefghijklmnop0123456789",
    "sk-ant-api03-AAAAAAAAAAAAAAAA-bbbbbbbb",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "xai-abcdefghij0123456789",
    "gsk_abcdefghij0123456789",
    "0123456789abcdef0123456789abcdef",
]


@pytest.mark.parametrize("key", KEYS)
def test_nothing_like_a_key_gets_into_a_line(key: str) -> None:
    places = ("Incorrect API key provided: {}.", "Bearer {}", "https://x/y?key={}&z=1", '"k": "{}"')
    for text in (place.format(key) for place in places):
        assert key not in redact(text, opaque=True)
        assert key not in to_provider_error(Said(text, 401), model="openai/gpt-4o").line


@given(st.text(max_size=600))
def test_a_line_is_one_line_of_bounded_length(text: str) -> None:
    line = format_error_line(text)
    assert len(line) <= LINE and len(line.splitlines()) <= 1


@settings(max_examples=30)  # each new name reads the price table
@given(st.text(max_size=200), st.one_of(st.none(), st.integers(100, 599)))
def test_anything_that_is_raised_is_sorted(text: str, status: int | None) -> None:
    found = to_provider_error(Said(text, status), model=text)
    assert found.kind in EXIT_STATUS


def test_what_libraries_wrap_around_a_message_is_taken_off() -> None:
    inner = '{"type":"error","error":{"type":"x","message":"too\\nmuch"}}'
    assert format_error_line(f"litellm.RateLimitError: AnthropicException - {inner}") == "too much"
    assert format_error_line(f"litellm.RateLimitError: AnthropicException - {inner.encode()!r}") == "too much"
    assert format_error_line("litellm.APIError: APIError: OpenAIException - Error code: 529 - plain") == "plain"
    assert format_error_line('{"error": {"message": "no such voice", "error": "Bad Request"}}') == "no such voice"


@pytest.mark.parametrize("address", ["http://localhost:1/v1", "http://127.0.0.1", "127.9.9.9:80", "http://[::1]:8/"])
def test_loopback_is_recognised(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1.example.org", "https://api.openai.com/v1", "", "http://10.0.0.1"]
)
def test_other_addresses_are_not_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize("provider", ["ollama_chat", "lm_studio", "llamafile", "hosted_vllm"])
def test_a_local_server_without_an_address_is_looked_for_on_loopback_only(provider: str) -> None:
    base = with_variables({"OPENAI_API_KEY": "sk-x"}, resolve_endpoint, f"{provider}/m").base
    assert base is not None and is_loopback(base)
    other = {f"{provider.removesuffix('_chat').upper()}_API_BASE": "http://10.0.0.1:1"}
    assert with_variables(other, resolve_endpoint, f"{provider}/m").base == "http://10.0.0.1:1"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "mistral", "deepseek", "xai", "openrouter"])
def test_a_missing_key_is_told_before_anything_is_sent(provider: str) -> None:
    with pytest.raises(ProviderError) as raised:
        resolve_endpoint(f"{provider}/m")
    assert raised.value.kind == "auth"
    assert f"{provider.upper()}_API_KEY" in raised.value.line
    assert with_variables({f"{provider.upper()}_API_KEY": "k"}, resolve_endpoint, f"{provider}/m").provider == provider


def test_a_name_without_a_provider_is_a_wrong_usage() -> None:
    with pytest.raises(ProviderError) as raised:
        with_variables({"OPENAI_API_KEY": "k"}, resolve_endpoint, "unheard-of")
    assert raised.value.kind == "usage" and "unheard-of" in raised.value.line


def test_local_servers_are_those_that_accept_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        here, away = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in (listening, closed))
        usual = LocalServer("Ollama", here, "ollama_chat/"), LocalServer("vLLM", f"{away}/v1", "hosted_vllm/")
        assert local_servers(usual) == [usual[0]]
        monkeypatch.setenv("OLLAMA_API_BASE", away)
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", f"{here}/far/v1")
        monkeypatch.setenv("LM_STUDIO_API_BASE", "nothing")
        monkeypatch.setenv("OPENAI_API_BASE", f"{here}/v1")
        studio, own = LocalServer("LM Studio", "", "lm_studio/"), LocalServer("own", "", "openai/")
        assert [(one.url, one.prefix) for one in local_servers((*usual, studio, own))] == [
            (f"{here}/far/v1", "hosted_vllm/"),
            (f"{here}/v1", "openai/"),
        ]


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1>nginx</body></html>", "502 Bad Gateway"),
        ("<!DOCTYPE HTML>\n<html><body><h1 class='x'>Access <b>denied</b></h1></body></html>", "Access denied"),
        ("<html><body>x</body></html>", "no reason given"),
    ],
)
def test_of_a_web_page_in_place_of_an_answer_its_heading_is_shown(page: str, shown: str) -> None:
    for text in (page, f"litellm.InternalServerError: OpenAIException - {page}"):
        line = format_error_line(text)
        assert line.startswith(shown) and "<" not in line


def test_a_list_of_errors_is_shown_as_json() -> None:
    body = {"detail": [{"loc": ["body", "model"], "msg": "Field required"}]}
    found = to_provider_error(Said(f"Error code: 422 - {body}", 422, body), model="openai/x")
    assert '[{"loc": ["body", "model"], "msg": "Field required"}]' in found.message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more, visit the documentation"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, "tools param requires --jinja flag"),
    ],
)
def test_a_model_without_tools_is_told_from_a_failure_that_may_pass(status: int, words: str) -> None:
    error = to_provider_error(Said(words, status), model="openai/x")
    assert (error.kind, error.transient) == ("usage", False) and "--no-tools" in error.hint
