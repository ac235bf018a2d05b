"""What a provider wants back goes there and back over the wire, unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from provider.talk import ASKED, ask
from server.play import ScriptedServer

from nexus_cli.core.message import Message

CALL = {"name": "look", "arguments": {"at": "x"}}


def wire(message: Message) -> list[dict[str, Any]]:
    """The message and a result for each of its calls as they go out, opaque fields merged in."""
    kept = json.loads(message.opaque.data) if message.opaque else {"message": {}, "calls": {}}
    calls, results = [], []
    for call in message.tool_calls:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        made = {"id": call.id, "type": "function", "function": function} | kept["calls"].get(call.id, {})
        calls.append(made)
        results.append({"role": "tool", "tool_call_id": made["id"], "content": "seen"})
    said = {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return [said | kept["message"], *results]


@pytest.mark.matrix
def test_anthropics_signed_thinking_goes_back_first_and_unchanged(model_server: ScriptedServer) -> None:
    model_server.load([{"text": "I look.", "thinking": "first I think", "signature": "c2ln", "calls": [CALL]}, "done"])
    heard = ask(model_server, "anthropic", effort="low", max_output=4000)
    assert heard.error is None
    again = ask(model_server, "anthropic", [*ASKED, *wire(heard.reply.message)], effort="low", max_output=4000)
    assert again.error is None
    content = model_server.requests[1].body["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "first I think", "signature": "c2ln"}
    assert [b["type"] for b in content] == ["thinking", "text", "tool_use"]
    assert model_server.requests[1].body["thinking"]["type"] in ("enabled", "adaptive")


def test_thinking_is_not_asked_for_in_answer_to_calls_that_were_made_without(model_server: ScriptedServer) -> None:
    model_server.load([{"calls": [CALL]}, "done"])
    heard = ask(model_server, "anthropic")
    ask(model_server, "anthropic", [*ASKED, *wire(heard.reply.message)], effort="low", max_output=4000)
    assert "thinking" not in model_server.requests[1].body


def test_geminis_thought_signature_goes_back_on_its_call(model_server: ScriptedServer) -> None:
    model_server.load([{"calls": [CALL, {"name": "look", "arguments": {"at": "y"}}], "signature": "c2ln"}, "done"])
    heard = ask(model_server, "gemini")
    ask(model_server, "gemini", [*ASKED, *wire(heard.reply.message)])
    parts = model_server.requests[1].body["contents"][1]["parts"]
    assert [p.get("thoughtSignature") for p in parts] == ["c2ln", None]
    results = model_server.requests[1].body["contents"][2]["parts"]
    assert [r["function_response"]["name"] for r in results] == ["look", "look"]


def test_deepseeks_reasoning_goes_back_with_its_message(model_server: ScriptedServer) -> None:
    model_server.load([{"thinking": "because", "calls": [CALL]}, "done"])
    model = "deepseek/deepseek-reasoner"
    heard = ask(model_server, "chat", model=model, effort="high")
    again = ask(model_server, "chat", [*ASKED, *wire(heard.reply.message)], model=model, effort="high")
    assert again.error is None
    assert model_server.requests[1].body["messages"][2]["reasoning_content"] == "because"
