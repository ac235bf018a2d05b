"""Read what a hook answers: its exit status, and the JSON on its stdout, in the form that Claude and codex share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

BLOCKS = 2
"""Exit status that blocks; the model gets stderr."""
SPEAKS = ("SessionStart", "UserPromptSubmit")
"""Events at which plain text on stdout is context for the model."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The decision of one run of a hook, and the text that it adds."""

    decision: str = ""
    """`deny`, `ask`, `allow` or ""; `deny` also stands for a block."""
    reason: str = ""
    context: str = ""
    """Text for the model."""
    message: str = ""
    """Text for the person."""
    updated: Mapping[str, Any] | None = None
    """The input that takes the place of a call's."""
    stops: bool = False
    """True if the turn ends; `reason` is for the person then."""
    refused: str = ""
    """The request that a project's hook may not make, in a few words."""

    def tighten(self) -> HookAnswer:
        """Return the part that counts if a project's hook answered: nothing that allows or changes input."""
        wanted = [
            *(["allow a call"] if self.decision == "allow" else []),
            *(["change its input"] if self.updated is not None else []),
        ]
        kept = "" if self.decision == "allow" else self.decision
        return replace(self, decision=kept, updated=None, refused=" or ".join(wanted))


def read_answer(event: str, status: int, stdout: str, stderr: str) -> HookAnswer:
    """Return the answer of a hook that ended with `status`; an empty one for a status that does not count."""
    if status == BLOCKS:
        return HookAnswer("deny", stderr.strip() or stdout.strip())
    if status:
        return HookAnswer()
    value = _read_object(stdout)
    first = None if value else _read_object(stdout.lstrip().partition("\n")[0])
    if first and first.get("async") is True:  # Claude goes on while such a hook runs; what follows is not for the model
        return HookAnswer()
    if value is None:
        return HookAnswer(context=stdout.strip() if event in SPEAKS else "")
    inner = value.get("hookSpecificOutput")
    more: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    asked = more.get("decision")
    nested: Mapping[str, Any] = asked if isinstance(asked, dict) else {}  # of PermissionRequest
    word = _text(more, "permissionDecision") or _text(nested, "behavior") or _text(value, "decision")
    decision = {"block": "deny", "deny": "deny", "approve": "allow", "allow": "allow", "ask": "ask"}.get(word, "")
    reason = _text(more, "permissionDecisionReason") or _text(nested, "message") or _text(value, "reason")
    stops = value.get("continue") is False or nested.get("interrupt") is True
    updated = more.get("updatedInput", nested.get("updatedInput"))
    return HookAnswer(
        "deny" if stops else decision,
        (_text(value, "stopReason") or reason) if stops else reason,
        _text(more, "additionalContext"),
        _text(value, "systemMessage"),
        updated if isinstance(updated, dict) else None,
        stops,
    )


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
        return value if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found.strip() if isinstance(found, str) else ""
