"""The bare script that nexus is measured beside: litellm with the same offline settings, and nothing else.

A program for a child process: `bare.py TURNS FILES` asks the model, answers each tool call with a file of that folder,
and goes on for so many turns, or until the model calls no tool. The server's address comes by OPENAI_API_BASE.
With `--print` the text is printed as it arrives.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


async def reply(acompletion: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One streamed reply, folded to a message."""
    stream = await acompletion(
        model="openai/scripted",
        messages=messages,
        tools=[READ_FILE],
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=8000,
        num_retries=0,
        max_retries=0,
    )
    text: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    async for chunk in stream:
        for choice in chunk.choices:
            text.append(choice.delta.content or "")
            if "--print" in sys.argv:
                print(text[-1], end="", flush=True)
            for call in choice.delta.tool_calls or ():
                held = calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                held["id"] = held["id"] or call.id or ""
                held["name"] = held["name"] or call.function.name or ""
                held["arguments"] += call.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    if calls:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
    return message


async def talk(turns: int, folder: Path) -> None:
    """The loop."""
    import json

    import litellm

    litellm.suppress_debug_info = True
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent. " * 100},
        {"role": "user", "content": "hi"},
    ]
    for _ in range(turns):
        answer = await reply(litellm.acompletion, messages)
        messages.append(answer)
        if "tool_calls" not in answer:
            return
        for call in answer["tool_calls"]:
            path = folder / json.loads(call["function"]["arguments"])["path"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": path.read_text()})


if __name__ == "__main__":
    os.environ |= {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
        "LITELLM_LOG": "ERROR",
    }
    asyncio.run(talk(int(sys.argv[1]), Path(sys.argv[2])))
