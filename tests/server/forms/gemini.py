"""Gemini's `generateContent` and `streamGenerateContent?alt=sse`. A call goes out whole: the form has no fragments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.event import Event, Reply
from server.forms.chat import packed
from server.step import Step, pieces

REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
STATUSES = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "models/scripted is not found for API version v1beta."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
"""Status to Google's word and message."""
QUOTA = "You exceeded your current quota, please check your plan and billing details."


class Gemini:
    """The form; without state."""

    name = "gemini"
    content_type = "text/event-stream"

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """One candidate's parts, then the finish reason with the usage."""
        told = _so_far(reply) if step.report else {}
        for piece in pieces(step.thinking, step.chunk):
            yield Event("delta", _chunk(reply, [{"text": piece, "thought": True}]) | told, text=piece)
        for piece in pieces(step.text, step.chunk, step.repeat):
            yield Event("delta", _chunk(reply, [{"text": piece}]) | told, text=piece)
        for place, part in enumerate(_calls(step, reply)):
            yield Event("delta", _chunk(reply, [part]) | told, text=step.calls[place].name)
        last = _chunk(reply, [{"text": ""}], REASONS.get(step.reason, step.reason))
        yield Event("finish", last | {"usageMetadata": _usage(reply)} if step.report else last)

    def frame(self, event: Event) -> bytes:
        """A `data:` line and an empty one, with the line ends of the real service."""
        return b"data: " + packed(event.data) + b"\r\n\r\n"

    def whole(self, step: Step, reply: Reply) -> Any:
        """One response with all parts."""
        thought: list[dict[str, Any]] = [{"text": step.thinking, "thought": True}] if step.thinking else []
        said: list[dict[str, Any]] = [{"text": step.text * step.repeat}] if step.text else []
        bare = step.fault is not None and step.fault.kind == "no_finish"
        reason = None if bare else REASONS.get(step.reason, step.reason)
        made = _chunk(reply, [*thought, *said, *_calls(step, reply)], reason)
        return made | {"usageMetadata": _usage(reply)} if step.report else made

    def error(self, status: int, message: str, code: str) -> Any:
        """`{"error": {code, message, status}}`; `code` stands for the status word."""
        word, own = STATUSES.get(status, STATUSES[500])
        if code == "insufficient_quota":
            code, own = "", QUOTA
        return {"error": {"code": status, "message": message or own, "status": code or word}}

    def error_event(self, status: int, message: str, code: str) -> Event:
        """The error object as one event."""
        return Event("frame", self.error(status, message, code))

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """Both figures, in Google's sentence."""
        said = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
        return self.error(400, said, "")


def _calls(step: Step, reply: Reply) -> list[dict[str, Any]]:
    """One part per call. An id goes out only where the script names one or plays with ids, as the service has none."""
    parts: list[dict[str, Any]] = []
    for place, given in enumerate(step.ids_of_calls(reply.number)):
        call = step.calls[place]
        named = given is not None and (call.id or step.ids in ("same", "empty"))
        function = ({"id": given} if named else {}) | {"name": call.name, "args": call.value}
        part: dict[str, Any] = {"functionCall": function}
        if step.signature and place == 0:
            part["thoughtSignature"] = step.signature
        parts.append(part)
    return parts


def _chunk(reply: Reply, parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
    if reason is not None:
        candidate["finishReason"] = reason
    candidate["index"] = 0
    return {"candidates": [candidate], "modelVersion": reply.model, "responseId": f"response-{reply.number}"}


def _so_far(reply: Reply) -> dict[str, Any]:
    """The usage of a chunk that is not the last: the service repeats what the prompt took."""
    return {"usageMetadata": {"promptTokenCount": reply.tokens.input, "totalTokenCount": reply.tokens.input}}


def _usage(reply: Reply) -> dict[str, int]:
    t = reply.tokens
    made = {
        "promptTokenCount": t.input,
        "candidatesTokenCount": t.output - t.reasoning,
        "totalTokenCount": t.input + t.output,
    }
    if t.cache_read:
        made["cachedContentTokenCount"] = t.cache_read
    if t.reasoning:
        made["thoughtsTokenCount"] = t.reasoning
    return made
