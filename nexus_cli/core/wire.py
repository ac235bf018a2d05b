"""The canonical form of a request, message rules of providers, and JSON text for other readers.

A rule inserts a fixed bridging message between two messages; it never joins or alters messages. The rules of each
provider are data in `nexus_cli.provider.wire_rules`; an epoch stores its own as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from nexus_cli.core.json_value import JsonDict

LINE_END_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\u0085\u2028\u2029"}
"""The escapes of characters beyond ASCII at which `str.splitlines` and other readers end a line."""


def as_table(value: object) -> JsonDict:
    """Return `value` if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def canonical(value: Any) -> bytes:
    """Serialize to one line of JSON without newline: UTF-8, no spaces, keys in the given order (laws 1 and 8)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class WireRules:
    """Sequences of roles that a provider refuses, with the text to insert between; "" if the sequence is allowed."""

    provider: str = "openai"
    """litellm's provider name; `Opaque` data is sent back only to the same provider."""
    user_after_tool: str = ""
    """Assistant text between a tool result and a user message."""
    user_after_user: str = ""
    """Assistant text between two user messages."""
    assistant_after_assistant: str = ""
    """User text between two assistant messages."""
    first_not_user: str = ""
    """User text before a first message that is not the user's."""
    call_id_length: int = 0
    """Exact length of a tool-call id; ours are padded with zeros after the first letter. 0 for any length."""
    null_content: bool = False
    """True: an assistant message with calls and no text has `content: null`; False: it has no `content`."""

    def dumps(self) -> str:
        """Serialize to JSON for the epoch."""
        return canonical(asdict(self)).decode()

    @classmethod
    def loads(cls, text: str) -> WireRules:
        """Parse the rules that an epoch stored; unknown keys (of newer versions) are ignored."""
        fields = cls.__dataclass_fields__
        return cls(**{key: value for key, value in json.loads(text).items() if key in fields})

    def between(self, previous: str | None, role: str) -> dict[str, str] | None:
        """Return the bridging message between messages of the roles `previous` (None: the start) and `role`, or
        None."""
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
        """Pad `call_id` to the length that this provider requires."""
        return call_id[:1] + call_id[1:].zfill(self.call_id_length - 1) if self.call_id_length else call_id


def json_text(value: Any, *, escaped: bool, indent: int | None = None, dense: bool = False) -> str:
    """Serialize `value` to JSON (RFC 8259); `escaped`: ASCII only, `dense`: no spaces. Infinity and NaN become null.

    Characters that many readers take for the end of a line are always escaped.
    """
    write = partial(
        json.dumps, ensure_ascii=escaped, indent=indent, separators=(",", ":") if dense else None, allow_nan=False
    )
    try:
        text = write(value)
    except ValueError:
        text = write(json.loads(json.dumps(value), parse_constant=lambda name: None))
    return text if text.isascii() else text.translate(LINE_END_ESCAPES)
