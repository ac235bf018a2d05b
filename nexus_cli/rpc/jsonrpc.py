"""JSON-RPC 2.0 without a transport: text to requests, results and errors to objects.

Knows no method. Ids are strings, whole numbers or null; parameters come by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import InUseError, NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject

PARSE_ERROR, INVALID_REQUEST, NO_SUCH_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
NO_SUCH_AGENT, BUSY, REFUSED, TURN_FAILED, IN_USE = -32001, -32002, -32003, -32004, -32005
MEANINGS: Mapping[int, str] = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid request",
    NO_SUCH_METHOD: "Method not found",
    INVALID_PARAMS: "Invalid params",
    INTERNAL_ERROR: "Internal error",
    NO_SUCH_AGENT: "No such agent",
    BUSY: "Busy",
    REFUSED: "Refused",
    TURN_FAILED: "The turn failed",
    IN_USE: "In use",
}
"""Error codes: those of the standard, then our own."""
MAX_CALLS = 100
"""Most calls of one batch."""
LONGEST_ID = 256
"""Most characters of an id."""


class RpcError(Exception):
    """An error for the caller: a code, one line, and data."""

    def __init__(self, code: int, why: str, data: Any = None) -> None:
        super().__init__(f"{MEANINGS[code]}: {why}" if why else MEANINGS[code])
        self.code = code
        self.data = data

    @classmethod
    def of(cls, error: NexusError) -> RpcError:
        """Convert an error of ours: the parameters were invalid, or the call was refused."""
        if isinstance(error, InUseError):
            return cls(IN_USE, error.message, error.to_json())
        code = INVALID_PARAMS if error.kind == "usage" else INTERNAL_ERROR if error.kind == "internal" else REFUSED
        return cls(code, error.message, error.to_json())

    def to_json(self) -> JsonDict:
        """Return the error object."""
        return {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})


@dataclass(frozen=True, slots=True)
class RpcCall:
    """One request object."""

    method: str = ""
    params: JsonObject = field(default_factory=dict)
    id: str | int | None = None
    is_notification: bool = False
    """True if it has no id, so that no answer is sent."""
    error: RpcError | None = None
    """What is wrong with a part of a body that should be a request object and is not."""


def parse_calls(body: bytes) -> tuple[list[RpcCall], bool]:
    """Return the calls of a body, and True if they came as a list, so that the answers are sent as a list. Raise
    `RpcError` if the body is not JSON, an empty list, or too long a list."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise RpcError(PARSE_ERROR, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise RpcError(PARSE_ERROR, one_line(str(error))[:200]) from None
    if not isinstance(value, list):
        return [_parse_call(value)], False
    if not value:
        raise RpcError(INVALID_REQUEST, "the batch is empty")
    if len(value) > MAX_CALLS:
        raise RpcError(INVALID_REQUEST, f"the batch has {len(value)} calls; at most {MAX_CALLS} are allowed")
    return [_parse_call(element) for element in value], True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _parse_call(value: Any) -> RpcCall:
    """Return a request object, or a call with the reason that `value` is not one."""
    if not isinstance(value, dict):
        return RpcCall(error=RpcError(INVALID_REQUEST, "the request is not an object"))
    key = value.get("id")
    if isinstance(key, bool) or not (key is None or isinstance(key, str | int)) or len(str(key)) > LONGEST_ID:
        return RpcCall(error=RpcError(INVALID_REQUEST, "id must be a short string, a whole number or null"))
    method, params = value.get("method"), value.get("params", {})
    why = ""
    if value.get("jsonrpc") != "2.0":
        why = 'jsonrpc must be "2.0"'
    elif not isinstance(method, str):
        why = "method must be a string"
    elif not isinstance(params, dict | list):
        why = "params must be an object"
    if why:
        return RpcCall(id=key, error=RpcError(INVALID_REQUEST, why))
    error = RpcError(INVALID_PARAMS, "params must be passed by name") if isinstance(params, list) and params else None
    return RpcCall(str(method), {} if error else params or {}, key, "id" not in value, error)


def result_object(key: str | int | None, result: Any) -> JsonObject:
    """Return the answer of a call that succeeded."""
    return {"jsonrpc": "2.0", "id": key, "result": result}


def error_object(key: str | int | None, error: RpcError) -> JsonObject:
    """Return the answer of a call that failed."""
    return {"jsonrpc": "2.0", "id": key, "error": error.to_json()}
