"""Convert litellm's stream chunks, of any class, to our deltas.

Reads the provider's own chunks rather than litellm's wrapper. The wrapper invents missing finish reasons and usage,
ends streams that repeat themselves, and joins the text again at every chunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import (
    CallDelta,
    Delta,
    FinishDelta,
    ModelInfo,
    OpaqueDelta,
    TextDelta,
    ThinkingDelta,
    UsageDelta,
)
from nexus_cli.provider.usage import as_mapping, to_usage

REASONS = {
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "refusal": "content_filter",
    "sensitive": "content_filter",
}
"""Finish reasons with another name than ours; all others pass unchanged."""
BROKEN = {
    "error": "provider",
    "network_error": "network",
    "abort": "network",
    "insufficient_system_resource": "overloaded",
}
"""Finish reasons that are failures, with their kind."""


def _get(part: object, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def _get_text(part: object, name: str) -> str:
    return value if isinstance(value := _get(part, name), str) else ""


class ChunkParser:
    """The state of one stream."""

    def __init__(self, info: ModelInfo) -> None:
        self._info = info
        self._reports: list[JsonObject] = []
        self._reason = ""
        self._refused = False
        self._has_ended = True
        """False until Gemini has given a finish reason of its own."""
        self.started = False
        """True once a first content delta was read."""

    def parse(self, chunk: object) -> list[Delta]:
        """Return the deltas of one chunk. Raises `ProviderError` if the chunk reports a failure."""
        deltas: list[Delta] = []
        if usage := as_mapping(_get(chunk, "usage")):
            self._reports.append(usage)
        choices = _get(chunk, "choices") or (_to_choices(chunk) if isinstance(chunk, Mapping) else ())
        for choice in choices[:1]:
            self._delta(_get(choice, "delta"), deltas)
            self._finish(_get(choice, "finish_reason"))
        self.started = self.started or bool(deltas)
        return deltas

    def finish(self) -> list[Delta]:
        """Return usage and finish reason at the end of the stream; nothing if it had no finish reason."""
        reason = "content_filter" if self._refused else self._reason if self._has_ended else ""
        if not reason:
            return []
        usage = to_usage(self._reports, self._info)
        return [*([UsageDelta(usage)] if usage else []), FinishDelta(reason)]

    def track_gemini_reasons(self, stream: object) -> None:
        """Look for Gemini's own finish reason in its `stream`, because litellm calls each of its chunks the last."""
        parse: Callable[..., Any] | None = getattr(stream, "chunk_parser", None)
        if parse is None or "gemini" not in type(stream).__module__:
            return
        self._has_ended = False

        def noting(chunk: Any) -> Any:
            reasons = [_get(candidate, "finishReason") for candidate in _get(chunk, "candidates") or ()]
            self._has_ended |= any([*reasons, _get(_get(chunk, "promptFeedback"), "blockReason")])
            return parse(chunk)

        stream.chunk_parser = noting  # type: ignore[attr-defined]

    def _finish(self, reason: object) -> None:
        word = reason if isinstance(reason, str) else ""
        if word in BROKEN:
            kind = BROKEN[word]
            why = f"the provider ended the answer with {word!r}"
            raise ProviderError(kind, why, started=self.started, transient=not self.started, cut=self.started)
        if word:
            self._reason = REASONS.get(word, word)

    def _delta(self, delta: object, deltas: list[Delta]) -> None:
        reasoning = _get_text(delta, "reasoning_content") or _get_text(delta, "reasoning")
        if reasoning:
            deltas += [ThinkingDelta(reasoning), OpaqueDelta("reasoning_content", reasoning)]
        blocks = _get(delta, "thinking_blocks")
        if isinstance(blocks, list) and blocks:
            deltas.append(OpaqueDelta("thinking_blocks", [dict(as_mapping(b)) for b in blocks]))
        content = _get_text(delta, "content")
        if content:
            deltas.append(TextDelta(content))
        refusal = _get_text(delta, "refusal")
        if refusal:
            self._refused = True
            deltas.append(TextDelta(refusal))
        calls = _get(delta, "tool_calls")
        deltas += [_call_delta(call) for call in calls or ()]


def _to_choices(chunk: JsonObject) -> list[JsonObject]:
    """Return a chunk in litellm's generic form as choices. Its `[DONE]` always means "stop", so it counts only with
    content."""
    text, call = chunk.get("text"), chunk.get("tool_use")
    is_last = chunk.get("is_finished") and (text or call or chunk.get("usage"))
    delta = {"content": text, "tool_calls": [call] if call else ()}
    return [{"delta": delta, "finish_reason": chunk.get("finish_reason") if is_last else None}]


def _call_delta(call: object) -> CallDelta:
    function = _get(call, "function")
    index, own_id = _get(call, "index"), _get_text(call, "id")
    arguments = _get(function, "arguments")
    signature = _get(_get(call, "provider_specific_fields"), "thought_signature")
    fields = {"provider_specific_fields": {"thought_signature": signature}} if signature else None
    return CallDelta(
        index=index if isinstance(index, int) else None,
        id=own_id,
        name=_get_text(function, "name"),
        arguments=arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments),
        fields=None if "__thought__" in own_id else fields,
    )
