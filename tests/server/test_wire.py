"""What the server writes when nothing breaks, byte for byte, and how answers are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server.fixtures import Start
from server.play import ScriptedServer
from server.raw_client import (
    DELTAS,
    FORMS,
    LONG,
    Heard,
    deltas_of,
    once,
    post,
    request_body,
    text_of,
)


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_carries_its_text_in_chunks_and_ends_properly(model_server: ScriptedServer, form: str) -> None:
    heard = once(model_server, form, LONG)
    assert (heard.status, heard.end, text_of(heard, form)) == (200, "complete", LONG["text"])
    assert deltas_of(heard, form) == DELTAS
    assert heard.headers["content-type"].startswith("application/x-ndjson" if form == "ollama" else "text/event-stream")
    last = {"chat": b"data: [DONE]\n\n", "anthropic": b'"message_stop"}\n\n', "gemini": b"}\r\n\r\n", "ollama": b"}\n"}
    assert heard.body.endswith(last[form])


def test_chat_usage_comes_only_when_asked_for(model_server: ScriptedServer) -> None:
    body = request_body("chat")
    assert post(model_server, "chat", body).events[-2]["usage"]["prompt_tokens"] > 0
    del body["stream_options"]
    assert b"usage" not in post(model_server, "chat", body).body


def test_mistral_puts_usage_into_its_last_chunk_unasked(start_server: Start) -> None:
    body = request_body("chat")
    del body["stream_options"]
    last = post(start_server(dialect="mistral"), "chat", body).events[-2]
    assert last["choices"][0]["finish_reason"] == "stop" and last["usage"]["prompt_tokens"] > 0


def test_deepseek_spells_its_cache_figures_too(start_server: Start) -> None:
    server = start_server(dialect="deepseek")
    post(server, "chat")
    usage = post(server, "chat").events[-2]["usage"]
    assert (usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]) == (usage["prompt_tokens"], 0)


@pytest.mark.parametrize("form", FORMS)
def test_scripted_usage_replaces_the_count_and_can_be_left_out(model_server: ScriptedServer, form: str) -> None:
    heard = once(model_server, form, {"text": "x", "usage": {"input": 1234, "output": 77}})
    assert b"1234" in heard.body and b"77" in heard.body
    heard = once(model_server, form, {"text": "x", "report": False})
    assert not any(word in heard.body for word in (b"usage", b"tokens", b"eval_count", b"TokenCount"))


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


def test_chat_indexes_can_be_missing_or_zero_and_a_call_can_come_whole(model_server: ScriptedServer) -> None:
    for word, found in (("given", [0, 1]), ("missing", [None, None]), ("zero", [0, 0])):
        cut = tool_deltas(once(model_server, "chat", CALLS | {"indexes": word, "fragment": 0}))
        assert [call.get("index") for call in cut] == found
        assert [call["function"] for call in cut] == CALLS["calls"]


def test_anthropic_blocks_can_be_open_at_once(model_server: ScriptedServer) -> None:
    heard = once(model_server, "anthropic", CALLS | {"fragment": 4, "interleave": True})
    order = [(e["type"][14:], e["index"]) for e in heard.events if e["type"].startswith("content_block")]
    assert order == [
        ("start", 0),
        ("start", 1),
        ("delta", 0),
        ("delta", 1),
        ("delta", 0),
        ("stop", 0),
        ("stop", 1),
    ]


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


@pytest.mark.matrix
def test_fifty_megabytes_arrive_whole(model_server: ScriptedServer) -> None:
    heard = once(model_server, "chat", {"text": "0123456789", "repeat": 5_000_000, "chunk": 1 << 20})
    assert heard.end == "complete" and sum(chunk.count(b"0123456789") for chunk in heard.chunks) >= 4_990_000
    assert model_server.requests[0].sent == len(heard.body) > 50_000_000
