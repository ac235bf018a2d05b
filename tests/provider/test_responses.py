"""Models that OpenAI serves through its Responses interface only: litellm translates, the deltas are the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from provider.talk import ASKED, Heard, hear, request

from nexus_cli.core.message import ToolCall
from nexus_cli.provider.answer_format import answer_format
from nexus_cli.provider.litellm_backend import LitellmBackend

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "model": "gpt-5-codex",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "temperature": 1,
    "top_p": 1,
}
USAGE = {
    "input_tokens": 50,
    "output_tokens": 9,
    "total_tokens": 59,
    "input_tokens_details": {"cached_tokens": 32},
    "output_tokens_details": {"reasoning_tokens": 4},
}


def events() -> list[dict[str, Any]]:
    """A text and two calls, each in pieces."""
    made: list[dict[str, Any]] = [{"type": "response.created", "response": RESPONSE}]
    made += [
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}
        for text in ("hello ", "there")
    ]
    output = []
    for n in (1, 2):
        arguments = json.dumps({"at": n})
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "look", "status": "completed"}
        place = {"item_id": f"fc_{n}", "output_index": n}
        output.append(call | {"arguments": arguments})
        begun = call | {"arguments": "", "status": "in_progress"}
        made.append({"type": "response.output_item.added", "output_index": n, "item": begun})
        made += [{"type": "response.function_call_arguments.delta", **place, "delta": d} for d in arguments]
        made.append({"type": "response.function_call_arguments.done", **place, "arguments": arguments})
        made.append({"type": "response.output_item.done", "output_index": n, "item": output[-1]})
    done = RESPONSE | {"status": "completed", "output": output, "usage": USAGE}
    return [e | {"sequence_number": n} for n, e in enumerate([*made, {"type": "response.completed", "response": done}])]


async def exchange(script: list[dict[str, Any]], **fields: Any) -> tuple[str, dict[str, Any], Heard]:
    """One request to a server that answers with these events: its first line, its body, and what was heard."""
    seen: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length"))
        seen.extend([head.splitlines()[0], json.loads(await reader.readexactly(int(length)))])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in script:
            writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        asked = request("openai/gpt-5-codex", cache_key="lane", **fields)
        heard = await hear(LitellmBackend(api_base=base, api_key="k"), asked)
    return seen[0], seen[1], heard


@pytest.mark.matrix
def test_messages_reach_the_responses_interface_and_its_events_become_deltas() -> None:
    line, body, heard = asyncio.run(exchange(events()))
    assert line.startswith("POST /v1/responses")
    assert body["instructions"] == ASKED[0]["content"]
    assert body["input"][0]["content"][0]["text"] == ASKED[1]["content"]
    assert (body["max_output_tokens"], body["prompt_cache_key"]) == (100, "lane")
    assert heard.error is None
    assert heard.reply.message.content == "hello there"
    assert heard.reply.message.tool_calls == (
        ToolCall("call0", "look", {"at": 1}),
        ToolCall("call1", "look", {"at": 2}),
    )
    usage = heard.reply.usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (50, 9, 32, 4)


def test_the_schema_of_an_answer_reaches_the_responses_interface() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    given = answer_format("openai/gpt-5-codex", schema, has_tools=True)
    _, body, _ = asyncio.run(exchange(events(), response_format=given))
    assert body["text"]["format"]["schema"] == schema and body["text"]["format"]["strict"] is True and body["tools"]


@pytest.mark.parametrize("kept", [0, 3])
def test_a_cut_stream_of_the_responses_interface_is_not_called_finished(kept: int) -> None:
    heard = asyncio.run(exchange(events()[:kept]))[2]
    assert heard.error is not None or heard.reply.finish in ("none", "empty")
    assert heard.reply.usage is None
