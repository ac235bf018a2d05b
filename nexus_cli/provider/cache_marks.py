"""Where a request asks the provider to keep its prompt cache: marks for Claude, a key for OpenAI and xAI.

Owns the choice of places. Leaves the text alone: a mark is a key on the message, which litellm puts on the message's
last content block, so that a marked and an unmarked message differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.core.request import Request

MARK = {"type": "ephemeral"}
MAX_MARKS = 4
LOOK_BACK = 15
"""Blocks between two marks. The provider looks back over about 20 from each."""
CLAUDE_TOO = frozenset({"openrouter", "bedrock", "vertex_ai", "azure_ai"})


def takes_marks(model: str, provider: str) -> bool:
    """True for Anthropic's models, also behind another provider."""
    return provider == "anthropic" or (provider in CLAUDE_TOO and "claude" in model.lower())


def count_blocks(message: Mapping[str, Any]) -> int:
    """Content blocks that a message becomes: its texts and images, its thinking, its calls."""
    content = message.get("content")
    texts = len(content) if isinstance(content, list) else 1 if content else 0
    return max(1, texts + len(message.get("thinking_blocks") or ()) + len(message.get("tool_calls") or ()))


def _spare_mark(messages: Sequence[Mapping[str, Any]], start: int, end: int) -> int | None:
    """The message in `start..end` that keeps a long batch within reach, or None when the batch is short."""
    if sum(count_blocks(m) for m in messages[start:end]) <= LOOK_BACK:
        return None
    count = 0
    for index in range(start, end):
        count += count_blocks(messages[index])
        if count >= LOOK_BACK and messages[index].get("role") != "assistant":
            return index
    return None


def mark_positions(messages: Sequence[Mapping[str, Any]], previous_end: int) -> list[int]:
    """Indices of the messages to mark, at most four, in order.

    End of the system text, end of the previous request, end of this one, and one spare where more than 15 blocks came
    since. An end that is an assistant's turn is left: its last block may be thinking, which takes no mark.
    """
    head = 0
    while head < len(messages) and messages[head].get("role") == "system":
        head += 1
    last = len(messages) - 1
    since = previous_end if head < previous_end <= last else head
    wanted = {head - 1 if head else None, since - 1 if since > head else None, last if last >= head else None}
    wanted.add(_spare_mark(messages, since, last))
    return sorted(i for i in wanted if i is not None and messages[i].get("role") != "assistant")[:MAX_MARKS]


def add_cache_marks(request: Request, provider: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The messages and tools of `request`, with cache marks where `provider` takes them; `request` is left as it is.

    Pure. Messages without a mark are the very same objects. Without a system text the last tool carries its mark.
    """
    messages, tools = list(request.messages), list(request.tools)
    if not takes_marks(request.model, provider):
        return messages, tools
    for index in mark_positions(messages, request.previous_end):
        messages[index] = {**messages[index], "cache_control": MARK}
    if tools and not (messages and messages[0].get("role") == "system"):
        tools[-1] = {**tools[-1], "cache_control": MARK}
    return messages, tools


def cache_key_arguments(request: Request, provider: str) -> dict[str, Any]:
    """The arguments that carry `request.cache_key`: a body field for OpenAI, a header for xAI, else nothing."""
    if not request.cache_key:
        return {}
    if provider in ("openai", "azure"):
        return {"prompt_cache_key": request.cache_key}
    if provider == "xai":
        return {"extra_headers": {"x-grok-conv-id": request.cache_key}}
    return {}
