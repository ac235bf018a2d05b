"""How answers are cut, and where their body ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server.play import ScriptedServer
from server.raw_client import FORMS, LONG, Heard, once, post, request_body, text_of


@pytest.mark.parametrize("form", FORMS)
def test_characters_can_be_split_over_chunks_and_every_byte_can_be_its_own(
    model_server: ScriptedServer, form: str
) -> None:
    text = "né 日本 🙂"
    split = once(model_server, form, {"text": text, "write": "utf8"})
    assert sum(not _decodes(chunk) for chunk in split.chunks) >= 4 and text_of(split, form) == text
    single = once(model_server, form, {"text": text, "write": 1})
    assert {len(chunk) for chunk in single.chunks} == {1} and text_of(single, form) == text


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def tool_deltas(heard: Heard) -> list[dict[str, Any]]:
    choices = [choice for event in heard.events if isinstance(event, dict) for choice in event["choices"]]
    return [call for choice in choices for call in choice["delta"].get("tool_calls", ())]


CALLS: dict[str, Any] = {"calls": [{"name": "f", "arguments": '{"a":1}'}, {"name": "g", "arguments": "[2]"}]}


def test_chat_fragments_can_be_single_characters_and_take_turns(model_server: ScriptedServer) -> None:
    cut = tool_deltas(once(model_server, "chat", CALLS | {"fragment": 1, "interleave": True}))
    assert [(c["index"], c["function"].get("name")) for c in cut[:2]] == [(0, "f"), (1, "g")]
    rest = [(c["index"], c["function"]["arguments"]) for c in cut[2:]]
    assert rest == [(0, "{"), (1, "["), (0, '"'), (1, "2"), (0, "a"), (1, "]"), (0, '"'), (0, ":"), (0, "1"), (0, "}")]


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ("given", ["call_1_0", None, "call_1_1", None]),
        ("echoed", ["call_1_0", "call_1_0", "call_1_1", "call_1_1"]),
        ("same", ["call_1_0", None, "call_1_0", None]),
        ("empty", ["", None, "", None]),
        ("missing", [None, None, None, None]),
    ],
)
def test_chat_ids_can_be_missing_empty_or_repeated(model_server: ScriptedServer, ids: str, found: list[Any]) -> None:
    assert [call.get("id") for call in tool_deltas(once(model_server, "chat", CALLS | {"ids": ids}))] == found


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_without_a_stream_says_the_same_and_breaks_as_well(model_server: ScriptedServer, form: str) -> None:
    def ask(step: dict[str, Any]) -> Heard:
        model_server.load([step])
        return post(model_server, form, request_body(form, stream=False), stream=False)

    whole = ask(LONG | CALLS | {"thinking": "hm"})
    assert whole.end == "complete" and "content-length" in whole.headers
    said = json.dumps(whole.json)
    assert LONG["text"] in said and '"hm"' in said and '"f"' in said
    assert ask(LONG | {"fault": "cut"}).end == "closed" and ask(LONG | {"fault": "reset"}).end == "reset"
    assert ask(LONG | {"fault": "error_first"}).json["error"]
    for kind in ("bad_json", "bad_utf8"):
        with pytest.raises(ValueError):
            json.loads(ask(LONG | {"fault": kind}).body)


def test_a_body_can_end_with_its_connection_and_then_a_cut_is_silent(model_server: ScriptedServer) -> None:
    whole = once(model_server, "chat", LONG | {"framing": "close"})
    assert "transfer-encoding" not in whole.headers and "content-length" not in whole.headers
    assert whole.body.endswith(b"[DONE]\n\n")
    cut = once(model_server, "chat", LONG | {"framing": "close", "fault": {"kind": "cut", "after": 2}})
    assert cut.end == "complete" and whole.body.replace(b"-1", b"-2").startswith(cut.body)
