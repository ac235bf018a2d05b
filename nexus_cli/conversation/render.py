"""From items to the messages on the wire, and their canonical lines (laws 1 and 8).

Pure and incremental: no message is rendered twice. The wire rules of the epoch insert bridging messages as a function
of two neighbours; opaque data is sent back only to its own provider and model.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable

from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.message import Message, Opaque, Part, Role
from nexus_cli.core.wire import WireRules, canonical

EMPTY = "(empty)"


class Wire:
    """The messages of one epoch's requests: grows at the end, never changes."""

    def __init__(self, epoch: Epoch) -> None:
        self._rules = WireRules.loads(epoch.rules)
        self._model = epoch.model
        self._ids: dict[str, str] = {}
        self._role: str | None = None
        self.messages: list[JsonObject] = []
        self._hash = hashlib.sha256()
        for line in (canonical(list(epoch.tools)), canonical(epoch.system)):
            self._hash.update(line + b"\n")
        if epoch.system:
            self.messages.append({"role": "system", "content": epoch.system})

    @property
    def sha256(self) -> str:
        """SHA-256 of all lines so far, each ended by a newline."""
        return self._hash.hexdigest()

    def fork(self) -> Wire:
        """Return a wire that begins with this one's lines and grows independently."""
        forked = object.__new__(Wire)
        forked.__dict__.update(self.__dict__)
        forked.messages, forked._ids, forked._hash = list(self.messages), dict(self._ids), self._hash.copy()
        return forked

    def extend(self, items: Iterable[WindowItem]) -> list[bytes]:
        """Append arranged items; return for each the SHA-256 of its lines."""
        hashes: list[bytes] = []
        for item in items:
            role, lines = str(item.message.role), b""
            for value in (self._rules.between(self._role, role), self._message(item.message, item.preamble)):
                if value is not None:
                    self.messages.append(value)
                    lines += canonical(value) + b"\n"
            self._role = role
            self._hash.update(lines)
            hashes.append(hashlib.sha256(lines).digest())
        return hashes

    def _message(self, message: Message, preamble: str) -> JsonDict:
        match message.role:
            case Role.ASSISTANT:
                return self._assistant(message)
            case Role.TOOL:
                call = message.tool_call_id or ""
                text = message.content or EMPTY
                content = f"{text}\n\n{preamble}" if preamble else text
                wired = self._ids.get(call, self._rules.call_id(call))
                return {"role": "tool", "tool_call_id": wired, "content": content}
            case _:
                content = "\n\n".join(part for part in (preamble, message.content) if part) or EMPTY
                value: JsonDict = {"role": str(message.role), "content": content}
                if message.parts:
                    value["content"] = [{"type": "text", "text": content}, *map(_image, message.parts)]
                return value

    def _assistant(self, message: Message) -> JsonDict:
        value: JsonDict = {"role": "assistant", "content": message.content or None}
        if not message.content and not (message.tool_calls and self._rules.null_content):
            del value["content"]
        extra, calls = self._opaque(message.opaque)
        self._ids = {}
        if message.tool_calls:
            value["tool_calls"] = [
                {
                    "id": self._rules.call_id(call.id),
                    "type": "function",
                    "function": {"name": call.sent_name, "arguments": call.sent_arguments},
                }
                | calls.get(call.id, {})
                for call in message.tool_calls
            ]
            for call, wired in zip(message.tool_calls, value["tool_calls"], strict=True):
                self._ids[call.id] = wired["id"]
        return value | extra

    def _opaque(self, opaque: Opaque | None) -> tuple[JsonDict, JsonDict]:
        if opaque is None or opaque.provider != self._rules.provider or opaque.model != self._model:
            return {}, {}
        data = json.loads(opaque.data)
        return data.get("message", {}), data.get("calls", {})


def _image(part: Part) -> JsonDict:
    data = base64.b64encode(part.data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}
