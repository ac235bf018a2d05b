"""Anthropic's Messages, as its streaming reference describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.event import Event, Reply
from server.forms.chat import packed
from server.step import Step, pieces

REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
TYPES = {
    400: ("invalid_request_error", "Invalid request."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model: scripted"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit."),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    529: ("overloaded_error", "Overloaded"),
}
"""Status to type and message."""
QUOTA = "Your credit balance is too low to access the Anthropic API."


class Anthropic:
    """The form; without state."""

    name = "anthropic"
    content_type = "text/event-stream; charset=utf-8"

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """`message_start`, a ping, the blocks, `message_delta`, `message_stop`."""
        message = _message(reply, [], None)
        if step.report:
            message["usage"] = _usage(reply) | {"output_tokens": 1}
        yield _event("start", "message_start", message=message)
        yield _event("start", "ping")
        yield from _blocks(step, reply)
        told = {"usage": _usage(reply)} if step.report else {}
        reason = REASONS.get(step.reason, step.reason)
        yield _event("finish", "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, **told)
        yield _event("end", "message_stop")

    def frame(self, event: Event) -> bytes:
        """`event:`, `data:` and an empty line."""
        return b"event: " + event.name.encode() + b"\ndata: " + packed(event.data) + b"\n\n"

    def whole(self, step: Step, reply: Reply) -> Any:
        """A `message` object."""
        content: list[dict[str, Any]] = []
        if step.thinking:
            content.append({"type": "thinking", "thinking": step.thinking, "signature": step.signature})
        if step.text:
            content.append({"type": "text", "text": step.text * step.repeat})
        for given, call in zip(step.ids_of_calls(reply.number), step.calls, strict=True):
            content.append({"type": "tool_use", **_id(given), "name": call.name, "input": call.value})
        bare = step.fault is not None and step.fault.kind == "no_finish"
        made = _message(reply, content, None if bare else REASONS.get(step.reason, step.reason))
        return made | {"usage": _usage(reply)} if step.report else made

    def error(self, status: int, message: str, code: str) -> Any:
        """`{"type": "error", "error": {type, message}}`; `code` stands for the type."""
        kind, own = TYPES.get(status, TYPES[500])
        if code == "insufficient_quota":
            code, own = "", QUOTA
        return {"type": "error", "error": {"type": code or kind, "message": message or own}, "request_id": "req_1"}

    def error_event(self, status: int, message: str, code: str) -> Event:
        """An `error` event."""
        return Event("frame", self.error(status, message, code), "error")

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """`prompt is too long: N tokens > M maximum`."""
        return self.error(400, f"prompt is too long: {tokens} tokens > {limit} maximum", "")


def _blocks(step: Step, reply: Reply) -> Iterator[Event]:
    index = 0
    if step.thinking:
        yield _begin(index, {"type": "thinking", "thinking": "", "signature": ""})
        for piece in pieces(step.thinking, step.chunk):
            yield _delta(index, {"type": "thinking_delta", "thinking": piece}, piece)
        if step.signature:
            delta = {"type": "signature_delta", "signature": step.signature}
            yield _event("frame", "content_block_delta", index=index, delta=delta)
        yield _event("frame", "content_block_stop", index=index)
        index += 1
    if step.text:
        yield _begin(index, {"type": "text", "text": ""})
        for piece in pieces(step.text, step.chunk, step.repeat):
            yield _delta(index, {"type": "text_delta", "text": piece}, piece)
        yield _event("frame", "content_block_stop", index=index)
        index += 1
    yield from _calls(step, reply, index)


def _calls(step: Step, reply: Reply, index: int) -> Iterator[Event]:
    """One block per call; interleaved, all are open at once and their fragments take turns."""
    starts = [
        _begin(index + place, {"type": "tool_use", **_id(given), "name": call.name, "input": {}})
        for place, (given, call) in enumerate(zip(step.ids_of_calls(reply.number), step.calls, strict=True))
    ]
    stops = [_event("frame", "content_block_stop", index=index + place) for place in range(len(starts))]
    if step.interleave:
        yield from starts
        yield from (_json(index + place, piece) for place, piece in step.fragments())
        yield from stops
        return
    for place, call in enumerate(step.calls):
        yield starts[place]
        yield from (_json(index + place, piece) for piece in pieces(call.arguments, step.fragment))
        yield stops[place]


def _id(given: str | None) -> dict[str, str]:
    return {} if given is None else {"id": given}


def _event(part: Any, kind: str, **data: Any) -> Event:
    return Event(part, {"type": kind, **data}, kind)


def _begin(index: int, block: dict[str, Any]) -> Event:
    return _event("frame", "content_block_start", index=index, content_block=block)


def _delta(index: int, delta: dict[str, Any], text: str) -> Event:
    return Event("delta", {"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta", text)


def _json(index: int, piece: str) -> Event:
    return _delta(index, {"type": "input_json_delta", "partial_json": piece}, piece)


def _message(reply: Reply, content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
    }


def _usage(reply: Reply) -> dict[str, int]:
    t = reply.tokens
    return {
        "input_tokens": t.input - t.cache_read - t.cache_write,
        "cache_creation_input_tokens": t.cache_write,
        "cache_read_input_tokens": t.cache_read,
        "output_tokens": t.output,
    }
