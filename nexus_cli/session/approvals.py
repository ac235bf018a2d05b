"""Questions about the calls of a step: what a person sees of a call, and what "always" covers.

Whether a call needs approval is decided by `tools/permission`; asking, and what an answer leads to, is `dispatch`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.core.approval import Answer, Question
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import Effect, Tool

CONFIRM = "confirm"
"""The kind of an approval that the run wants although the level allows the call."""
EDITS = "edits"
"""In the place of the tool in a scope: `write_file` and `edit_file`."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that the person is asked about."""

    question: Question
    tool: Tool
    checked: Mapping[str, Any]
    """Its arguments."""
    scope: tuple[str, ...]


@dataclass
class ApprovalStep:
    """The questions about the calls of one step."""

    calls: tuple[ToolCall, ...] = ()
    answers: dict[str, Answer | ToolResult] = field(default_factory=dict)
    """By call id; a result where the call must fail, so that nobody is asked."""
    unanswered: dict[str, tuple[AskedCall, asyncio.Task[None]]] = field(default_factory=dict)
    """Questions without an answer, by call id."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def approval_scope(tool: Tool, arguments: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """Return what an "always" answer covers, as tool, kind and objects: `kind` is that of an `ApprovalNeed`.

    A command covers itself alone. Edits are one thing whichever tool does them, outside the project and in protected
    places those of the same paths.
    """
    name = EDITS if tool.effect is Effect.EDIT else tool.name
    if kind in ("outside", "protected"):
        return (name, kind, *tool.paths(arguments))
    if tool.effect is Effect.EDIT:
        return (name, "edit")
    return (name, "run", str(arguments.get(tool.subject, "")))


def always_text(scope: tuple[str, ...]) -> str:
    """Return what "always" allows for the rest of the session."""
    name, kind, *objects = scope
    if kind == "run":
        return "this exact command"
    return f"{name} of {', '.join(objects)}" if objects else "edits in this project"


def call_detail(tool: Tool, arguments: Mapping[str, Any], cwd: Path) -> str:
    """Return what a person has to see of a call before they answer: the command, the diff, else the arguments."""
    if tool.effect is Effect.RUN:
        return str(arguments.get(tool.subject, ""))
    diff = tool.preview(arguments, cwd) if tool.preview else ""
    return diff or "\n".join(f"{key}: {_value_text(value)}" for key, value in arguments.items())


def _value_text(value: Any) -> str:
    """Return a text as it is, on lines of its own if it has several; anything else as JSON with such texts."""
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    if isinstance(value, Mapping):
        return "".join(f"\n  {key}: {_value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "".join(f"\n- {_value_text(item)}" for item in value)
    return json.dumps(value, ensure_ascii=False)
