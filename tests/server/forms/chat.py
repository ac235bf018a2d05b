"""OpenAI's Chat Completions, as the API reference describes them, with `reasoning_content` as DeepSeek sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from server.event import Event, Reply
from server.forms.overflow import chat_overflow
from server.step import Step, pieces

CREATED = 1_700_000_000
TYPES = {
    400: ("invalid_request_error", None, "Invalid request."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-scri****pted."),
    403: ("permission_error", None, "You are not allowed to use this model."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 1s."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
    529: ("overloaded_error", None, "Overloaded"),
}
"""Status to type, code and message."""


class Chat:
    """The form; without state."""

    name = "chat"
    content_type = "text/event-stream; charset=utf-8"

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """Role, thinking, text, calls, finish, usage where asked for, `[DONE]`."""
        yield Event("start", _chunk(reply, {"role": "assistant", "content": ""}))
        for piece in pieces(step.thinking, step.chunk):
            yield Event("delta", _chunk(reply, {"reasoning_content": piece}), text=piece)
        for piece in pieces(step.text, step.chunk, step.repeat):
            yield Event("delta", _chunk(reply, {"content": piece}), text=piece)
        yield from _calls(step, reply)
        yield Event("finish", _chunk(reply, {}, step.reason))
        if reply.include_usage and step.report:
            yield Event("usage", _envelope(reply, "chat.completion.chunk") | {"choices": [], "usage": _usage(reply)})
        yield Event("end", b"[DONE]")

    def frame(self, event: Event) -> bytes:
        """A `data:` line and an empty one."""
        return b"data: " + packed(event.data) + b"\n\n"

    def whole(self, step: Step, reply: Reply) -> Any:
        """A `chat.completion` object."""
        message: dict[str, Any] = {"role": "assistant", "content": step.text * step.repeat or None}
        if step.thinking:
            message["reasoning_content"] = step.thinking
        if step.calls:
            ids = step.ids_of_calls(reply.number)
            message["tool_calls"] = [
                _with_id(ids[i], {"type": "function", "function": {"name": call.name, "arguments": call.arguments}})
                for i, call in enumerate(step.calls)
            ]
        bare = step.fault is not None and step.fault.kind == "no_finish"
        choice = {"index": 0, "message": message, "finish_reason": None if bare else step.reason}
        made = _envelope(reply, "chat.completion") | {"choices": [choice]}
        return made | {"usage": _usage(reply)} if step.report else made

    def error(self, status: int, message: str, code: str) -> Any:
        """`{"error": {message, type, param, code}}`."""
        kind, own_code, own_message = TYPES.get(status, TYPES[500])
        if code == "insufficient_quota":
            kind, own_message = code, ("You exceeded your current quota, please check your plan and billing details.")
        return {"error": {"message": message or own_message, "type": kind, "param": None, "code": code or own_code}}

    def error_event(self, status: int, message: str, code: str) -> Event:
        """The error object as one event, its `code` being the status, as OpenAI-like servers send it."""
        body = self.error(status, message, code)
        body["error"]["code"] = code or status
        return Event("frame", body)

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """In the words of the reply's dialect."""
        return chat_overflow(tokens, limit, reply.dialect)


def packed(value: Any) -> bytes:
    """JSON in UTF-8 without escapes; bytes stay as they are."""
    if isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _calls(step: Step, reply: Reply) -> Iterator[Event]:
    ids = step.ids_of_calls(reply.number)

    def fragment(place: int, piece: str, first: bool) -> Event:
        function = ({"name": step.calls[place].name} if first else {}) | {"arguments": piece}
        call: dict[str, Any] = {"type": "function", "function": function} if first else {"function": function}
        if first or step.ids == "echoed":
            call = _with_id(ids[place], call)
        if step.indexes != "missing":
            call = {"index": 0 if step.indexes == "zero" else place} | call
        return Event("delta" if piece else "frame", _chunk(reply, {"tool_calls": [call]}), text=piece)

    if step.fragment <= 0:
        yield from (fragment(place, call.arguments, True) for place, call in enumerate(step.calls))
        return
    if step.interleave:
        yield from (fragment(place, "", True) for place in range(len(step.calls)))
        yield from (fragment(place, piece, False) for place, piece in step.fragments())
        return
    for place, call in enumerate(step.calls):
        yield fragment(place, "", True)
        yield from (fragment(place, piece, False) for piece in pieces(call.arguments, step.fragment))


def _with_id(given: str | None, call: dict[str, Any]) -> dict[str, Any]:
    return call if given is None else {"id": given} | call


def _envelope(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": CREATED, "model": reply.model}


def _chunk(reply: Reply, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _envelope(reply, "chat.completion.chunk") | {"choices": [choice]}


def _usage(reply: Reply) -> dict[str, Any]:
    t = reply.tokens
    return {
        "prompt_tokens": t.input,
        "completion_tokens": t.output,
        "total_tokens": t.input + t.output,
        "prompt_tokens_details": {"cached_tokens": t.cache_read},
        "completion_tokens_details": {"reasoning_tokens": t.reasoning},
    }
