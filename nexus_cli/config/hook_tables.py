"""`[[hook]]`: commands that run at an event of a session (`nexus docs hooks`); the values of the settings."""

from __future__ import annotations

from dataclasses import dataclass

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


def parse_hook(value: object) -> HookTable:
    """Return the hook of a table `[[hook]]`; raise `ValueError` with what is wrong in it."""
    if not isinstance(value, dict):
        raise ValueError("not a [[hook]] table")
    if unknown := [key for key in value if key not in HookTable.__slots__]:
        raise ValueError(f"unknown key `{unknown[0]}`")
    texts = {key: value.get(key, "") for key in ("event", "command", "matcher")}
    seconds, late = value.get("timeout", SECONDS), value.get("on_timeout", "allow")
    if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"`{wrong[0]}` must be a string")
    if texts["event"] not in EVENTS:
        raise ValueError(f'`event` is "{texts["event"]}", not one of {", ".join(EVENTS)}')
    if not texts["command"].strip():
        raise ValueError("`command` is missing or empty")
    if not is_number(seconds) or not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError(f"`timeout` must be a number of seconds greater than 0 and at most {LONGEST_SECONDS}")
    if late not in ("allow", "deny"):
        raise ValueError('`on_timeout` is neither "allow" nor "deny"')
    return HookTable(**texts, timeout=float(seconds), on_timeout=late)
