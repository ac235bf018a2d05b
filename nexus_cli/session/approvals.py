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

from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import EditPreview, Effect, Tool, ToolContext
from nexus_cli.session.call_permission import Permission
from nexus_cli.session.run_limits import Refusal
from nexus_cli.tools.files import project_relative
from nexus_cli.tools.permission import ApprovalNeed

DECISION = "decision"
"""Memo: what was decided on the call of its entry, and the person's answer, see `session/reports/decisions.py`. A call
without one was let through by the level, or could not run."""
SAID_NO = "person"
"""In the place of the limit that refused a call: the person was asked."""
SAID_NOTHING = "unanswered"
"""In the place of a limit: the person was asked and gave no answer; `why` says how that came."""
BY_RULE = "rule"
"""In the place of a limit: a deny rule refused the call, which no level changes."""
ALLOWED = "allowed for this session"
"""The origin of a decision that an "always" of the person made before."""
CONFIRM = "confirm"
"""The kind of an approval that the run wants although the level allows the call."""
EDITS = "edits"
"""In the place of the tool in a scope: `write_file` and `edit_file`."""


@dataclass(slots=True)
class AskedCall:
    """A call that the person is asked about."""

    question: Question
    tool: Tool
    checked: Mapping[str, Any]
    """Its arguments."""
    scope: tuple[str, ...]
    targets: Mapping[str, Path]
    """The real paths that the person was asked about."""
    before: str | None
    """Digest of the content that the person was shown as what it changes, see `ToolContext.before`."""


class ApprovalDeferred(Exception):
    """The person deferred an approval: the turn ends with the call open."""


@dataclass
class ApprovalStep:
    """The questions about the calls of one step."""

    calls: tuple[ToolCall, ...] = ()
    answers: dict[str, Answer | ToolResult] = field(default_factory=dict)
    """By call id; a result where the call must fail, so that nobody is asked."""
    decided: dict[str, Permission] = field(default_factory=dict)
    """What was decided on each call before anybody was asked, by its id."""
    asked: dict[str, AskedCall] = field(default_factory=dict)
    """By call id."""
    unanswered: dict[str, tuple[AskedCall, asyncio.Task[None]]] = field(default_factory=dict)
    """Questions without an answer, by call id."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note_change(self, target: Path, before: str, after: str) -> None:
        """Let calls that the person saw with the content that a call of the step has replaced apply to its outcome."""
        for asked in self.asked.values():
            if asked.before == before and target in asked.targets.values():
                asked.before = after


def approval_scope(
    tool: Tool, arguments: Mapping[str, Any], kind: str, targets: Mapping[str, Path], profile: str = ""
) -> tuple[str, ...]:
    """Return what an "always" answer covers, as tool, kind and objects: `kind` is that of an `ApprovalNeed`.

    A command covers itself alone, in the same `profile`. Edits are one thing whichever tool does them, outside the
    project and in protected places those of the same real paths.
    """
    name = EDITS if tool.effect is Effect.EDIT else tool.name
    if kind in ("outside", "protected"):
        return (name, kind, *map(str, targets.values()))
    if kind == "network":
        return (name, kind, str(arguments.get(tool.reaches, "")))
    if tool.effect is Effect.EDIT:
        return (name, "edit")
    return (name, "run", str(arguments.get(tool.subject, "")), profile)


def always_text(scope: tuple[str, ...], project: Path) -> str:
    """Return what "always" allows for the rest of the session."""
    name, kind, *objects = scope
    if kind == "run":
        return "this exact command"
    if kind == "network":
        return f"{name} of {objects[0]}"
    paths = (project_relative(Path(path), project) for path in objects)
    return f"{name} of {', '.join(paths)}" if objects else "edits in this project"


def call_detail(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, str | None]:
    """Return what a person has to see of a call before they answer (the command, the diff, else the arguments), and
    the digest of what it changes."""
    if tool.effect is Effect.RUN:
        return str(arguments.get(tool.subject, "")), None
    made = tool.preview(arguments, context) if tool.preview else EditPreview()
    shown = made.diff or "\n".join(f"{key}: {_value_text(value)}" for key, value in arguments.items())
    return shown, made.before


async def make_question(
    tool: Tool, call: ToolCall, arguments: Mapping[str, Any], context: ToolContext, found: Permission, subject: str
) -> AskedCall:
    """Return the question about a call that `found` asks about."""
    need = found.verdict
    assert isinstance(need, ApprovalNeed)
    detail, before = await asyncio.to_thread(call_detail, tool, arguments, context)
    scope = approval_scope(tool, arguments, need.kind, context.targets, found.profile)
    parts, more = found.shown_parts()
    question = Question(
        call, f"{tool.name} {subject}", need.why, detail, always_text(scope, context.project), need.kind,
        stores=found.command.prefixes if found.command else (), profile=found.profile, parts=tuple(parts),
        more_parts=more, rule=found.ruling,
    )  # fmt: skip
    return AskedCall(question, tool, arguments, scope, context.targets, before)


def describe_decision(step: ApprovalStep, call: ToolCall, refusal: Refusal | None, level: str) -> dict[str, Any]:
    """Return what is recorded of the decision on a call, nothing where the level let it through; `refusal` is that of a
    limit."""
    decided = step.decided.get(call.id)
    if decided is not None and not decided.is_plain:
        asked = isinstance(decided.verdict, ApprovalNeed)
        return decided.to_json() | (_describe_answer(step.answers.get(call.id)) if asked else {})
    if refusal is not None:
        return {"decision": "deny", "level": level, "from": f"limit {refusal.limit}", "why": refusal.why}
    return {}


def _describe_answer(answer: Answer | ToolResult | None) -> dict[str, str]:
    """Return what is recorded of the person's answer; nothing where nobody was asked."""
    match answer:
        case Allow():
            return {"answer": "always" if answer.stored else "session" if answer.always else "yes"}
        case Deny(why, said, by):
            who = {"by": by} if by != "person" else {}
            return {"answer": "no" if said else "none", **({"said": why, **who} if why else {})}
    return {}


def _value_text(value: Any) -> str:
    """Return a text as it is, on lines of its own if it has several; anything else as JSON with such texts."""
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    if isinstance(value, Mapping):
        return "".join(f"\n  {key}: {_value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "".join(f"\n- {_value_text(item)}" for item in value)
    return json.dumps(value, ensure_ascii=False)
