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

from nexus_cli.core.elide import clip_text
from nexus_cli.core.json_schema import json_schema, json_type, type_hints
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS, NO_SUCH_AGENT, RpcError
from nexus_cli.tools.schema import check_arguments

F = TypeVar("F", bound=Callable[..., Any])
Schema = dict[str, Any]
_ERRORS = "rpc_errors"
MAX_FAULTS, LONGEST_FAULTS = 3, 400
"""Most faults of the arguments of a call that its answer names, and most characters of them."""


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

    def check(self, params: JsonObject) -> JsonDict:
        """Return the arguments of a call; raise `RpcError` unless they match the method."""
        schema = {
            "type": "object",
            "properties": {name: parameter["schema"] for name, parameter in self.params.items()},
            "required": [name for name, parameter in self.params.items() if parameter["required"]],
            "additionalProperties": False,
        }
        arguments, faults = check_arguments(params, schema)
        # A client is a program: what would be repaired of a model's call is wrong here.
        repaired = (name for name, value in params.items() if name not in arguments or arguments[name] != value)
        faults = faults or [f"`{name}` has the wrong type or is null" for name in repaired]
        if faults:
            raise RpcError(INVALID_PARAMS, clip_text("; ".join(faults[:MAX_FAULTS]), LONGEST_FAULTS))
        return JsonDict(arguments)


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
    summary, _, lines = cleandoc(function.__doc__).partition("\n\n")
    texts = dict(line.split(": ", 1) for line in lines.splitlines())
    hints = type_hints(function)
    params = {"agent_id": AGENT_ID} if of_agent else {}
    for name, parameter in signature(function).parameters.items():
        if name != "self":
            is_required = parameter.default is Parameter.empty
            params[name] = Param(name=name, description=texts[name], required=is_required, schema=_schema(hints[name]))
    errors = (NO_SUCH_AGENT,) * of_agent + getattr(function, _ERRORS)
    result = json_type(hints["return"])
    return Method(function.__name__, " ".join(summary.split()), params, result, errors, of_agent)


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
