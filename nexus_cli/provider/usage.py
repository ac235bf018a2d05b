"""Convert every provider's usage report to one `Usage`, with its cost at the prices of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.price import with_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage

CACHE_READ = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
)
CACHE_WRITE = (
    "cache_creation_input_tokens",
    "prompt_tokens_details.cache_creation_tokens",
    "prompt_tokens_details.cache_write_tokens",
)
REASONING = (
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "reasoning_tokens",
    "thoughtsTokenCount",
)


def as_mapping(raw: object) -> Mapping[str, Any]:
    """Return `raw` (a mapping, a pydantic model or None) as a plain mapping."""
    if isinstance(raw, Mapping):
        return raw
    dump = getattr(raw, "model_dump", None)
    dumped = dump() if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else {}


def _number(raw: Mapping[str, Any], path: str) -> int:
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _most(raw: Mapping[str, Any], paths: tuple[str, ...]) -> int:
    return max(_number(raw, path) for path in paths)


def merge_reports(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two reports of one stream: the larger of each number.

    Anthropic reports input at the start and output at the end; others repeat a growing total.
    """
    merged = dict(first)
    for key, value in second.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key] = merge_reports(old, value)
        elif isinstance(value, int | float) and isinstance(old, int | float):
            merged[key] = max(old, value)
        elif value is not None:
            merged[key] = value
    return merged


def to_usage(raw: object, info: ModelInfo) -> Usage:
    """Convert `raw` to a `Usage`; counts that are missing, negative or not numbers become 0.

    `input` includes cache reads and writes: if a report counts them separately (Anthropic's own form, with
    `input_tokens`), they are added. `output` includes reasoning.
    """
    report = as_mapping(raw)
    read, write = _most(report, CACHE_READ), _most(report, CACHE_WRITE)
    prompt = _most(report, ("prompt_tokens", "promptTokenCount", "prompt_eval_count"))
    if not prompt:
        beside = "cache_read_input_tokens" in report or "cache_creation_input_tokens" in report
        prompt = _number(report, "input_tokens") + (read + write if beside else 0)
    reasoning = _most(report, REASONING)
    output = _most(report, ("completion_tokens", "output_tokens", "eval_count"))
    if not output:
        output = _number(report, "candidatesTokenCount") + _number(report, "thoughtsTokenCount")
    read = min(read, prompt)
    return with_cost(Usage(prompt, max(output, reasoning), read, min(write, prompt - read), reasoning), info)


def has_counts(raw: Mapping[str, Any]) -> bool:
    """True if any count of a report is above zero: Ollama's unfinished streams report only zeros."""
    return any(
        has_counts(value) if isinstance(value, Mapping) else isinstance(value, int | float) and value > 0
        for value in raw.values()
    )
