"""A request's content as a list of blocks, the same for every wire form, so that a prefix can be checked.

Tools come first, then the system text, then each content block of each message with its place, role and ids: the order
in which providers cache. Cache marks are left out wherever a wire form allows one, never inside arguments or schemas.
Everything else of a request (model, output cap, cache key) is no content and is left out too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MARK = "cache_control"


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of content."""

    place: int
    """Place of its message; -1 for tools and a system text outside the messages."""
    role: str
    """`tools`, `system`, `user`, `assistant`, `tool`."""
    value: Any
    """Its JSON without cache marks."""
    marked: bool = False
    """A cache mark stood on it."""

    @property
    def line(self) -> str:
        """Its canonical form."""
        packed = json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))
        return f"{self.role}:{packed}" if self.place < 0 else f"{self.place}:{self.role}:{packed}"

    @property
    def image(self) -> bool:
        """It holds an image and no text."""
        return isinstance(self.value, dict) and not {
            "image_url",
            "source",
            "inlineData",
            "inline_data",
            "image",
        }.isdisjoint(self.value)

    @property
    def text(self) -> str:
        """What a tokenizer would see of it."""
        if self.image:
            return ""
        if isinstance(self.value, dict) and self.value.get("type", "text") == "text":
            said = self.value.get("text")
            if isinstance(said, str):
                return said
        if isinstance(self.value, dict) and self.value.get("type") == "tool_result":
            return "\n".join(str(part.get("text", "")) for part in self.value["content"] if isinstance(part, dict))
        return json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))


def blocks(body: Mapping[str, Any], form: str) -> list[str]:
    """The canonical blocks of a request body; `form` is `chat`, `anthropic`, `gemini`, `ollama` or `responses`."""
    return [block.line for block in content(body, form)]


def is_prefix(first: Sequence[str], second: Sequence[str]) -> bool:
    """True when `second` begins with all of `first`."""
    return len(first) <= len(second) and list(first) == list(second[: len(first)])


def first_difference(first: Sequence[str], second: Sequence[str]) -> str:
    """One line for a failed check: the first block of `first` that `second` has otherwise; "" for a prefix."""
    for place, line in enumerate(first):
        other = second[place] if place < len(second) else "(nothing)"
        if line != other:
            at = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), 0)
            begin = max(0, at - 40)
            return f"block {place} at character {at}: {line[begin : at + 80]!r} became {other[begin : at + 80]!r}"
    return ""


def content(body: Mapping[str, Any], form: str) -> list[Block]:
    """The blocks as values; `ValueError` on an unknown form."""
    readers = {"chat": _chat, "ollama": _chat, "anthropic": _anthropic, "gemini": _gemini, "responses": _responses}
    reader = readers.get(form)
    if reader is None:
        raise ValueError(f"no wire form {form!r}")
    return list(reader(body))


def _block(place: int, role: str, value: Any) -> Block:
    """One block with its mark taken off. A plain text is written one way, wherever its keys stood."""
    if not isinstance(value, dict):
        return Block(place, role, value)
    bare = {key: item for key, item in value.items() if key != MARK}
    if bare.get("type") == "text" and set(bare) == {"type", "text"}:
        bare = {"type": "text", "text": bare["text"]}
    return Block(place, role, bare, MARK in value)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _chat(body: Mapping[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools") or ():
        inner = tool.get("function")
        if isinstance(inner, dict) and MARK in inner:
            tool = tool | {"function": {k: v for k, v in inner.items() if k != MARK}, MARK: inner[MARK]}
        yield _block(-1, "tools", tool)
    for place, message in enumerate(body.get("messages") or ()):
        role = str(message.get("role"))
        whole_marked = MARK in message
        made = []
        link = {key: message[key] for key in ("tool_call_id", "tool_name", "name") if key in message}
        for part in _parts(message.get("content")):
            block = _block(place, role, part)
            made.append(Block(place, role, link | block.value, block.marked) if link else block)
        for call in message.get("tool_calls") or ():
            made.append(_block(place, role, call))
        for key, value in message.items():
            if key not in {"role", "content", "tool_calls", MARK, *link} and value not in (None, []):
                made.append(Block(place, role, {key: value}))
        if whole_marked and made:
            made[-1] = Block(place, role, made[-1].value, True)
        yield from made


def _anthropic(body: Mapping[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools") or ():
        yield _block(-1, "tools", tool)
    for part in _parts(body.get("system")):
        yield _block(-1, "system", part)
    for place, message in enumerate(body.get("messages") or ()):
        for part in _parts(message.get("content")):
            role = str(message.get("role"))
            if isinstance(part, dict) and part.get("type") == "tool_result":
                role = "tool"
                inner = [_block(place, role, item) for item in _parts(part.get("content"))]
                marks = {MARK: True} if MARK in part or any(block.marked for block in inner) else {}
                part = {k: v for k, v in part.items() if k != MARK}
                part = part | {"content": [block.value for block in inner]} | marks
            yield _block(place, role, part)


def _gemini(body: Mapping[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools") or ():
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        for item in declared or [tool]:
            yield _block(-1, "tools", item)
    system = body.get("systemInstruction") or body.get("system_instruction") or {}
    for part in _parts(system.get("parts")):
        yield _block(-1, "system", part)
    for place, message in enumerate(body.get("contents") or ()):
        spoken = {"model": "assistant"}.get(str(message.get("role")), str(message.get("role")))
        for part in _parts(message.get("parts")):
            answer = isinstance(part, dict) and not {"functionResponse", "function_response"}.isdisjoint(part)
            yield _block(place, "tool" if answer else spoken, part)


def _responses(body: Mapping[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools") or ():
        yield _block(-1, "tools", tool)
    for part in _parts(body.get("instructions")):
        yield _block(-1, "system", part)
    for place, item in enumerate(body.get("input") or ()):
        role = "tool" if item.get("type") == "function_call_output" else str(item.get("role", "assistant"))
        for part in _parts(item.get("content")) or [item]:
            yield _block(place, role, part)
