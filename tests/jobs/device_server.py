"""Plays the sign-in of GitHub and ChatGPT on loopback, Copilot's token endpoint, and ChatGPT's model endpoint."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GITHUB_TOKEN = "gho_0123456789abcdefghij"
CLAIM = "https://api.openai.com/auth"


def jwt(number: int, seconds: float) -> str:
    """A token of ChatGPT that ends in so many seconds."""
    claims = {"exp": int(time.time() + seconds), "n": number, CLAIM: {"chatgpt_account_id": "acc-1"}}
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sign{number:08d}"


def reply_events(text: str) -> list[dict[str, Any]]:
    """The events of a reply of the Responses interface."""
    usage = {"input_tokens": 50, "output_tokens": 9, "total_tokens": 59}
    response = {"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": []}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "usage": usage}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "response": response | {"status": "in_progress"}},
        {"type": "response.output_text.delta", **place, "delta": text},
        {"type": "response.completed", "response": response | more},
    ]


@dataclass
class DeviceServer:
    """What the person does on the web page, and what the endpoints have seen."""

    answers: list[str] = field(default_factory=list)
    """The errors of the polls before the grant."""
    seconds: float = 1800.0
    """Validity of the tokens it gives out."""
    refusal: int = 0
    """Status with which tokens are refused; 0 to give them out."""
    models: str = ""
    """Address of Copilot's models."""
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""

    def seen(self, path: str) -> list[tuple[dict[str, str], Any]]:
        """Headers and bodies of the requests to `path`."""
        return [(headers, body) for at, headers, body in self.requests if at == path]

    def answer(self, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and body."""
        self.requests.append((path, headers, body))
        if path in ("/token", "/oauth/token") and self.refusal:
            return self.refusal, {"message": "Bad credentials"}
        number = len(self.requests)
        if path == "/device/code":
            return 200, {
                "device_code": "dev",
                "user_code": "ABCD-1234",
                "verification_uri": "https://github.com/login/device",
                "interval": 0.1,
            }
        if path == "/access_token":
            return 200, {"error": self.answers.pop(0)} if self.answers else {"access_token": GITHUB_TOKEN}
        if path == "/token":
            end = int(time.time() + self.seconds)
            return 200, {"token": f"tid={number:016d}", "expires_at": end, "endpoints": {"api": self.models}}
        if path == "/usercode":
            return 200, {"device_auth_id": "dev", "user_code": "WXYZ-9876", "interval": "0"}
        if path == "/poll":
            if self.answers:
                return int(self.answers.pop(0)), {}
            return 200, {name: name for name in ("authorization_code", "code_challenge", "code_verifier")}
        if path == "/oauth/token":
            token = jwt(number, self.seconds)
            return 200, {"access_token": token, "refresh_token": f"refresh-{number:08d}", "id_token": token}
        if path == "/responses":
            return 200, "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in reply_events("Hello."))
        return 404, {}

    @property
    def environment(self) -> dict[str, str]:
        """Points litellm's addresses of GitHub here."""
        return {
            "GITHUB_COPILOT_DEVICE_CODE_URL": f"{self.url}/device/code",
            "GITHUB_COPILOT_ACCESS_TOKEN_URL": f"{self.url}/access_token",
            "GITHUB_COPILOT_API_KEY_URL": f"{self.url}/token",
        }

    @property
    def chatgpt(self) -> str:
        """Python that points litellm's addresses of ChatGPT here, which are constants."""
        names = {"DEVICE_CODE_URL": "usercode", "DEVICE_TOKEN_URL": "poll", "OAUTH_TOKEN_URL": "oauth/token"}
        lines = [f"module.CHATGPT_{name} = '{self.url}/{path}'" for name, path in names.items()]
        lines += ["module.DEVICE_CODE_POLL_SLEEP_SECONDS = 0"]
        return "\n".join(["import litellm.llms.chatgpt.authenticator as module", *lines])


@contextmanager
def device_server() -> Iterator[DeviceServer]:
    """A server that runs within the block."""
    played = DeviceServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            given = self.rfile.read(int(self.headers.get("content-length") or 0))
            is_json = "json" in self.headers.get("content-type", "")
            self._answer(json.loads(given) if is_json else given.decode())

        def _answer(self, body: Any) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, made = played.answer(self.path, headers, body)
            is_stream = isinstance(made, str)
            text = (made if is_stream else json.dumps(made)).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
