"""Questions about the calls of a step: their text, and the scope of an "always".

`permission/permission` decides which calls need approval; `turn/dispatch` asks and applies the answers.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

from nexus_cli.config.command_records import running_guards
from nexus_cli.core.approval import SAY_INSTEAD, Allow, Answer, Deny, Question
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.limits import LEVELS, Limits, name_level
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.services import Jobs
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import EditPreview, Effect, Reads, Tool, ToolContext, find_governing
from nexus_cli.permission.call_decision import Permission
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.permission.permission import OF_JOB, ApprovalNeed
from nexus_cli.permission.run_limits import Refusal
from nexus_cli.tools.files import project_relative
from nexus_cli.tools.registry import discover_tools

DECISION = "decision"
"""Memo with the decision on a call and the person's answer (`reports/decisions.py`). A call without this memo was
granted by the level alone, or could not run."""
SAID_NO = "person"
"""`limit` of a refused call: the person declined it."""
SAID_NOTHING = "unanswered"
"""`limit` of a refused call: the person was asked and did not answer; `why` has the reason."""
BY_RULE = "rule"
"""`limit` of a refused call: a deny rule, which holds at every level."""
GUARDED = "guarded"
"""`limit` of a refused call: a place of credentials; `why` has the rule that opens it."""
TAKEN_BACK = " \N{MIDDLE DOT} /permissions remove "
"""Precedes each name in the notice about what was allowed for the session: the command that removes it."""
CONFIRM = "confirm"
"""`ApprovalNeed.kind` of a call that the level grants, but the run asks about."""
EDITS_HERE = "edits in this project"
"""The scope of an answer for edits, as a question shows it."""
EDITS = "edits"
"""First item of a scope, for every tool that edits."""
RULE = "rule"
"""Second item of a scope whose third is an allow rule."""


@dataclass(slots=True)
class AskedCall:
    """A call that needs the person's approval."""

    question: Question
    tool: Tool
    checked: Mapping[str, Any]
    """Its validated arguments."""
    scope: tuple[str, ...]
    targets: Mapping[str, Path]
    """The real paths that the question is about."""
    before: str | None
    """Digest of the content that the diff in the question starts from, see `ToolContext.before`."""


class ApprovalDeferred(Exception):
    """The person deferred an approval: the turn ends with the call open."""


@dataclass
class ApprovalStep:
    """The questions about the calls of one step."""

    calls: tuple[ToolCall, ...] = ()
    answers: dict[str, Answer | ToolResult] = field(default_factory=dict)
    """By call id; a `ToolResult` for a call that would fail, about which nobody is asked."""
    decided: dict[str, Permission] = field(default_factory=dict)
    """The decision on each call before anybody was asked, by call id."""
    asked: dict[str, AskedCall] = field(default_factory=dict)
    """By call id."""
    unanswered: dict[str, tuple[AskedCall, asyncio.Task[None]]] = field(default_factory=dict)
    """Questions without an answer, by call id."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    worker_declined: str = ""
    """The call of a worker that the person declined in order to stop the work, while a call of this step waited for
    that worker; "" for none."""

    def stop_declined(self, *, is_steered: bool) -> None:
        """Raise `NexusError("denied", ...)` if the person declined a call in order to type, unless it `is_steered`."""
        stopping = (call for call, answer in self.answers.items() if isinstance(answer, Deny) and answer.stops)
        what = self.worker_declined or next((self.asked[call].question.what for call in stopping), "")
        if what and not is_steered:
            raise NexusError("denied", "stopped", f"you declined {what}", SAY_INSTEAD)

    def withdraw_behind(self, edit: str) -> None:
        """Withdraw the questions about calls that do not run because the edit before them was declined."""
        for call_id, (asked, task) in dropwhile(lambda one: one[0] != edit, self.unanswered.items()):
            if asked.tool.needs_edits:
                self.answers.setdefault(call_id, Deny("the edit before it was declined", said=False))
                asyncio.get_running_loop().call_soon(task.cancel)

    def note_change(self, target: Path, before: str, after: str) -> None:
        """Apply later calls on `target` to its new content: another call of the step has changed what the person saw,
        from digest `before` to `after`. Commands that run accept the new content too. Blocks."""
        for asked in self.asked.values():
            if asked.before == before and target in asked.targets.values():
                asked.before = after
        for accept in tuple(running_guards):
            accept(target, before, after)


def as_command(tool: Tool, checked: Mapping[str, Any], services: SessionServices) -> tuple[Tool, Mapping[str, Any]]:
    """Return the call that permission decides on: what is written to a job is a command line, and whether a server of a
    job answers yet is no use of the network."""
    jobs = services.made(Jobs)
    if jobs and tool.reads is Reads.STATE and jobs.owns(str(checked.get(tool.reaches, ""))):
        return tool, {**checked, OF_JOB: True}
    found = jobs.find_command(**checked) if jobs and tool.feeds else None
    runs = find_governing(discover_tools().values(), Effect.RUN)
    return (runs, found) if runs and found else (tool, checked)


def approval_scope(
    tool: Tool, arguments: Mapping[str, Any], kind: str, targets: Mapping[str, Path], profile: str = ""
) -> tuple[str, ...]:
    """Return the scope of an answer for the session that no rule can express: tool, kind and objects.

    `kind` is that of an `ApprovalNeed`. A command covers itself alone, in the same `profile`. Edits by different tools
    share one scope; outside the project and in protected places it covers the same real paths alone.
    """
    name = EDITS if tool.effect is Effect.EDIT else tool.name
    if kind in ("outside", "protected"):
        return (name, kind, *map(str, targets.values()))
    if kind == "network":
        return (name, kind, str(arguments.get(tool.reaches, "")))
    if kind in ("later", "send", "server"):
        return (name, kind)
    if tool.effect is Effect.EDIT:
        return (name, "edit")
    return (name, "run", str(arguments.get(tool.subject, "")), profile)


def session_scopes(asked: AskedCall) -> list[tuple[str, ...]]:
    """Return the scopes of an answer for the session: the rules that "always" would store, else the call's own."""
    rules = asked.question.stores
    return [(rule.partition("(")[0], RULE, rule) for rule in rules] or [asked.scope]


