"""Which answers a provider is asked to hold to a schema, and what of that reaches the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from provider.talk import MODELS, ask
from server.play import ScriptedServer

from nexus_cli.provider.answer_format import MAX_CHARACTERS, answer_format

ROW: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": ["integer", "null"]}},
    "required": ["count", "name"],
    "additionalProperties": False,
}
ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": ROW}},
    "required": ["rows"],
    "additionalProperties": False,
}
REFERRING = {**ROWS, "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}}, "$defs": {"row": ROW}}


@pytest.mark.parametrize(
    ("model", "beside_tools", "without"),
    [
        ("openai/gpt-4o", True, True),
        ("gpt-5", True, True),
        ("anthropic/claude-sonnet-4-5", True, True),
        ("anthropic/claude-3-7-sonnet-20250219", False, False),
        ("gemini/gemini-2.5-pro", False, True),
        ("mistral/mistral-large-latest", False, True),
        ("deepseek/deepseek-chat", False, False),
        ("ollama_chat/llama3", False, False),
        ("openai/gpt-4", False, False),
        ("openai/no-such-model", False, False),
        ("openrouter/openai/gpt-4o", False, False),
    ],
)
def test_the_provider_and_the_model_decide(model: str, beside_tools: bool, without: bool) -> None:
    assert bool(answer_format(model, ROWS, has_tools=True)) is beside_tools
    assert bool(answer_format(model, ROWS, has_tools=False)) is without


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "array", "items": ROW},
        {"anyOf": [ROW, ROWS]},
        {**ROW, "additionalProperties": True},
        {**ROW, "required": ["name"]},
        {**ROW, "allOf": [{}]},
        {**ROWS, "properties": {"rows": {"type": "array", "items": {**ROW, "required": []}}}},
        {**ROWS, "properties": {"rows": {"type": "array", "items": True}}},
        {**ROWS, "properties": {"rows": {"properties": {"a": {}}}}},
        {**REFERRING, "$defs": {"row": {**ROW, "additionalProperties": {}}}},
        {**ROW, "description": "x" * MAX_CHARACTERS},
    ],
)
def test_a_schema_outside_of_the_strict_form_is_not_sent(schema: Any) -> None:
    assert answer_format("openai/gpt-4o", schema, has_tools=True) == ""


def test_references_go_to_providers_that_take_them() -> None:
    assert json.loads(answer_format("openai/gpt-4o", REFERRING, has_tools=True))["json_schema"]["schema"] == REFERRING
    assert answer_format("anthropic/claude-sonnet-4-5", REFERRING, has_tools=True) == ""


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini"])
def test_the_schema_stands_on_the_wire_beside_tools_that_stay_as_they_are(
    form: str, model_server: ScriptedServer
) -> None:
    tools: dict[str, Any] = {"tools": ()} if form == "gemini" else {}
    given = answer_format(MODELS[form], ROWS, has_tools=not tools)
    assert ask(model_server, form, response_format=given, **tools).error is None
    assert ask(model_server, form, **tools).error is None
    bound, free = (received.body for received in model_server.requests)
    assert bound.get("tools") == free.get("tools") and bound.get("tool_choice") == free.get("tool_choice")
    places = {
        "chat": lambda: bound["response_format"]["json_schema"]["schema"],
        "anthropic": lambda: (bound.get("output_format") or bound["output_config"]["format"])["schema"],
        "gemini": lambda: (
            bound["generationConfig"].get("response_json_schema") or bound["generationConfig"]["response_schema"]
        ),
    }
    schema = places[form]()
    assert schema["properties"]["rows"]["items"]["properties"].keys() == {"name", "count"}
