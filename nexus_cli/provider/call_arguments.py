"""Build the arguments of one litellm call from a `Request`.

Everything is explicit: the output cap (litellm's default for Claude is 4,096), no retries by litellm or the SDK, and
the size of Ollama's window (its default truncates silently).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy

from nexus_cli.core.effort import DEFAULT_EFFORT
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.request import ModelInfo, Request
from nexus_cli.provider.endpoint import Endpoint
from nexus_cli.provider.message_lines import STAND_IN
from nexus_cli.provider.model_table import takes_effort
from nexus_cli.provider.prompt_cache import cache_key_arguments

SDK_PASSTHROUGH = frozenset({"openai", "lm_studio", "llamafile"})
"""Providers whose adapter passes the messages to the openai SDK unchanged, which then walks them all."""
PLACEHOLDER = ({"role": "user", "content": "."},)
PLACEHOLDER_TOOL: JsonObject = {"type": "function", "function": {"name": "placeholder", "parameters": {}}}
"""A message and a tool for the SDK to walk; the real ones replace them in the body at the same place."""
THINKS_IN_BLOCKS = frozenset({"anthropic", "bedrock", "vertex_ai"})


def may_think(messages: Sequence[JsonObject]) -> bool:
    """Return False if Claude refuses thinking, because the calls just answered were made without it. After a switch
    from another model, the effort therefore waits for the next turn."""
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        if message.get("role") == "assistant" and message.get("tool_calls"):
            return bool(message.get("thinking_blocks"))
    return True


def effort_notice(model: str, effort: str) -> str:
    """Return a line for the person if `effort` has no effect on `model`, else ""."""
    is_sent = effort in (DEFAULT_EFFORT, sent_effort(model, effort))
    return "" if is_sent else f"{model} has no known effort levels; effort {effort} is not sent"


def sent_effort(model: str, effort: str) -> str:
    """Return the effort of a request to `model`; "" for the model's default, or if it takes none."""
    return "" if effort == DEFAULT_EFFORT or not takes_effort(model) else effort


def build_arguments(request: Request, endpoint: Endpoint, info: ModelInfo, *, walk: bool) -> JsonDict:
    """Return the keyword arguments for `acompletion`; `request` has its cache marks.

    With `walk` False, the tools and `STAND_IN` for the messages go into `extra_body`, which the SDK does not walk. Only
    for providers in `SDK_PASSTHROUGH`, whose body is the same either way.
    """
    tools = list(request.tools)
    arguments: JsonDict = {
        "model": endpoint.model,
        "messages": [dict(m) for m in (request.messages if walk else PLACEHOLDER)],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": request.max_output,
        "num_retries": 0,
        "max_retries": 0,
        "api_base": endpoint.base,
        "api_key": endpoint.key,
        **cache_key_arguments(request.cache_key, endpoint.provider),
    }
    if not walk:
        arguments["extra_body"] = {"messages": STAND_IN, **({"tools": tools} if tools else {})}
    if tools:
        arguments["tools"] = deepcopy(tools) if walk else [PLACEHOLDER_TOOL]  # adapters may change the schemas
        if request.tool_choice != "auto":
            arguments["tool_choice"] = request.tool_choice
    has_effort = request.effort and takes_effort(request.model)
    if has_effort and (endpoint.provider not in THINKS_IN_BLOCKS or may_think(request.messages)):
        arguments["reasoning_effort"] = request.effort
    if request.response_format:
        arguments["response_format"] = json.loads(request.response_format)
    if endpoint.provider == "github_copilot":
        arguments["extra_headers"] = _copilot_headers(request.messages)
    if endpoint.provider == "ollama_chat":
        arguments["num_ctx"] = info.window
    return arguments


def _copilot_headers(messages: Sequence[JsonObject]) -> dict[str, str]:
    """Return two headers that litellm sets for one of Copilot's interfaces only: who caused this request (a plan counts
    what a person sends, not the steps of the agent), and the presence of images."""
    by = "user" if messages[-1].get("role") == "user" else "agent"
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    has_images = any(part.get("type") == "image_url" for part in parts)
    return {"X-Initiator": by, **({"Copilot-Vision-Request": "true"} if has_images else {})}
