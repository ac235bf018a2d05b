"""`[[hook]]`: commands that run at an event of a session (`nexus docs hooks`); the values of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from nexus_cli.core.json_value import is_number

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PermissionRequest",
    "Notification",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PreCompact",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
)
"""The events, in the order of a session."""
SECONDS = 60.0
"""Time limit of a hook that names none."""
LONGEST_SECONDS = 86_400
LONGEST_MATCHER = 200
"""Most characters of a matcher."""


@dataclass(frozen=True, slots=True)
class HookTable:
    """One hook as it is configured."""

    event: str
    command: str
    """A line of the shell."""
    matcher: str = ""
    """Names of tools, or of kinds of the event, separated by `|`, or a regular expression; "" and `*` match all."""
    timeout: float = SECONDS
    on_timeout: str = "allow"
    """`deny`: what the hook guards is refused if the hook does not end in time or cannot run."""


def parse_hook(value: object) -> HookTable | None:
    """Return the hook of a table `[[hook]]`, None if it is invalid."""
    if not isinstance(value, dict) or not {"event", "command"} <= set(value) <= set(HookTable.__dataclass_fields__):
        return None
    texts = {key: value.get(key, "") for key in ("event", "command", "matcher")}
    seconds, late = value.get("timeout", SECONDS), value.get("on_timeout", "allow")
    in_time = is_number(seconds) and 0 < seconds <= LONGEST_SECONDS
    if not all(isinstance(text, str) for text in texts.values()) or not texts["command"].strip():
        return None
    if texts["event"] not in EVENTS or not in_time or late not in ("allow", "deny"):
        return None
    return HookTable(**texts, timeout=float(seconds), on_timeout=late)


def encode_hook(hook: HookTable) -> str:
    """Return a hook as one line, the form in which settings hold it."""
    return json.dumps(asdict(hook))


def decode_hooks(lines: Iterable[str]) -> tuple[HookTable, ...]:
    """Return the hooks of such lines."""
    return tuple(HookTable(**json.loads(line)) for line in lines)
