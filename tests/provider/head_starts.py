"""A person whose processes make one request each, and what each of them sent: early, or by litellm alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from provider.front import Front
from provider.talk import ASKED, Heard, hear, request
from server.play import ScriptedServer
from server.received import Received

from nexus_cli.core.request import Request
from nexus_cli.provider import head_start, litellm_backend
from nexus_cli.provider.litellm_backend import LitellmBackend

KEY = "sk-test-0123456789"
WHOLE = (
    "openai/gpt-4o",
    "openai/gpt-5",
    "lm_studio/m",
    "llamafile/m",
    "hosted_vllm/m",
    "deepseek/deepseek-chat",
    "xai/grok-4",
    "openrouter/openai/gpt-4o",
    "mistral/mistral-large-latest",
)
"""A model of each provider that takes messages in our form: its templates serve any conversation."""
TEXTS = (
    "openai/o3",
    "ollama_chat/llama3",
    "openrouter/anthropic/claude-sonnet-4.5",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-pro",
)
"""Models whose provider gets another form: their templates serve the first request of a session."""


def form_of(model: str) -> str:
    """The wire form of the scripted server in which `model` is asked."""
    forms = {"anthropic": "anthropic", "gemini": "gemini", "ollama_chat": "ollama"}
    return forms.get(model.partition("/")[0], "chat")


@dataclass
class Processes:
    """Processes of one person, each with a first request to the same server."""

    server: ScriptedServer
    folder: Path
    key: str = KEY
    front: Front | None = None
    """Through which the server is reached."""
    early: list[bytes] = field(default_factory=list)
    """Every request that was sent before litellm made it."""

    def begin(self) -> None:
        """A new process: no connection, no client, and no request yet."""
        litellm_backend.litellm().in_memory_llm_clients_cache.flush_cache()
        head_start._has_started = False

    def backend(self, model: str, *, plain: bool = False) -> LitellmBackend:
        """The backend of a process; `plain`: one that never starts ahead."""
        folder = None if plain else self.folder
        base = (self.front or self.server).base(form_of(model))
        return LitellmBackend(api_base=base, api_key=self.key, templates=folder)

    async def say(self, asked: Request, *, plain: bool = False) -> tuple[Heard, bool]:
        """What one process hears, and whether its request was sent early."""
        self.begin()
        before = len(self.early)
        backend = self.backend(asked.model, plain=plain)
        try:
            return await hear(backend, asked), len(self.early) > before
        finally:
            await backend.aclose()

    def ask(self, model: str, messages: Sequence[Mapping[str, Any]] = ASKED, **fields: Any) -> tuple[Heard, bool]:
        """One process that asks `model`."""
        plain = fields.pop("plain", False)
        return asyncio.run(self.say(request(model, messages, **fields), plain=plain))

    def learn(self, model: str, messages: Sequence[Mapping[str, Any]] = ASKED, **fields: Any) -> None:
        """The two processes after which a template counts."""
        for _ in range(2):
            heard, early = self.ask(model, messages, **fields)
            assert heard.error is None and not early
        self.server.requests.clear()

    def files(self) -> list[dict[str, Any]]:
        """The templates that are kept."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def alter(self, was: str, now: str) -> None:
        """Let every template say something else than litellm would."""
        for path in self.folder.glob("*.json"):
            text = path.read_text()
            assert was in text
            path.write_text(text.replace(was, now))


@contextmanager
def processes(server: ScriptedServer, folder: Path) -> Iterator[Processes]:
    """Processes without the proxies and rules for TLS of whoever runs the tests."""
    made = Processes(server, folder)

    class Counted(head_start._EarlyStream):
        def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> None:
            made.early.append(sent)
            super().__init__(reader, writer, sent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_start, "_EarlyStream", Counted)
        patch.setattr(head_start, "_has_started", False)
        yield made


def wire(received: Received) -> tuple[str, str, list[tuple[str, str]], bytes]:
    """What a server can tell requests apart by, without its own address."""
    return received.method, received.path, list(received.headers.items()), received.raw
