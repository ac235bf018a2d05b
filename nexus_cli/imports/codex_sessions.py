"""Read the sessions of codex: `sessions/**/rollout-*.jsonl`, one file each, items of the Responses API in order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from nexus_cli.core.attachment import Part
from nexus_cli.core.entry import Kind
from nexus_cli.core.json_value import JsonDict, JsonObject, is_nested_within
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import as_table
from nexus_cli.imports.foreign_session import (
    MAX_NESTING,
    ForeignSession,
    clean_text,
    count,
    image_part,
    make_call,
    read_name,
    read_records,
)

_IMAGE_TAG = re.compile(r"<image( [^>]*)?>|</image>")
"""A text around an image that a person attached."""
_DATA_URL = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)
OWN_TEXTS = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>")
"""Beginnings of user messages that codex writes itself, anew in each session."""
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
REPEATS = ("user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "token_count")
"""Events that repeat what the items have, or that are read for their figures."""


def read_codex_session(path: Path) -> ForeignSession:
    """Return the session in a file. Raises `OSError`."""
    session = ForeignSession("codex", path.stem, path)
    talk = _Talk(session)
    for record in read_records(path, session.bad_lines):
        session.note_time(record.get("timestamp"))
        talk.add(record)
    if talk.total is not None:
        session.usage = {session.model: talk.total}
    session.close_calls()
    return session


class _Talk:
    """The conversation on its way into a session."""

    def __init__(self, session: ForeignSession) -> None:
        self.session = session
        self.total: Usage | None = None
        self._names: dict[str, str] = {}
        self._reply = -1
        """Place of the assistant message that is still growing; -1 if the next text or call begins another one."""
        self._newest = ""
        """The text that was added to it last."""

    def add(self, record: JsonDict) -> None:
        """Add one record, in the form of today (`type` and `payload`) or that of the first versions (the bare item)."""
        kind, payload = record.get("type"), record.get("payload")
        match kind, payload:
            case "response_item", dict():
                self._add_item(payload)
            case "session_meta", dict():
                self._add_head(payload)
            case "turn_context", dict():
                self.session.model = read_name(payload, "model") or self.session.model
                self.session.folder = self.session.folder or read_name(payload, "cwd")
            case "event_msg", dict():
                self._add_event(payload)
            case "compacted", dict():
                self._take_summary(read_name(payload, "message"))
                self.session.left_out["compaction summaries (the original messages are imported)"] += 1
            case None, None if "id" in record and "instructions" in record:
                self._add_head(record)
            case str(), None:
                self._add_item(record)
            case _:
                self.session.omit("records", kind or record.get("record_type"))

    def _add_head(self, payload: JsonObject) -> None:
        self.session.id = read_name(payload, "id") or self.session.id
        self.session.folder = self.session.folder or read_name(payload, "cwd")
        self.session.note_time(payload.get("timestamp"))

    def _add_event(self, payload: JsonObject) -> None:
        total = as_table(payload.get("info")).get("total_token_usage")
        if payload.get("type") == "token_count" and isinstance(total, dict):
            read, reasoned = count(total.get("cached_input_tokens")), count(total.get("reasoning_output_tokens"))
            used = count(total.get("input_tokens")), count(total.get("output_tokens"))
            self.total = Usage(*used, read, 0, reasoned, None)
        elif payload.get("type") not in REPEATS:
            self.session.omit("events", payload.get("type"))

    def _add_item(self, item: JsonObject) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(item)
        elif kind in CALLS:
            self._add_call(item)
        elif kind in RESULTS:
            self._reply = -1
            images: list[Part] = []
            text = self._output(item.get("output"), images)
            self.session.add_result(read_name(item, "call_id"), text, self._names, images)
        elif kind == "reasoning":
            self.session.left_out["thinking (usable only by the original provider)"] += 1
        else:
            self.session.omit("items", kind)

    def _add_message(self, item: JsonObject) -> None:
        texts: list[str] = []
        images: list[Part] = []
        content = item.get("content")
        tags = "input_image" in str(content)
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            kind = as_table(block).get("type")
            if kind in ("input_text", "output_text", "text"):
                text = str(block.get("text") or "")
                texts += [] if tags and _IMAGE_TAG.fullmatch(text) else [text]
            elif kind == "input_image" and (image := self._image(block.get("image_url"))) is not None:
                images.append(image)
            elif kind == "input_image":
                self.session.left_out["images without data"] += 1
            else:
                self.session.omit("blocks", kind)
        text = "\n\n".join(texts)
        role = item.get("role")
        if role == "assistant":
            self._extend_step(text, None)
        elif role == "user" and not text.startswith(OWN_TEXTS):
            self._reply = -1
            self.session.add_text(text, images)
        else:
            self.session.left_out["instructions and environment details added by codex"] += 1

    def _image(self, url: object) -> Part | None:
        match = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
        return image_part(match[1], match[2]) if match else None

    def _add_call(self, item: JsonObject) -> None:
        name, arguments = read_name(item, "name"), item.get("arguments", item.get("input"))
        if item.get("type") == "local_shell_call":
            name, arguments = "local_shell", item.get("action")
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments)
                arguments = parsed if isinstance(parsed, dict) and is_nested_within(parsed, MAX_NESTING) else arguments
            except (ValueError, RecursionError):
                pass  # kept as raw text
        call = make_call(read_name(item, "call_id") or read_name(item, "id"), name, arguments)
        self._names[call.id] = call.name
        self._extend_step("", call)

    def _extend_step(self, text: str, call: ToolCall | None) -> None:
        """Add to the assistant message of this step, or begin it."""
        text, calls = clean_text(text), (call,) if call else ()
        self._newest = text
        if not text and not calls:
            return
        if self._reply < 0:
            self._reply = self.session.add(Kind.ASSISTANT, Message(Role.ASSISTANT, text, calls), "agent")
        else:
            self.session.extend(self._reply, text, calls)

    def _take_summary(self, summary: str) -> None:
        """Remove the reply that became the summary of a compaction: it answers nobody."""
        entries, place = self.session.entries, self._reply
        if place < 0 or not self._newest or not summary.endswith(self._newest):
            return
        message = entries[place].message
        remaining_text = message.content.removesuffix(self._newest).rstrip("\n")
        entries[place] = replace(entries[place], message=replace(message, content=remaining_text))
        if not remaining_text and not message.tool_calls:
            entries.pop(place)
        self._reply = -1

    def _output(self, value: object, images: list[Part]) -> str:
        """Return the text of a result: as it is, or inside a JSON object with `output` or `content`; add its images."""
        if isinstance(value, str):
            try:
                parsed = json.loads(value) if value.startswith("{") else None
            except (ValueError, RecursionError):
                parsed = None
            inner = as_table(parsed).get("output")
            return inner if isinstance(inner, str) else value
        if isinstance(value, dict):
            value = value.get("content", value)
        if isinstance(value, list):
            blocks = [block for block in value if isinstance(block, dict)]
            texts = [str(block.get("text", "")) for block in blocks if "text" in block]
            images += [image for block in blocks if (image := self._image(block.get("image_url"))) is not None]
            if omitted := len(value) - len(texts) - len(images):
                self.session.left_out["parts of tool results that are not text"] += omitted
            return "\n\n".join(texts)
        return value if isinstance(value, str) else json.dumps(value)
