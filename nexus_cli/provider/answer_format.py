"""Structured output: whether a model's provider can hold its answer to a JSON Schema, and the argument for that.

A provider takes a subset of JSON Schema; a schema outside of it is never altered, so that such an answer is only
validated. `call_arguments` adds the argument to the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import canonical
from nexus_cli.provider.model_table import has_feature, provider_of

BESIDE_TOOLS = frozenset({"openai", "anthropic"})
"""Providers that take a schema for the answer in a request with tools. Not Azure: for its older interfaces litellm
replaces the schema by a call that the model is forced to make."""
WITHOUT_TOOLS = BESIDE_TOOLS | {"gemini", "mistral", "xai"}
INLINE_ONLY = frozenset({"anthropic", "gemini"})
"""Providers for which litellm expands references; a schema that refers to itself would have no end."""
MAX_CHARACTERS = 8_000
"""Longest schema sent as an argument: its tokens are not in our count of the request."""
_PLAIN = frozenset("type enum const description title pattern minimum maximum minItems maxItems $schema".split())
_PARTS = frozenset("properties required additionalProperties items anyOf $ref $defs".split())


def answer_format(model: str, schema: Any, *, has_tools: bool) -> str:
    """Return the `response_format` of requests to `model` as JSON, "" if its provider cannot hold it to `schema`."""
    provider = provider_of(model)
    feature = "supports_native_structured_output" if provider == "anthropic" else "supports_response_schema"
    if provider not in (BESIDE_TOOLS if has_tools else WITHOUT_TOOLS) or not has_feature(model, feature):
        return ""
    if not _is_strict_object(schema) or not _is_strict(schema, provider not in INLINE_ONLY):
        return ""
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    text = canonical(response_format).decode()
    return text if len(text) <= MAX_CHARACTERS else ""


def _is_strict(schema: Any, may_refer: bool) -> bool:
    """True if every object is closed and requires all its properties, and only keywords of strict mode are used."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN | _PARTS or ("$ref" in schema and not may_refer):
        return False
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and not _is_strict_object(schema):
        return False
    return all(_is_strict(part, may_refer) for part in _parts(schema))


def _is_strict_object(schema: Any) -> bool:
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(schema.get("properties", ()))
    )


def _parts(schema: JsonObject) -> Iterable[Any]:
    yield from schema.get("anyOf", ())
    yield from schema.get("properties", {}).values()
    yield from schema.get("$defs", {}).values()
    if "items" in schema:
        yield schema["items"]
