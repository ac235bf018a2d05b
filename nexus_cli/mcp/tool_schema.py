"""Make schemas of MCP tools fit for providers, and say what is wrong with the others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.elide import clip_text
from nexus_cli.core.json_value import JsonObject, is_nested_within
from nexus_cli.core.wire import as_table, canonical
from nexus_cli.text.untrusted_text import neutralize

MAX_DESCRIPTION = 2000
"""Most characters of a description."""
MAX_NESTING = 40
"""Most levels of a schema."""
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A name of an argument that every provider takes."""
_REFUSED_KEYS = ("oneOf", "anyOf", "allOf", "enum", "not")
"""Keys that providers refuse at the top of a schema."""


def object_schema(parameters: Any) -> JsonObject:
    """Return a schema that providers take: an object with properties. What is none is replaced by one without any."""
    is_object = isinstance(parameters, Mapping) and parameters.get("type", "object") == "object"
    if not is_object or not is_nested_within(parameters, MAX_NESTING):
        return {"type": "object", "properties": {}}
    properties, required = parameters.get("properties"), parameters.get("required")
    cleaned = {key: value for key, value in parameters.items() if key not in ("$schema", "required", *_REFUSED_KEYS)}
    arguments = properties if isinstance(properties, Mapping) else {}
    properties = {key: value for key, value in arguments.items() if _ARGUMENT.fullmatch(key)}
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        cleaned["required"] = [name for name in required if name in properties or name not in arguments]
    return {**_clean_schema(cleaned), "type": "object", "properties": _clean_schema(properties)}


def _clean_schema(value: Any) -> Any:
    """Return a part of a schema with its words for the model as those of a description are."""
    if isinstance(value, Mapping):
        cleaned = {
            key: clean_server_text(part)
            for key, part in value.items()
            if key in ("description", "title") and type(part) is str
        }
        return {key: cleaned[key] if key in cleaned else _clean_schema(part) for key, part in value.items()}
    return [_clean_schema(part) for part in value] if isinstance(value, list) else value


def describe_rest(parameters: Any) -> str:
    """Return the parts that `object_schema` leaves out of a schema because providers refuse every request with it, as a
    line of the description; "" if nothing."""
    if not isinstance(parameters, Mapping) or not is_nested_within(parameters, MAX_NESTING):
        return ""
    properties = parameters.get("properties")
    refused = {key: parameters[key] for key in _REFUSED_KEYS if key in parameters}
    arguments = properties.items() if isinstance(properties, Mapping) else ()
    if unfit := {key: value for key, value in arguments if not _ARGUMENT.fullmatch(key)}:
        refused |= {"properties": unfit, "required": parameters.get("required", [])}
    return f"\nIts arguments also have: {canonical(refused).decode()}" if refused else ""


def clean_server_text(text: str, most: int = MAX_DESCRIPTION) -> str:
    """Return a text of a server without markers of nexus and invisible characters, cut to `most` characters."""
    text = neutralize("".join(char for char in text[: 2 * most] if unicodedata.category(char) != "Cf")).strip()
    return clip_text(text, most, "...")


def find_schema_fault(parameters: Any) -> str:
    """Return the reason for which providers refuse every request with the schema as it is sent, "" for none. Blocks the
    first time, which loads `jsonschema`."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415  (only a server that was asked has new schemas)
    from referencing import Registry  # noqa: PLC0415  (as above)
    from referencing.exceptions import Unresolvable  # noqa: PLC0415  (as above)
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415  (as above)

    validator, schema = Draft202012Validator(Draft202012Validator.META_SCHEMA), object_schema(parameters)
    if error := next(validator.iter_errors(schema), None):
        return clip_text(f"inputSchema{error.json_path[1:]}: {error.message}", 200)
    root: Any = DRAFT202012.create_resource(schema)
    resolver, waiting = Registry().resolver_with_root(root), [root]
    while waiting:
        resource = waiting.pop()
        waiting += resource.subresources()
        reference = as_table(resource.contents).get("$ref", "")
        try:
            resolver.lookup(reference if reference.startswith("#/") else "")
        except Unresolvable:
            return clip_text(f"inputSchema: {reference} does not exist", 200)
    return ""
