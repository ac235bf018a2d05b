"""Talks to a scripted server through the real backend, and collects what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.play import ScriptedServer

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Request
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.reply import Reply, ReplyFold

MODELS = {
    "chat": "openai/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-pro",
    "ollama": "ollama_chat/llama3",
}
"""One model for each wire form of the scripted server."""
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
ASKED: Sequence[Mapping[str, Any]] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look at it."},
)


def request(model: str, messages: Sequence[Mapping[str, Any]] = ASKED, **fields: Any) -> Request:
    """A request with one tool."""
    given: dict[str, Any] = {"tools": (TOOL,), "max_output": 100, "stall_seconds": 20.0, **fields}
    return Request(model, messages, **given)


@dataclass
class Heard:
    """What came back for one request."""

    deltas: list[Delta]
    reply: Reply
    error: ProviderError | None


async def hear(backend: LitellmBackend, asked: Request) -> Heard:
    """All deltas of one request, folded, and the error that ended it, if one did."""
    provider = asked.model.partition("/")[0]
    fold = ReplyFold(lambda n: f"call{n}", provider, asked.model)
    deltas: list[Delta] = []
    error = None
    try:
        async for delta in backend.stream(asked):
            deltas.append(delta)
            fold.feed(delta)
    except ProviderError as raised:
        error = raised
    return Heard(deltas, fold.finish(), error)


def ask(server: ScriptedServer, form: str, messages: Sequence[Mapping[str, Any]] = ASKED, **fields: Any) -> Heard:
    """One request in `form` to `server`, from a loop of its own."""
    model = fields.pop("model", MODELS[form])

    async def run() -> Heard:
        backend = LitellmBackend(api_base=server.base(form), api_key="sk-test-0123456789")
        try:
            return await hear(backend, request(model, messages, **fields))
        finally:
            await backend.aclose()

    return asyncio.run(run())
