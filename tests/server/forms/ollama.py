"""Ollama's `/api/chat`: JSON lines. A call goes out whole and has no id; there is no cache figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.event import Event, Reply
from server.forms.chat import packed
from server.step import Step, pieces

REASONS = {"tool_calls": "stop"}
MESSAGES = {
    401: "unauthorized",
    404: "model 'scripted' not found",
    429: "too many requests",
    500: "llama runner process has terminated",
    503: "server busy, please try again. maximum pending requests exceeded",
}


class Ollama:
    """The form; without state."""

    name = "ollama"
    content_type = "application/x-ndjson"

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """Pieces of a message, then the line that says `done`."""
        for piece in pieces(step.thinking, step.chunk):
            yield Event("delta", _line(reply, {"content": "", "thinking": piece}), text=piece)
        for piece in pieces(step.text, step.chunk, step.repeat):
            yield Event("delta", _line(reply, {"content": piece}), text=piece)
        for call in step.calls:
            calls = [{"function": {"name": call.name, "arguments": call.value}}]
            yield Event("delta", _line(reply, {"content": "", "tool_calls": calls}), text=call.name)
        yield Event("finish", _done(step, reply, {"content": ""}))

    def frame(self, event: Event) -> bytes:
        """One line."""
        return packed(event.data) + b"\n"

    def whole(self, step: Step, reply: Reply) -> Any:
        """One line with everything."""
        message: dict[str, Any] = {"content": step.text * step.repeat}
        if step.thinking:
            message["thinking"] = step.thinking
        if step.calls:
            message["tool_calls"] = [{"function": {"name": c.name, "arguments": c.value}} for c in step.calls]
        return _done(step, reply, message)

    def error(self, status: int, message: str, code: str) -> Any:
        """`{"error": "..."}`."""
        return {"error": message or MESSAGES.get(status, MESSAGES[500])}

    def error_event(self, status: int, message: str, code: str) -> Event:
        """The error object as one line."""
        return Event("frame", self.error(status, message, code))

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """A refusal; the real service cuts the prompt in silence unless it is told not to."""
        return {"error": f"the input length exceeds the context length ({tokens} > {limit})"}


def _line(reply: Reply, message: dict[str, Any]) -> dict[str, Any]:
    created = "2025-01-01T00:00:00.000000Z"
    return {"model": reply.model, "created_at": created, "message": {"role": "assistant"} | message, "done": False}


def _done(step: Step, reply: Reply, message: dict[str, Any]) -> dict[str, Any]:
    made = _line(reply, message) | {"done_reason": REASONS.get(step.reason, step.reason), "done": True}
    if step.report:
        made |= {"prompt_eval_count": reply.tokens.input, "eval_count": reply.tokens.output}
    return made
