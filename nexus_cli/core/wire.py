"""The canonical form of a request, the message rules of a provider's wire form, and JSON text for other readers.

A rule inserts a fixed bridging message between two neighbours; it never joins or alters messages. The rules of each
provider are data in `nexus_cli.provider.wire_rules`; an epoch stores its own as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


def canonical(value: Any) -> bytes:
    """Return one JSON line without its newline: UTF-8, no spaces, keys in the given order (laws 1 and 8)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class WireRules:
    """Pairs that a provider refuses, with the text to insert between. "" means the pair is allowed."""

    provider: str = "openai"
    """litellm's provider name; opaque material goes back only where it is equal."""
    user_after_tool: str = ""
    """Assistant text between a tool result and a user message."""
    user_after_user: str = ""
    """Assistant text between two user messages."""
    assistant_after_assistant: str = ""
    """User text between two assistant messages."""
    first_not_user: str = ""
    """User text before a first message that is not the user's."""
    call_id_length: int = 0
    """Exact length of a tool-call id; ours are padded with zeros after their first letter. 0: any."""
    null_content: bool = False
    """An assistant message with calls and no text has `content: null`; otherwise the key is left out."""

    def dumps(self) -> str:
        """Return JSON for the epoch."""
        return canonical(asdict(self)).decode()

    @classmethod
    def loads(cls, text: str) -> WireRules:
        """Return the rules that an epoch stored; keys of a newer version are ignored."""
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in json.loads(text).items() if key in known})

    def between(self, previous: str | None, role: str) -> dict[str, str] | None:
        """Return the bridging message before a message of `role` that follows one of role `previous` (None: the
        first)."""
        if previous is None:
            return {"role": "user", "content": self.first_not_user} if self.first_not_user and role != "user" else None
        text = {
            ("tool", "user"): self.user_after_tool,
            ("user", "user"): self.user_after_user,
            ("assistant", "assistant"): self.assistant_after_assistant,
        }.get((previous, role), "")
        if not text:
            return None
        return {"role": "user" if role == "assistant" else "assistant", "content": text}

    def call_id(self, call_id: str) -> str:
        """Return `call_id` in the length that this provider requires."""
        return call_id[:1] + call_id[1:].zfill(self.call_id_length - 1) if self.call_id_length else call_id


def json_text(value: Any, *, escaped: bool, indent: int | None = None, dense: bool = False) -> str:
    """Return `value` as JSON (RFC 8259), `escaped` to ASCII or not. Numbers that JSON lacks (infinity, not a number)
    become null. `dense` omits the spaces."""
    separators = (",", ":") if dense else None
    try:
        return json.dumps(value, ensure_ascii=escaped, indent=indent, separators=separators, allow_nan=False)
    except ValueError:
        known = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(known, ensure_ascii=escaped, indent=indent, separators=separators, allow_nan=False)
