"""Prompt caches of providers: the marks and keys that request one, and the lifetime at each provider.

A mark is a key on the message, which litellm puts on the message's last content block: text and shape stay the same.
Lifetimes and minimums are documented by Anthropic (5 minutes from the last use), OpenAI and Azure (5 to 10 minutes, at
most an hour; newer models up to 24; from 1,024 tokens in steps of 128), Google (minimums only) and DeepSeek (hours to
days, in steps of 64). `USUAL` is an assumption.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import ModelInfo, Request

MARK = {"type": "ephemeral"}
MAX_MARKS = 4
LOOK_BACK = 15
"""Blocks between two marks. The provider looks back over about 20 from each."""
CACHE_LIKE_CLAUDE = frozenset({"openrouter", "bedrock", "vertex_ai", "azure_ai"})


def takes_marks(model: str, provider: str) -> bool:
    """True for Anthropic's models, also behind another provider."""
    return provider == "anthropic" or (provider in CACHE_LIKE_CLAUDE and "claude" in model.lower())


def count_blocks(message: JsonObject) -> int:
    """Return the number of content blocks of a message: texts and images, thinking, calls."""
    content = message.get("content")
    texts = len(content) if isinstance(content, list) else 1 if content else 0
    return max(1, texts + len(message.get("thinking_blocks") or ()) + len(message.get("tool_calls") or ()))


def _spare_mark(messages: Sequence[JsonObject], start: int, end: int) -> int | None:
    """Return the message in `start..end` whose mark keeps a long batch within reach, or None if the batch is short."""
    if sum(map(count_blocks, messages[start:end])) <= LOOK_BACK:
        return None
    count = 0
    for index in range(start, end):
        count += count_blocks(messages[index])
        if count >= LOOK_BACK and messages[index].get("role") != "assistant":
            return index
    return None


def mark_positions(messages: Sequence[JsonObject], previous_end: int) -> list[int]:
    """Return the indices of the messages to mark, at most four, in order.

    They are the end of the system text, of the previous request and of this one, and a spare one if more than 15 blocks
    were added. An end that is an assistant's message gets no mark: its last block may be thinking, which takes none.
    """
    head = next((n for n, message in enumerate(messages) if message.get("role") != "system"), len(messages))
    last = len(messages) - 1
    since = previous_end if head < previous_end <= last else head
    positions = {head - 1 if head else None, since - 1 if since > head else None, last if last >= head else None}
    positions.add(_spare_mark(messages, since, last))
    return sorted(i for i in positions if i is not None and messages[i].get("role") != "assistant")[:MAX_MARKS]


def add_cache_marks(request: Request) -> Request:
    """Return `request`, to a provider that takes cache marks, with those of its messages and tools."""
    messages, tools = list(request.messages), list(request.tools)
    for index in mark_positions(messages, request.previous_end):
        messages[index] = {**messages[index], "cache_control": MARK}
    if tools and not (messages and messages[0].get("role") == "system"):
        tools[-1] = {**tools[-1], "cache_control": MARK}
    return replace(request, messages=messages, tools=tools)


def cache_key_arguments(key: str, provider: str) -> JsonObject:
    """Return the arguments that carry a cache key: a body field for OpenAI, a header for xAI, else nothing."""
    if key and provider in ("openai", "azure"):
        return {"prompt_cache_key": key}
    if key and provider == "xai":
        return {"extra_headers": {"x-grok-conv-id": key}}
    return {}


MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class CacheLife:
    """The lifetime and minimum of one provider's cache."""

    json_fields: ClassVar = "kept_seconds minimum:min_tokens step automatic documented"
    min_seconds: float
    """Seconds since its last use for which a prefix is certainly kept, according to the provider."""
    max_seconds: float
    """Seconds after which it is certainly gone."""
    min_tokens: int
    """Minimum tokens of a prefix that is cached."""
    step: int = 1
    """Granularity of a cached prefix in tokens."""
    automatic: bool = True
    """False if the provider caches only marked prefixes (`add_cache_marks`)."""
    documented: bool = True
    """False if the values are an assumption."""

    @property
    def kept_seconds(self) -> tuple[float, float]:
        """Guaranteed and maximal lifetime."""
        return self.min_seconds, self.max_seconds


ANTHROPIC = CacheLife(5 * MINUTE, 5 * MINUTE, 1024, automatic=False)
OPENAI = CacheLife(5 * MINUTE, HOUR, 1024, 128)
GEMINI = CacheLife(3 * MINUTE, HOUR, 1024, 256, documented=False)
DEEPSEEK = CacheLife(HOUR, 7 * DAY, 64, 64)
USUAL = CacheLife(5 * MINUTE, DAY, 1024, 128, documented=False)

LONGER_MINIMUM = (
    (re.compile(r"claude.*(haiku-?4|haiku-?5|opus-?4[-.](5|6|7|8|9)|opus-?5)"), 4096),
    (re.compile(r"claude.*(sonnet-?4[-.](6|7|8|9)|sonnet-?5|haiku)"), 2048),
    (re.compile(r"gemini.*pro"), 4096),
)
"""Models with a higher minimum than others of their maker; the first match counts."""
CACHED_FOR_A_DAY = re.compile(r"gpt-(5\.[5-9]|[6-9])")
"""OpenAI's models that keep their cache for up to a day by default."""
HOUSES = {
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "azure": OPENAI,
    "gemini": GEMINI,
    "vertex_ai": GEMINI,
    "google": GEMINI,
    "deepseek": DEEPSEEK,
    "xai": USUAL,
    "x-ai": USUAL,
}
"""By litellm's name of the provider; for OpenRouter by its name of the maker."""


@lru_cache(64)
def cache_life_of(info: ModelInfo) -> CacheLife | None:
    """Return the known cache lifetime of a model; None if its provider has no known cache."""
    name, provider = info.name.lower(), info.provider
    house = name.split("/")[1] if provider == "openrouter" and name.count("/") > 1 else provider
    life = ANTHROPIC if takes_marks(info.name, provider) else HOUSES.get(house)
    if life is None or (house == "vertex_ai" and "gemini" not in name and life is GEMINI):
        return USUAL if info.cache else None
    if life is OPENAI and CACHED_FOR_A_DAY.search(name):
        life = replace(life, max_seconds=DAY)
    least = next((tokens for pattern, tokens in LONGER_MINIMUM if pattern.search(name)), life.min_tokens)
    return replace(life, min_tokens=least)
