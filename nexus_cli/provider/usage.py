"""Convert a provider's reports of usage to one `Usage`, with its cost at the prices of the model.

litellm converts the providers' own forms to that of Chat Completions, whose servers differ in details.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.price import with_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage

PATHS = {
    "input": ("prompt_tokens",),
    "output": ("completion_tokens",),
    "cache_read": ("prompt_tokens_details.cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
    "cache_write": (
        "cache_creation_input_tokens",
        "prompt_tokens_details.cache_creation_tokens",
        "prompt_tokens_details.cache_write_tokens",
    ),
    "reasoning": ("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
}
"""Where a report has each count, by the names of `Usage`."""


def as_mapping(raw: object) -> JsonObject:
    """Return `raw` (a mapping, a pydantic model or None) as a plain mapping."""
    dump = getattr(raw, "model_dump", None)
    dumped = dump() if callable(dump) else raw
    return dumped if isinstance(dumped, Mapping) else {}


def _number(raw: JsonObject, path: str) -> int:
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def to_usage(reports: Sequence[JsonObject], info: ModelInfo) -> Usage | None:
    """Return the largest of each count in the reports of one stream, None if all are 0, missing or no numbers.

    Anthropic reports input at the start and output at the end; others repeat a growing total; Ollama's unfinished
    streams report only zeros. `input` includes cache reads and writes, `output` reasoning.
    """
    largest = {
        name: max((_number(report, path) for report in reports for path in paths), default=0)
        for name, paths in PATHS.items()
    }
    if not any(largest.values()):
        return None
    output, read = max(largest["output"], largest["reasoning"]), min(largest["cache_read"], largest["input"])
    write = min(largest["cache_write"], largest["input"] - read)
    return with_cost(Usage(largest["input"], output, read, write, largest["reasoning"]), info)
