"""Turn what the SDK returns into JSON for the pipe: tools, answers of calls, resources and prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

from nexus_cli.core.json_value import JsonDict


def tool_json(tool: types.Tool) -> JsonDict:
    """Return a tool with its schema as the server sent it."""
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema,
        "hints": {name: value for name, value in hints.items() if isinstance(value, bool)},
    }


def call_json(result: types.CallToolResult) -> JsonDict:
    """Return the answer of a call; structured content is shown as JSON if its text lacks any of its values."""
    answer = content_json(result.content)
    if result.structured_content is not None and _lacks(answer["text"], result.structured_content):
        structured = json.dumps(result.structured_content, ensure_ascii=False)
        answer["text"] = "\n".join(filter(None, (answer["text"], structured)))
    return {**answer, "is_error": result.is_error}


def _lacks(text: str, value: Any) -> bool:
    """Return True if a value, or one in it, stands nowhere in a text, which may be its JSON."""
    if isinstance(value, dict | list):
        return any(_lacks(text, element) for element in (value.values() if isinstance(value, dict) else value))
    needle = value if isinstance(value, str) else json.dumps(value)
    return value is not None and needle not in text and json.dumps(needle, ensure_ascii=False)[1:-1] not in text


def prompt_json(result: types.GetPromptResult) -> JsonDict:
    """Return the messages of a prompt; those of the assistant are marked."""
    texts, images = [], []
    for message in result.messages:
        answer = content_json([message.content])
        mark = "assistant: " if message.role == "assistant" else ""
        texts.append(mark + answer["text"])
        images += answer["images"]
    return {"text": "\n\n".join(filter(None, texts)), "images": images}


def content_json(blocks: Iterable[Any]) -> JsonDict:
    """Return the content of an answer or a resource."""
    texts: list[str] = []
    images: list[tuple[str, str]] = []
    for block in blocks:
        if isinstance(block, types.EmbeddedResource):
            block = block.resource
        if isinstance(block, types.TextContent | types.TextResourceContents):
            texts.append(block.text)
        elif isinstance(block, types.ImageContent):
            images.append((block.mime_type, block.data))
        elif isinstance(block, types.BlobResourceContents) and (block.mime_type or "").startswith("image/"):
            images.append((block.mime_type or "", block.blob))
        elif isinstance(block, types.BlobResourceContents):
            texts.append(f"[{block.uri}: {block.mime_type or 'binary'}, {len(block.blob) * 3 // 4} bytes]")
        elif isinstance(block, types.ResourceLink):
            texts.append(f"[resource {block.name}: {block.uri}]")
        elif isinstance(block, types.AudioContent):
            texts.append(f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes]")
    return {"text": "\n".join(texts), "images": images}
