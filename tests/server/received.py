"""What the server received, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from server.blocks import Block, content
from server.tokens import Tokens


@dataclass
class Received:
    """One request. The fields after `at` are filled while it is answered."""

    number: int
    """From 1, in order of arrival; only model requests count."""
    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case; keys are kept as they came."""
    raw: bytes
    """The body as it came."""
    at: float
    """Seconds since the epoch when the request was complete."""
    connection: int = 0
    """Number of the connection that it came on."""
    status: int = 0
    """Status of the answer; 0 when none was sent."""
    fault: str = ""
    """Kind of the fault it was answered with."""
    tokens: Tokens = field(default_factory=Tokens)
    """As reported; `input` also where it was refused."""
    sent: int = 0
    """Bytes of the answer's body handed to the socket."""
    closed_early: bool = False
    """The client closed before the answer was complete."""
    done: bool = False
    """The answer is over, one way or another."""

    @cached_property
    def body(self) -> Any:
        """The body parsed; None when it is no JSON."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @property
    def results(self) -> list[str]:
        """The results of the calls in a request of the form `chat`, in their order."""
        return tool_results(self.body)

    @cached_property
    def form(self) -> str:
        """`chat`, `anthropic`, `gemini`, `ollama`, `responses`, or "" for any other path."""
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            return "chat"
        if path.endswith("/messages"):
            return "anthropic"
        if path.endswith("/responses"):
            return "responses"
        if path.endswith((":streamGenerateContent", ":generateContent")):
            return "gemini"
        return "ollama" if path.endswith("/api/chat") else ""

    @cached_property
    def model(self) -> str:
        """The model's name as the request has it."""
        if self.form == "gemini":
            return unquote(self.path.rpartition("/models/")[2].partition(":")[0])
        return str(self.body.get("model", "")) if isinstance(self.body, dict) else ""

    @property
    def stream(self) -> bool:
        """A stream is wanted."""
        if self.form == "gemini":
            return ":streamGenerateContent" in self.path
        return bool(isinstance(self.body, dict) and self.body.get("stream", self.form == "ollama"))

    @cached_property
    def content(self) -> list[Block]:
        """Its content as blocks; empty when it is no model request."""
        return content(self.body, self.form) if self.form and isinstance(self.body, dict) else []

    @property
    def readable(self) -> bool:
        """It is a model request whose body has the shape of its form."""
        try:
            return bool(self.form) and isinstance(self.body, dict) and self.content is not None
        except (AttributeError, TypeError, ValueError):
            return False

    @property
    def blocks(self) -> list[str]:
        """Its canonical blocks, see `server.blocks`."""
        return [block.line for block in self.content]

    @property
    def offered(self) -> list[str]:
        """Names of the tools that it offers."""
        tools = [block.value for block in self.content if block.role == "tools"]
        return [str(tool.get("function", tool).get("name")) for tool in tools]

    def record(self) -> dict[str, Any]:
        """One line of a log."""
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "form": self.form,
            "headers": dict(self.headers),
            "body": self.body,
            "raw": self.raw.decode("utf-8", "backslashreplace") if self.body is None else None,
            "at": self.at,
            "connection": self.connection,
            "status": self.status,
            "fault": self.fault,
            "input_tokens": self.tokens.input,
            "cache_read": self.tokens.cache_read,
            "cache_write": self.tokens.cache_write,
            "sent": self.sent,
            "closed_early": self.closed_early,
            "done": self.done,
        }


def tool_results(body: Any) -> list[str]:
    """Return the texts of the results in the body of a request of the form `chat`, in their order."""
    return [str(message["content"]) for message in body["messages"] if message["role"] == "tool"]
