"""Questions about the calls of a step: what a person sees of a call, and what "always" covers.

Whether a call needs approval is decided by `permission/permission`; asking, and what an answer leads to, is `dispatch`.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nexus_cli.core.approval import SAY_INSTEAD, Allow, Answer, Deny, Question
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.limits import LEVELS, Limits, name_level
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import EditPreview, Effect, Tool, ToolContext
from nexus_cli.permission.call_permission import CallPermission, Permission
from nexus_cli.permission.permission import ApprovalNeed
from nexus_cli.permission.run_limits import Refusal
from nexus_cli.tools.files import project_relative

DECISION = "decision"
"""Memo: what was decided on the call of its entry, and the person's answer, see `reports/decisions.py`. A call
without one was let through by the level, or could not run."""
SAID_NO = "person"
"""In the place of the limit that refused a call: the person was asked."""
SAID_NOTHING = "unanswered"
"""In the place of a limit: the person was asked and gave no answer; `why` says how that came."""
BY_RULE = "rule"
"""In the place of a limit: a deny rule refused the call, which no level changes."""
TAKEN_BACK = " \N{MIDDLE DOT} /permissions remove "
"""Stands before the name of what was allowed for the session, in the line that tells so."""
CONFIRM = "confirm"
"""The kind of an approval that the run wants although the level allows the call."""
DECLINED = "Declined by the person."
"""The result of a call that was declined without words."""
EDITS = "edits"
"""In the place of the tool in a scope: every tool that edits."""
RULE = "rule"
"""In the place of the kind in a scope: what follows is an allow rule."""


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
    worker_declined: str = ""
    """What the person declined of a worker that a call of the step waited for, to stop the work; "" for nothing."""

    def stop_declined(self, *, is_steered: bool) -> None:
        """Raise `NexusError("denied", ...)` where the person declined a call to say something before the model goes
        on; not if they have said it already (`is_steered`)."""
        stopping = (call for call, answer in self.answers.items() if isinstance(answer, Deny) and answer.stops)
        what = self.worker_declined or next((self.asked[call].question.what for call in stopping), "")
        if what and not is_steered:
            raise NexusError("denied", "stopped", f"you declined {what}", SAY_INSTEAD)

    def note_change(self, target: Path, before: str, after: str) -> None:
        """Let calls that the person saw with the content that a call of the step has replaced apply to its outcome."""
        for asked in self.asked.values():
            if asked.before == before and target in asked.targets.values():
                asked.before = after


def approval_scope(
    tool: Tool, arguments: Mapping[str, Any], kind: str, targets: Mapping[str, Path], profile: str = ""
) -> tuple[str, ...]:
    """Return what an answer for the session covers where no rule can say it, as tool, kind and objects: `kind` is that
    of an `ApprovalNeed`.

    A command covers itself alone, in the same `profile`. Edits are one thing whichever tool does them, outside the
    project and in protected places those of the same real paths.
    """
    name = EDITS if tool.effect is Effect.EDIT else tool.name
    if kind in ("outside", "protected"):
        return (name, kind, *map(str, targets.values()))
    if kind == "network":
        return (name, kind, str(arguments.get(tool.reaches, "")))
    if kind in ("later", "send"):
        return (name, kind)
    if tool.effect is Effect.EDIT:
        return (name, "edit")
    return (name, "run", str(arguments.get(tool.subject, "")), profile)


def session_scopes(asked: AskedCall) -> list[tuple[str, ...]]:
    """Return what an answer for the session covers: the rules that "always" would store, where there are some."""
    rules = asked.question.stores
    return [(rule.partition("(")[0], RULE, rule) for rule in rules] or [asked.scope]


def always_text(scope: tuple[str, ...], project: Path) -> str:
    """Return what an answer for the rest of the session covers, as the question shows it."""
    name, kind, *objects = scope
    if kind == "run":
        return "this exact command"
    if kind == RULE:
        return objects[0].partition("(")[2].removesuffix(")") or objects[0]
    if kind == "later":
        return f"every `{name}` that starts work for later"
    if kind == "send":
        return f"every `{name}`"
    if kind == "network":
        return f"{name} of {objects[0]}"
    paths = (project_relative(Path(path), project) for path in objects)
    return f"{name} of {', '.join(paths)}" if objects else "edits in this project"


def scope_name(scope: tuple[str, ...], project: Path) -> str:
    """Return the one line by which `/permissions` lists what was allowed for the session, and removes it."""
    name, kind, *objects = scope
    if kind == RULE:
        return objects[0]
    if kind in ("edit", "later", "send"):
        return name
    if kind == "run":
        return one_line(f"{name}: {objects[0]}")
    return one_line(always_text(scope, project))


def call_detail(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext, limits: Limits
) -> tuple[str, str | None]:
    """Return what a person has to see of a call before they answer (the command, the diff, else the arguments), and
    the digest of what it changes. Of work for later that is also its level and the `limits` in force."""
    if tool.effect is Effect.RUN:
        return str(arguments.get(tool.subject, "")), None
    made = tool.preview(arguments, context) if tool.preview else EditPreview()
    if made.diff:
        return made.diff, made.before
    lines = [f"{key}: {_value_text(value)}" for key, value in arguments.items()]
    if tool.works_later(arguments):
        rest = {name: value for name, value in limits.to_json().items() if name != "allow"}
        lines += [f"level: {name_level(limits.allow or LEVELS[0])}"]
        lines += [f"your limits: {_value_text(rest) if rest else 'none'}"]
    return "\n".join(lines), made.before


async def make_question(
    tool: Tool,
    call: ToolCall,
    arguments: Mapping[str, Any],
    context: ToolContext,
    found: Permission,
    subject: str,
    limits: Limits,
) -> AskedCall:
    """Return the question about a call that `found` asks about, under `limits`."""
    need = found.verdict
    assert isinstance(need, ApprovalNeed)
    detail, before = await asyncio.to_thread(call_detail, tool, arguments, context, limits)
    scope = approval_scope(tool, arguments, need.kind, context.targets, found.profile)
    parts, more = found.shown_parts()
    question = Question(
        call,
        f"{tool.name} {subject}",
        need.why,
        detail,
        "",
        need.kind,
        stores=found.offers,
        profile=found.profile,
        parts=tuple(parts),
        more_parts=more,
        doubts=found.command.doubts if found.command else (),
        rule=found.ruling,
    )
    asked = AskedCall(question, tool, arguments, scope, context.targets, before)
    covers = ", ".join(always_text(one, context.project) for one in session_scopes(asked))
    return replace(asked, question=replace(question, always=covers))


async def allow_from_now(
    asked: AskedCall, answer: Allow, always: set[tuple[str, ...]], permission: CallPermission, project: Path
) -> Notice:
    """Allow what an answer covers for the rest of the session, or store its rules; return what the person is told: what
    it covers, and how it is taken back. What cannot be stored holds for the session."""
    rules, failed = asked.question.stores if answer.stored else (), ""
    try:
        if rules:
            await asyncio.to_thread(permission.store_rules, rules)
            undo = " \N{MIDDLE DOT} ".join(f"nexus rules remove {shlex.quote(rule)}" for rule in rules)
            told = f"Allowed in this project from now on: {', '.join(rules)} \N{MIDDLE DOT} {undo}"
            return Notice(told, warning=False)
    except (NexusError, OSError) as error:
        failed = f" only, the rule was not stored ({error})"
    scopes = session_scopes(asked)
    always.update(scopes)
    names = [scope_name(one, project) for one in scopes]
    undo = "".join(TAKEN_BACK + name for name in names)
    return Notice(f"Allowed for this session{failed}: {', '.join(names)}{undo}", warning=bool(failed))


def remove_allowance(always: set[tuple[str, ...]], typed: str, project: Path) -> bool:
    """Take back what was allowed for the session by the name that `scope_name` gives it; False if nothing has it."""
    wanted = one_line(typed).split()
    found = {scope for scope in always if scope_name(scope, project).split() == wanted}
    always -= found
    return bool(found)


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
            return {"answer": "no" if said else "none", **({"said": why, "by": by} if why else {})}
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
