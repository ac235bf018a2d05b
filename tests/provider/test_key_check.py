"""A key is tried once when it is stored: what each provider answers to a wrong one, and what is no refusal."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from surroundings import with_variables

from nexus_cli.provider import key_check
from nexus_cli.provider.key_check import check_key

KEY = "sk-correct-horse-battery"
Answers = Callable[[int, object], Any]


@pytest.fixture
def provider() -> Iterator[Answers]:
    """A provider on loopback that gives one answer; returns its address and the requests that arrived."""
    servers = []

    def start(status: int, body: object) -> tuple[str, list[tuple[str, dict[str, str]]]]:
        asked: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("name", "variable", "path", "header"),
    [
        ("openai", "OPENAI_API_BASE", "/v1/models", ("authorization", f"Bearer {KEY}")),
        ("anthropic", "ANTHROPIC_API_BASE", "/v1/models", ("x-api-key", KEY)),
        ("gemini", "GEMINI_API_BASE", "/v1beta/models", ("x-goog-api-key", KEY)),
        ("openrouter", "OPENROUTER_API_BASE", "/api/v1/key", ("authorization", f"Bearer {KEY}")),
        ("deepseek", "DEEPSEEK_API_BASE", "/models", ("authorization", f"Bearer {KEY}")),
    ],
)
def test_each_provider_is_asked_once_in_its_own_way(
    provider: Answers, name: str, variable: str, path: str, header: tuple[str, str]
) -> None:
    url, asked = provider(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    refusal = with_variables({variable: f"{url}/v1" if name == "openai" else url}, check_key, name, KEY)[0]
    assert refusal.startswith("Incorrect API key") and KEY not in refusal
    assert with_variables({variable: url + path.rpartition("/")[0]}, check_key, name, KEY)[0], (
        "an address may end with the version"
    )
    (seen, headers), again = asked
    assert seen == path and headers[header[0]] == header[1] and again[0] == path


@pytest.mark.parametrize(
    ("status", "body", "refused"),
    [
        (200, {"data": []}, False),
        (401, "<html>no</html>", True),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, True),
        (400, {"error": {"message": "this host has no such path"}}, False),
        (403, {"error": {"message": "You have insufficient permissions: missing scopes api.model.read"}}, False),
        (404, "not here", False),
        (429, {"error": {"message": "slow down"}}, False),
        (503, "", False),
    ],
)
def test_only_a_refused_key_is_refused(provider: Answers, status: int, body: object, refused: bool) -> None:
    url, _ = provider(status, body)
    refusal, untried = with_variables({"OPENAI_API_BASE": f"{url}/v1"}, check_key, "openai", KEY)
    assert bool(refusal) is refused
    assert untried == ("" if refused or status == 200 else f"127.0.0.1 answered with HTTP status {status}")


def test_who_cannot_be_asked_refuses_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal, untried = with_variables({"OPENAI_API_BASE": "http://127.0.0.1:9/v1"}, check_key, "openai", KEY)
    assert not refusal and untried.startswith("the connection to 127.0.0.1 was refused. Check the connection; ")
    assert with_variables({"GROQ_API_BASE": "http://127.0.0.1:9"}, check_key, "groq", KEY) == ("", "")
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    assert (
        "not of the form http://HOST:PORT"
        in with_variables({"OPENAI_API_BASE": "http://gateway/v1"}, check_key, "openai", KEY)[1]
    )
    monkeypatch.delenv("HTTP_PROXY")
    never = threading.Event()
    monkeypatch.setattr(key_check, "SECONDS", 0.05)
    monkeypatch.setattr(key_check, "_ask", lambda *_: never.wait(60))
    assert check_key("openai", KEY) == ("", "api.openai.com did not answer within 0.05 s")
    never.set()


def test_an_address_that_is_none_stores_the_key_untried() -> None:
    refusal, untried = with_variables({"OPENAI_API_BASE": "not an address"}, check_key, "openai", KEY)
    assert not refusal and untried
