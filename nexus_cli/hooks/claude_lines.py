"""Write a session in Claude Code's own format: to resume it there, and for hooks that read it.

Each record names its parent. What nexus added to messages, thinking, and raw arguments that were no JSON are left out.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from nexus_cli import __version__
from nexus_cli.conversation.groups import arrange
from nexus_cli.core.entry import Entry, WindowItem, is_person, is_placeholder
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.message import Message, Role
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import json_text

_NAMESPACE = uuid.UUID("7f0d3c3e-4f0e-4a53-9d55-6e6578757300")


def claude_session_id(session: str) -> str:
    """Return the id under which Claude Code knows an exported session, always the same one."""
    return str(uuid.uuid5(_NAMESPACE, session))


def claude_lines(
    entries: Sequence[Entry],
    session: str,
    folder: str,
    model: str,
    *,
    name: str = "",
    used: Mapping[int, Usage] = MappingProxyType({}),
    escaped: bool = False,
) -> Iterator[str]:
    """Yield one JSON object per line for each message, every result directly behind its call, and one for the `name` of
    the session. `used` has the usage of replies by their entries."""
    session, parent = claude_session_id(session), None
    by_id = {entry.id: entry for entry in entries}
    items = arrange([WindowItem.of(entry) for entry in entries])
    for item in (window_item for window_item in items if not is_placeholder(window_item)):
        entry, blocks = by_id[item.entry], _blocks(item.message)
        if not blocks:
            continue
        message_id = str(uuid.uuid5(_NAMESPACE, f"{session} {entry.id}"))
        is_reply = item.message.role is Role.ASSISTANT
        message: JsonDict = {"role": "assistant" if is_reply else "user", "content": blocks}
        if is_reply:
            message |= _reply_fields(item.message, message_id, model, used.get(entry.id, Usage()))
        record: JsonDict = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": folder,
            "sessionId": session,
            "version": f"nexus {__version__}",
            "type": message["role"],
            "message": message,
            "uuid": message_id,
            "timestamp": entry.at,
        }
        if item.message.role is Role.USER and not is_person(entry.actor):
            record["isMeta"] = True
        parent = message_id
        yield json_text(record, escaped=escaped, dense=True) + "\n"
    if name:
        title: JsonDict = {"type": "custom-title", "customTitle": name, "sessionId": session}
        yield json_text(title, escaped=escaped, dense=True) + "\n"


def _reply_fields(message: Message, message_id: str, model: str, used: Usage) -> JsonObject:
    return {
        "id": f"msg_{message_id.replace('-', '')}",
        "type": "message",
        "model": model.rpartition("/")[2],
        "stop_reason": "tool_use" if message.tool_calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": used.input - used.cache_read - used.cache_write,
            "cache_read_input_tokens": used.cache_read,
            "cache_creation_input_tokens": used.cache_write,
            "output_tokens": used.output,
        },
    }


def _blocks(message: Message) -> list[JsonObject]:
    if message.role is Role.TOOL:
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    text: list[JsonObject] = [{"type": "text", "text": message.content}] if message.content else []
    images = [
        {"type": "base64", "media_type": part.media_type, "data": base64.b64encode(part.data).decode()}
        for part in message.parts
    ]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in message.tool_calls
    ]
    return [*text, *({"type": "image", "source": source} for source in images), *calls]
