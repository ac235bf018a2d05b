"""Bytes count, not chunks: a server that keeps the line open with comments is not silent."""

from __future__ import annotations

import asyncio
import json

import pytest
from provider.talk import MODELS, Heard, hear, request
from search import sample

from nexus_cli.provider.litellm_backend import LitellmBackend

SPOKEN = (MODELS["chat"], "openrouter/openai/gpt-4o", "hosted_vllm/m")
CHUNK = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "late"}, "finish_reason": "stop"}],
}


@pytest.fixture(scope="module")
def heard() -> dict[str, Heard]:
    """What came of one request to each model, all at the same time: each keeps the line open for five seconds."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(20):
            writer.write(b": still working\n\n")
            await writer.drain()
            await asyncio.sleep(0.25)
        writer.write(b"data: " + json.dumps(CHUNK).encode() + b"\n\ndata: [DONE]\n\n")
        await writer.drain()
        writer.close()

    async def run(model: str) -> Heard:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            backend = LitellmBackend(api_base=base, api_key="k")
            try:
                return await hear(backend, request(model, stall_seconds=4.0))
            finally:
                await backend.aclose()

    async def run_all() -> list[Heard]:
        return await asyncio.gather(*map(run, SPOKEN))

    return dict(zip(SPOKEN, asyncio.run(run_all()), strict=True))


@pytest.mark.matrix
@pytest.mark.parametrize("model", sample(SPOKEN, 3))
def test_comments_on_the_line_are_no_silence(model: str, heard: dict[str, Heard]) -> None:
    assert heard[model].error is None, heard[model].error
    assert heard[model].reply.message.content == "late"


@pytest.mark.matrix
@pytest.mark.parametrize("model", ["bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "groq/m", "gemini/m"])
async def test_a_silent_server_is_a_stall_at_every_provider(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")

    ended = asyncio.Event()

    async def say_nothing(*_: object) -> None:
        await ended.wait()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            error = (await hear(LitellmBackend(api_base=base, api_key="k"), request(model, stall_seconds=0.3))).error
        finally:
            ended.set()
    assert error is not None and (error.kind, error.why) == ("network", "no data for 0.3 seconds")