def always_text(scope: tuple[str, ...], project: Path) -> str:
    """Return the scope of an answer for the rest of the session, as the question shows it."""
    name, kind, *objects = scope
    if kind == "run":
        return "this exact command"
    if kind == RULE:
        return objects[0].partition("(")[2].removesuffix(")") or objects[0]
    if kind == "later":
        return f"every `{name}` that starts work for later"
    if kind in ("send", "server"):
        return f"every `{name}`"
    if kind == "network":
        return f"{name} of {objects[0]}"
    paths = (project_relative(Path(path), project) for path in objects)
    return f"{name} of {', '.join(paths)}" if objects else EDITS_HERE


def scope_name(scope: tuple[str, ...], project: Path) -> str:
    """Return the line by which `/permissions` lists and removes a scope."""
    name, kind, *objects = scope
    if kind == RULE:
        return objects[0]
    if kind in ("edit", "later", "send", "server"):
        return name
    if kind == "run":
        return one_line(f"{name}: {objects[0]}")
    return one_line(always_text(scope, project))


def call_detail(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext, limits: Limits
) -> tuple[str, str | None]:
    """Return the body of a question (the command, the diff, else the arguments), and the digest of the content that the
    call changes. For work that runs later the body also has its level and the `limits` in force."""
    if tool.effect is Effect.RUN and not tool.server:
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
    """Make the question about a call with the decision `found`, whose verdict is an `ApprovalNeed`."""
    need = found.verdict
    assert isinstance(need, ApprovalNeed)
    detail, before = await asyncio.to_thread(call_detail, tool, arguments, context, limits)
    scope = approval_scope(tool, arguments, need.kind, context.targets, found.profile)
    parts, more = found.shown_parts()
    question = Question(
        call,
        f"{call.name} {subject}",
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
    """Allow the scopes of an answer for the rest of the session, or store its rules.

    Rules that cannot be stored are allowed for the session. Returns a notice with the scopes and the undo command.
    """
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
    """Remove the scopes with a name of `scope_name`; return False if there is none."""
    wanted = one_line(typed).split()
    found = {scope for scope in always if scope_name(scope, project).split() == wanted}
    always -= found
    return bool(found)


def describe_refusal(why: str, name: str = "") -> str:
    """Return the result of a call that a person, perhaps of a known name, declined: `Declined by Ana: use make`."""
    who = f" by {name}" if name else "" if why else " by the person"
    return f"Declined{who}" + (f": {why}" if why else ".")


def describe_decision(step: ApprovalStep, call: ToolCall, refusal: Refusal | None, level: str) -> dict[str, Any]:
    """Return the decision on a call as it is recorded, {} if the level alone granted it; `refusal` is a limit's."""
    decided = step.decided.get(call.id)
    if decided is not None and not decided.is_plain:
        asked = isinstance(decided.verdict, ApprovalNeed)
        return decided.to_json() | (_describe_answer(step.answers.get(call.id)) if asked else {})
    if refusal is not None:
        return {"decision": "deny", "level": level, "from": f"limit {refusal.limit}", "why": refusal.why}
    return {}


def _describe_answer(answer: Answer | ToolResult | None) -> dict[str, str]:
    """Return the person's answer as it is recorded; {} if nobody was asked."""
    match answer:
        case Allow():
            return {"answer": "always" if answer.stored else "session" if answer.always else "yes"}
        case Deny(why, said, by):
            return {"answer": "no" if said else "none", **({"said": why, "by": by} if why else {})}
    return {}


def _value_text(value: Any) -> str:
    """Format an argument for a person: strings unquoted, each item of an object or list on its own line, else JSON."""
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    if isinstance(value, Mapping):
        return "".join(f"\n  {key}: {_value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "".join(f"\n- {_value_text(item)}" for item in value)
    return json.dumps(value, ensure_ascii=False)
