"""OpenAI's Responses, as codex reads them: whole items, no deltas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.event import Event, Reply
from server.forms.chat import packed
from server.step import Step


class Responses:
    """The form; without state."""

    name = "responses"
    content_type = "text/event-stream; charset=utf-8"

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """`response.created`, an item for the text and for each call, `response.completed`."""
        yield _event("start", "response.created", response={"id": f"resp_{reply.number}"})
        for place, item in enumerate(_items(step, reply)):
            yield _event("delta", "response.output_item.done", output_index=place, item=item)
        yield _event("end", "response.completed", response=self.whole(step, reply))

    def frame(self, event: Event) -> bytes:
        """`event:`, `data:` and an empty line."""
        return b"event: " + event.name.encode() + b"\ndata: " + packed(event.data) + b"\n\n"

    def whole(self, step: Step, reply: Reply) -> Any:
        """A `response` object."""
        used = {"input_tokens": reply.tokens.input, "output_tokens": reply.tokens.output}
        usage = {**used, "total_tokens": sum(used.values())}
        return {"id": f"resp_{reply.number}", "object": "response", "output": _items(step, reply), "usage": usage}

    def error(self, status: int, message: str, code: str) -> Any:
        """`{"error": {message, code}}`."""
        return {"error": {"message": message or "The request failed.", "code": code or str(status)}}

    def error_event(self, status: int, message: str, code: str) -> Event:
        """A `response.failed` event."""
        return _event("frame", "response.failed", response=self.error(status, message, code))

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """The code `context_length_exceeded`."""
        return self.error(400, f"{tokens} tokens exceed {limit}", "context_length_exceeded")


def _items(step: Step, reply: Reply) -> list[dict[str, Any]]:
    text = step.text * step.repeat
    said: dict[str, Any] = {"type": "message", "id": f"msg_{reply.number}", "role": "assistant"}
    items: list[dict[str, Any]] = [{**said, "content": [{"type": "output_text", "text": text}]}] if text else []
    for given, call in zip(step.ids_of_calls(reply.number), step.calls, strict=True):
        items.append({"type": "function_call", "call_id": given, "name": call.name, "arguments": call.arguments})
    return items


def _event(part: Any, kind: str, **data: Any) -> Event:
    return Event(part, {"type": kind, **data}, kind)
