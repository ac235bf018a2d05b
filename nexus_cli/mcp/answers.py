"""Turn what the SDK returns into the values of `server_values`: tools, answers of calls, resources and prompts."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import mcp_types as types

from nexus_cli.mcp.server_values import ServerAnswer, ServerPrompt, ServerTool


def read_tool(tool: types.Tool) -> ServerTool:
    """Return a tool with its schema as the server sent it."""
    hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
    only_flags = {name: value for name, value in hints.items() if isinstance(value, bool)}
    return ServerTool(tool.name, tool.description or "", tool.input_schema, only_flags)


def read_listed_prompt(prompt: types.Prompt) -> ServerPrompt:
    """Return a prompt with its arguments."""
    arguments = ((argument.name, bool(argument.required)) for argument in prompt.arguments or ())
    return ServerPrompt(prompt.name, prompt.description or "", tuple(arguments))


def read_call(result: types.CallToolResult) -> ServerAnswer:
    """Return the answer of a call; structured content is shown as JSON if its text lacks any of its values."""
    answer = read_content(result.content)
    text = answer.text
    if result.structured_content is not None and _lacks(text, result.structured_content):
        structured = json.dumps(result.structured_content, ensure_ascii=False)
        text = "\n".join(filter(None, (text, structured)))
    return replace(answer, text=text, is_error=bool(result.is_error))


def _lacks(text: str, value: Any) -> bool:
    """Return True if a value, or one in it, stands nowhere in a text, which may be its JSON."""
    if isinstance(value, dict | list):
        return any(_lacks(text, element) for element in (value.values() if isinstance(value, dict) else value))
    needle = value if isinstance(value, str) else json.dumps(value)
    return value is not None and needle not in text and json.dumps(needle, ensure_ascii=False)[1:-1] not in text


def read_prompt(result: types.GetPromptResult) -> ServerAnswer:
    """Return the messages of a prompt; those of the assistant are marked."""
    answers = [read_content([message.content]) for message in result.messages]
    marks = ("assistant: " if message.role == "assistant" else "" for message in result.messages)
    texts = (mark + answer.text for mark, answer in zip(marks, answers, strict=True))
    images = chain.from_iterable(answer.images for answer in answers)
    return ServerAnswer("\n\n".join(filter(None, texts)), images=tuple(images))


def read_content(blocks: Iterable[Any]) -> ServerAnswer:
    """Return the content of an answer or a resource."""
    texts: list[str] = []
    images: list[tuple[str, bytes]] = []
    for block in blocks:
        if isinstance(block, types.EmbeddedResource):
            block = block.resource
        if isinstance(block, types.TextContent | types.TextResourceContents):
            texts.append(block.text)
        elif isinstance(block, types.ResourceLink):
            texts.append(f"[resource {block.name}: {block.uri}]")
        else:
            media, is_file = block.mime_type or "", isinstance(block, types.BlobResourceContents)
            data, label = (block.blob, f"{block.uri}: ") if is_file else (block.data, "")
            if isinstance(block, types.ImageContent) or (is_file and media.startswith("image/")):
                with suppress(ValueError):
                    images.append((media, b64decode(data)))
            else:
                texts.append(f"[{label}{media or 'binary'}, {len(data) * 3 // 4} bytes]")
    return ServerAnswer("\n".join(texts), images=tuple(images))
