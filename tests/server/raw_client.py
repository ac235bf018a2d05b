"""A client in raw bytes: shows exactly what the server wrote and how it ended. For tests of the server itself."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from server.play import ScriptedServer

PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/scripted:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
FORMS = list(PATHS)
LONG: dict[str, Any] = {"text": "one two three four five six seven", "chunk": 4}
"""A step that goes out in nine deltas."""


@dataclass
class Heard:
    """An answer as it came."""

    status: int = 0
    """0: not even a status line."""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    """HTTP chunks of the body; one for a body with a length."""
    end: str = ""
    """`complete`, `closed` (too early) or `reset`."""

    @property
    def body(self) -> bytes:
        """All of the body that came."""
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The parsed `data:` lines (or JSON lines); what is no JSON stays text."""
        made = []
        for line in self.body.decode().splitlines():
            text = line.removeprefix("data: ")
            if line and not line.startswith("event:"):
                try:
                    made.append(json.loads(text))
                except ValueError:
                    made.append(text)
        return made


def request_body(form: str, text: str = "hello", *, stream: bool = True) -> dict[str, Any]:
    """A small request."""
    said = [{"role": "user", "content": text}]
    if form == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    extra = {"stream_options": {"include_usage": True}} if form == "chat" and stream else {}
    return {"model": "scripted", "messages": said, "stream": stream} | extra


def request_bytes(path: str, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A POST in HTTP/1.1."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def post(server: ScriptedServer, form: str, body: Any = None, *, stream: bool = True) -> Heard:
    """One request on a connection of its own."""
    path = PATHS[form] if stream else PATHS[form].replace("streamGenerateContent?alt=sse", "generateContent")
    sent = request_body(form, stream=stream) if body is None else body
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as line:
        line.sendall(request_bytes(path, sent))
        return hear(line)


def hear(line: socket.socket) -> Heard:
    """Reads one answer."""
    heard = Heard()
    with line.makefile("rb") as file:
        try:
            words = file.readline().split()
            if len(words) < 2:
                heard.end = "closed"
                return heard
            heard.status = int(words[1])
            while (field_line := file.readline().decode().strip()) != "":
                name, _, value = field_line.partition(": ")
                heard.headers[name.lower()] = value
            heard.end = _body(file, heard)
        except ConnectionResetError:
            heard.end = "reset"
    return heard


def _body(file: Any, heard: Heard) -> str:
    if heard.headers.get("transfer-encoding") == "chunked":
        while size_line := file.readline():
            size = int(size_line, 16)
            piece = file.read(size)
            file.readline()
            if size == 0:
                return "complete"
            heard.chunks.append(piece)
        return "closed"
    if "content-length" in heard.headers:
        wanted = int(heard.headers["content-length"])
        heard.chunks.append(file.read(wanted))
        return "complete" if len(heard.body) == wanted else "closed"
    heard.chunks.append(file.read())
    return "complete"


def once(server: ScriptedServer, form: str, step: Any, *, stream: bool = True) -> Heard:
    """The answer to one request, by this step alone."""
    server.load([step])
    return post(server, form, stream=stream)


def text_of(heard: Heard, form: str) -> str:
    """The text in the events of any form."""
    found = []
    for event in heard.events:
        if not isinstance(event, dict):
            continue
        if form == "chat":
            found += [choice["delta"].get("content", "") for choice in event.get("choices", ())]
        elif form == "anthropic":
            found.append(event.get("delta", {}).get("text", ""))
        elif form == "gemini":
            found += [part.get("text", "") for one in event["candidates"] for part in one["content"]["parts"]]
        else:
            found.append(event["message"]["content"])
    return "".join(found)


def deltas_of(heard: Heard, form: str) -> int:
    """How many whole deltas with text came."""
    mark = {"chat": b'"content":"', "anthropic": b"text_delta", "gemini": b'"text":"', "ollama": b'"content":"'}[form]
    empty = {"chat": b'"content":""', "gemini": b'"text":""', "ollama": b'"content":""'}.get(form, b"\0")
    return heard.body.count(mark) - heard.body.count(empty)
