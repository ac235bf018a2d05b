"""A method of the server: a coroutine function declares it.

It has its name, parameters and result; the texts stand in the docstring: the summary, then a line `NAME: TEXT` for each
parameter. `Annotated` gives the JSON Schema of a parameter whose type does not say all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, cleandoc, signature
from types import UnionType
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_origin

from nexus_cli.core.json_schema import NAMES, json_schema, json_type, type_hints
from nexus_cli.core.json_value import JsonObject
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS, NO_SUCH_AGENT, RpcError

F = TypeVar("F", bound=Callable[..., Any])
Schema = dict[str, Any]
_ERRORS = "rpc_errors"
_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of strings",
    "object": "an object",
}
_KINDS = {**NAMES, list: "array", dict: "object"}


class Param(TypedDict):
    """One parameter, as OpenRPC describes it."""

    name: str
    description: str
    required: bool
    schema: Schema


@dataclass(frozen=True, slots=True)
class Method:
    """One method."""

    name: str
    about: str
    params: Mapping[str, Param]
    """By name; a method of an agent has `agent_id` first."""
    result: type
    """The `TypedDict` or dataclass of its result."""
    errors: tuple[int, ...]
    """Our error codes that it can return."""
    of_agent: bool
    """True if it acts on one agent, named by `agent_id`."""

    def check(self, params: JsonObject) -> None:
        """Raise `RpcError` unless `params` match the method."""
        known = self.params
        unknown = [name for name in params if name not in known]
        problems = [f"{name[:80]!r} is not a parameter of {self.name}" for name in unknown[:3]]
        problems += [
            f"{name} is missing" for name, parameter in known.items() if parameter["required"] and name not in params
        ]
        found = (_problem(name, known[name]["schema"], value) for name, value in params.items() if name in known)
        problems += filter(None, found)
        if problems:
            raise RpcError(INVALID_PARAMS, "; ".join(problems))


AGENT_ID = Param(name="agent_id", description="The agent.", required=True, schema=json_schema(str))


def rpc_method(*errors: int) -> Callable[[F], F]:
    """Declare a coroutine function as a method; `errors` are our codes that it can return, without `NO_SUCH_AGENT` of
    every method of an agent."""

    def declare(function: F) -> F:
        setattr(function, _ERRORS, errors)
        return function

    return declare


def read_methods(kind: type, *, of_agent: bool = False) -> list[Method]:
    """Return the methods that a class declares, in order."""
    return [_read_method(member, of_agent) for member in vars(kind).values() if hasattr(member, _ERRORS)]


def _read_method(function: Any, of_agent: bool) -> Method:
    about, _, lines = cleandoc(function.__doc__).partition("\n\n")
    texts = dict(line.split(": ", 1) for line in lines.splitlines())
    hints = type_hints(function)
    params = {"agent_id": AGENT_ID} if of_agent else {}
    for name, parameter in signature(function).parameters.items():
        if name != "self":
            is_required = parameter.default is Parameter.empty
            params[name] = Param(name=name, description=texts[name], required=is_required, schema=_schema(hints[name]))
    errors = (NO_SUCH_AGENT,) * of_agent + getattr(function, _ERRORS)
    result = json_type(hints["return"])
    return Method(function.__name__, " ".join(about.split()), params, result, errors, of_agent)


def _schema(hint: Any) -> Schema:
    """Return the schema that `Annotated` gives, or that of the type; None stands for an absent parameter."""
    if get_origin(hint) is Annotated:
        return dict(get_args(hint)[1])
    return json_schema(get_args(hint)[0] if get_origin(hint) is UnionType else hint)


def one_of(*texts: str) -> Schema:
    """Return the schema of a string that is one of some."""
    return {"type": "string", "enum": list(texts)}


def number(least: int, most: int) -> Schema:
    """Return the schema of a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most}


def _problem(name: str, schema: Schema, value: Any) -> str:
    """Return the reason that the value of a parameter is invalid, "" if it is valid."""
    kind, given = schema["type"], _KINDS.get(type(value))
    if (given != kind and (given, kind) != ("integer", "number")) or (
        kind == "array" and not all(isinstance(element, str) for element in value)
    ):
        return f"{name} must be {_WORDS[kind]}"
    if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
        return f"{name} must be between {schema['minimum']} and {schema['maximum']}"
    if kind == "number" and not 0 < value < float("inf"):
        return f"{name} must be above 0 and finite"
    if kind == "object":
        parts = schema["properties"]
        problems = (
            _problem(f"{name}.{key}", parts[key], element)
            if key in parts
            else f"{key[:80]!r} is not one of {name}: {', '.join(parts)}"
            for key, element in value.items()
        )
        return next(filter(None, problems), "")
    names = schema.get("enum")
    return f"{name} must be one of {', '.join(names)}" if names and value not in names else ""
