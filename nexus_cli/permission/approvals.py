"""The text of a question about a call, and the scope of an "always".

`permission/permission` decides which calls need approval; `engine/calls/call_decider` asks and applies the answers.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nexus_cli.core.approval import CHANGES, DEFINITION, Allow, Answer, Question
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ASK, Limits
from nexus_cli.core.services import Jobs
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import EditPreview, Effect, Reads, Tool, ToolContext, find_governing
from nexus_cli.permission.call_decision import CallDecision, CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.permission.permission import OF_JOB
from nexus_cli.permission.tool_pins import pin_tools
from nexus_cli.tools.files import project_relative
from nexus_cli.tools.registry import discover_tools

EDIT_SCOPE = "edits in this project"
"""The scope of an answer for edits, as a question shows it."""
EDITS = "edits"
"""First item of a scope, for every tool that edits."""
_CALLS = {
    "later": " call that starts later work",
    "send": "",
    "server": "",
    DEFINITION: ", even if its server changes its definition",
}
"""What an answer for the session covers of the calls of a tool, by `CallDecision.kind`."""
RULE = "rule"
"""Second item of a scope whose third is an allow rule."""


class ApprovalDeferred(Exception):
    """The person deferred an approval: the turn ends with the call open."""


@dataclass(slots=True)
class CallQuestion:
    """A question to the person about a call."""

    question: Question
    decision: CallDecision
    """The decision that asks, on the command line if the call writes to a job; with the answer once there is one."""
    withdrawn: Answer | None = None
    """Why nobody has to answer any more, for front ends."""
    task: asyncio.Task[None] | None = None
    """Waits for the answer; None unless the question is open."""

    def withdraw(self, why: Answer) -> None:
        """Ask no longer, if the question is open."""
        if self.task is not None:
            # Deferred: a task that is cancelled before its first step would emit no answer.
            asyncio.get_running_loop().call_soon(self.task.cancel)
            self.withdrawn, self.task = why, None


def as_command(checked: CheckedCall, services: SessionServices) -> CheckedCall:
    """Return the call that permission decides on: what is written to a job is a command line, and whether a server of a
    job answers yet is no use of the network."""
    tool, arguments, jobs = checked.tool, checked.arguments, services.get_existing(Jobs)
    if jobs is None:
        return checked
    if tool.reads is Reads.STATE and jobs.owns(str(arguments.get(tool.reaches, ""))):
        return replace(checked, arguments={**arguments, OF_JOB: True})
    command = jobs.find_command(**arguments) if tool.feeds else None
    runs = find_governing(discover_tools().values(), Effect.RUN)
    return replace(checked, tool=runs, arguments=command) if runs and command else checked


def approval_scope(decision: CallDecision) -> tuple[str, ...]:
    """Return the scope of an answer for the session that no rule can express: tool, kind and objects.

    A command covers itself alone, in the same profile. Edits by different tools share one scope; outside the project
    and in protected places it covers the same real paths alone.
    """
    tool, arguments, kind = decision.checked.tool, decision.checked.arguments, decision.kind
    name = EDITS if tool.effect is Effect.EDIT else tool.name
    if kind in ("outside", "protected"):
        return (name, kind, *map(str, decision.checked.targets.values()))
    if kind == "network":
        return (name, kind, str(arguments.get(tool.reaches, "")))
    if kind in _CALLS:
        return (name, kind)
    return (name, "edit") if name == EDITS else (name, "run", str(arguments.get(tool.subject, "")), decision.profile)


def session_scopes(decision: CallDecision) -> list[tuple[str, ...]]:
    """Return the scopes of an answer for the session: the rules that "always" would store, else the call's own.

    A tool whose definition changes again and again is allowed whatever its server says of it.
    """
    rules = () if decision.change and decision.change.is_unsteady else decision.offers
    return [(rule.partition("(")[0], RULE, rule) for rule in rules] or [approval_scope(decision)]


def always_text(scope: tuple[str, ...], project: Path) -> str:
    """Return the scope of an answer for the rest of the session, as the question shows it."""
    name, kind, *objects = scope
    if kind == "run":
        return "this exact command"
    if kind == RULE:
        return objects[0].partition("(")[2].removesuffix(")") or objects[0]
    if kind in _CALLS:
        return f"every `{name}`{_CALLS[kind]}"
    names = [subject if kind == "network" else project_relative(Path(subject), project) for subject in objects]
    return f"{name} of {', '.join(names)}" if names else EDIT_SCOPE


def scope_name(scope: tuple[str, ...], project: Path) -> str:
    """Return the line by which `/permissions` lists and removes a scope."""
    name, kind, *objects = scope
    if kind == RULE:
        return objects[0]
    if not objects:
        return name
    if kind == "run":
        return one_line(f"{name}: {objects[0]}")
    return one_line(always_text(scope, project))


def call_detail(tool: Tool, arguments: JsonObject, context: ToolContext, limits: Limits) -> tuple[str, str | None]:
    """Return the body of a question (the command, the diff, else the arguments), and the digest of the content that the
    call changes. For work that runs later the body also has its level and the `limits` in force."""
    if tool.effect is Effect.RUN and not tool.server:
        return str(arguments.get(tool.subject, "")), None
    preview = tool.preview(arguments, context) if tool.preview else EditPreview()
    if preview.diff:
        return preview.diff, preview.before
    lines = [f"{key}: {_value_text(value)}" for key, value in arguments.items()]
    if tool.works_later(arguments):
        limit_values = {name: value for name, value in limits.to_json().items() if name not in ("allow", "level")}
        lines += [f"level: {limits.allow or ASK}"]
        lines += [f"your limits: {_value_text(limit_values) if limit_values else 'none'}"]
    return "\n".join(lines), preview.before


async def make_question(
    decision: CallDecision, label: str, context: ToolContext, limits: Limits, uncovered: str
) -> CallQuestion:
    """Make the question about a call that `decision` asks about: `label` is the call on one line, `uncovered` what undo
    would not cover of it."""
    checked = decision.checked
    detail, before = await asyncio.to_thread(call_detail, checked.tool, checked.arguments, context, limits)
    if decision.change:
        detail = f"{detail}\n\n{CHANGES}\n{decision.change.diff}".lstrip()
    parts, other_parts = decision.shown_parts()
    doubts = decision.command.doubts if decision.command else ()
    question = Question(
        checked.call,
        label,
        decision.why,
        detail,
        ", ".join(always_text(scope, context.project) for scope in session_scopes(decision)),
        decision.kind,
        stores=decision.offers,
        profile=decision.profile,
        parts=tuple(parts),
        more_parts=other_parts,
        doubts=(uncovered, *doubts) if uncovered else doubts,
        rule=decision.ruling,
    )
    return CallQuestion(question, replace(decision, before=before))


async def accept_definition(decision: CallDecision, answer: Allow) -> Notice | None:
    """Keep the definition that the person has allowed: a changed one, or that of a tool which is allowed from now on.
    Returns a notice if it cannot be kept."""
    is_any = bool(decision.change and decision.change.is_unsteady and answer.stored)
    if decision.change or answer.always:
        try:
            await asyncio.to_thread(pin_tools, [decision.checked.tool], replaces=True, any_words=is_any)
        except NexusError as error:
            return Notice(f"The definition of {decision.checked.tool.name} was not stored: {error}")
    return None


async def allow_from_now(
    decision: CallDecision, answer: Allow, always: set[tuple[str, ...]], permission: CallPermission, project: Path
) -> Notice:
    """Allow the scopes of an answer for the rest of the session, or store its rules.

    Rules that cannot be stored are allowed for the session. Returns a notice with the scopes and the undo commands.
    """
    rules, failed = decision.offers if answer.stored else (), ""
    try:
        if rules:
            await asyncio.to_thread(permission.store_rules, rules)
            undo = " \N{MIDDLE DOT} ".join(f"nexus rules remove {shlex.quote(rule)}" for rule in rules)
            return Notice(f"Allowed in this project from now on: {', '.join(rules)}", warning=False, undo=undo)
    except (NexusError, OSError) as error:
        failed = f" only (the rule could not be stored: {error})"
    scopes = session_scopes(decision)
    always.update(scopes)
    names = [scope_name(scope, project) for scope in scopes]
    undo = " \N{MIDDLE DOT} ".join(f"/permissions remove {name}" for name in names)
    return Notice(f"Allowed for this session{failed}: {', '.join(names)}", warning=bool(failed), undo=undo)


def remove_allowance(always: set[tuple[str, ...]], typed: str, project: Path) -> bool:
    """Remove the scopes with a name of `scope_name`; return False if there is none."""
    typed_words = one_line(typed).split()
    removed = {scope for scope in always if scope_name(scope, project).split() == typed_words}
    always -= removed
    return bool(removed)


def describe_refusal(why: str, name: str) -> str:
    """Return the result of a call that a person, perhaps of a known name, declined: `Declined by Ana: use make`."""
    who = f" by {name}" if name else "" if why else " by the person"
    return f"Declined{who}" + (f": {why}" if why else ".")


def _value_text(value: Any) -> str:
    """Format an argument for a person: strings unquoted, each item of an object or list on its own line, else JSON."""
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    if isinstance(value, Mapping):
        return "".join(f"\n  {key}: {_value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "".join(f"\n- {_value_text(item)}" for item in value)
    return json.dumps(value, ensure_ascii=False)
