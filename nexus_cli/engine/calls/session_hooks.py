"""Run the hooks of a session at its events, and apply what they answer (`nexus docs hooks`).

A project's hook can refuse a call, have the person asked, or add text; only a personal one can allow a call or change
its input. Each run is a memo of the conversation (`HOOK`) for the timeline.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.project_items import trusted_variables
from nexus_cli.context.manager import ContextManager
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.limits import ALL, AUTO, EDIT, PLAN
from nexus_cli.core.memo_kinds import HOOK
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.engine.calls.hooked_files import describe_changes, read_files
from nexus_cli.engine.requests.control import Control
from nexus_cli.guides.skills import Skill
from nexus_cli.hooks.claude_lines import claude_lines
from nexus_cli.hooks.hook_input import FAILED_EVENT, MAX_RESPONSE, HookedCall, describe_batch, encode_event
from nexus_cli.hooks.hook_list import ACTIVE, CALL_EVENTS, CHANGED, Hook, list_hooks, read_stamp
from nexus_cli.hooks.run_hook import BLOCKED, FAILED, HookRun, run_hook
from nexus_cli.permission.call_decision import CONFIRM, CallDecision, CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.rules.claude_rules import GENERAL
from nexus_cli.text.untrusted_text import neutralize
from nexus_cli.tools.cancellable_thread import run_in_thread
from nexus_cli.tools.foreign_calls import foreign_names
from nexus_cli.tools.schema import check_arguments

MAX_CHARACTERS = 10_000
"""Most characters of the text that one hook adds; the rest is a drop."""
MAX_REASON = 400
"""Most characters of the reason of a hook that a person is shown."""
MAX_ROUNDS = 3
"""Most times that `Stop` hooks let one turn go on."""
LAST_SECONDS = 5.0
"""Most seconds that a `SessionEnd` hook may delay the end."""
EXPANSION, BATCH = "UserPromptExpansion", "PostToolBatch"
WORKER_EVENTS = (*CALL_EVENTS, BATCH, "SubagentStart", "SubagentStop")
"""The events of a worker's session; the others belong to the person's."""
WAITS: Mapping[str, tuple[float, str]] = {
    "permission_prompt": (6.0, "needs your permission"),
    "idle_prompt": (60.0, "is waiting for your input"),
}
"""Kinds of `Notification`: the seconds without an answer or a message, as Claude has them, and what it says then."""
SOURCES = {"personal": "userSettings", "project": "projectSettings", "plugin": "plugin"}
"""`command_source` of a guide by its origin, in the words of Claude."""
MODES = {EDIT: "acceptEdits", AUTO: "acceptEdits", ALL: "bypassPermissions", PLAN: PLAN}
"""`permission_mode` by level, in the words of Claude and codex."""
EDIT_NAMES = ("Edit", "Write", "MultiEdit", "apply_patch")
"""Names of tools that edit, in matchers: each stands for all of ours that edit."""
UNLIFTABLE_APPROVALS = (CONFIRM, "protected")
"""Kinds of approval that no hook gives: they are limits, or protect what other programs obey."""
SHORT = 120


@dataclass(frozen=True, slots=True)
class _CallRuling:
    """The decision of the hooks on one call."""

    arguments: JsonObject
    """Those of the call, as hooks changed them."""
    decision: str = ""
    reason: str = ""
    by: Hook | None = None


@dataclass
class SessionHooks:
    """The hooks of one session."""

    personal: Sequence[HookTable]
    permission: CallPermission
    cwd: Path
    session: str
    level: Callable[[], str]
    context: ContextManager
    control: Control
    is_worker: bool = False
    hooks: Sequence[Hook] | None = None
    """All hooks, read again when a file that names them, or trust, has changed; None before the first turn."""
    sections: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The `text` that hooks added last, and its `source`, by event."""
    _stamp: Sequence[tuple[int, ...]] = ()
    """The state of these files when they were read."""
    _rulings: dict[tuple[str, str], asyncio.Future[_CallRuling]] = field(default_factory=dict)
    """By event and call id, of the newest turn."""
    _added: dict[str, list[str]] = field(default_factory=dict)
    """Texts for the result of a call, by its id."""
    _ran: dict[str, HookedCall] = field(default_factory=dict)
    """The calls of the turn whose step has not ended, by id."""
    _shown_lines: set[str] = field(default_factory=set)
    _stopped: str | None = None
    """Why the turn has to end, once a hook has said so."""
    _rounds: int = 0
    _is_started: bool = False
    _prompt: str = ""
    """The id of the turn's prompt, for hooks."""
    _start_source: str = "startup"
    """Source of the start of a session that is not resumed."""
    _parent: SessionHooks | None = None
    """The hooks of the session that a worker works for."""
    _agent: Mapping[str, str] = field(default_factory=dict)
    """The id of a worker, and its role."""
    _asides: set[asyncio.Task[Any]] = field(default_factory=set)
    """The runs of hooks that nothing waits for."""
    _idle: asyncio.TimerHandle | None = None
    """Set from the end of a turn until the person is notified, or writes."""
    _async_texts: list[str] = field(default_factory=list)
    """Texts of asynchronous hooks, for the next result of a call."""

    def work_for(self, parent: SessionHooks, worker: str, role: str) -> None:
        """Name the worker of `parent` whose hooks these are, as Claude names an agent to its hooks."""
        self._parent, self._agent = parent, {"agent_id": worker, "agent_type": role or GENERAL}
        self._prompt, self._shown_lines = parent._prompt, parent._shown_lines

    # -- events of the session ---------------------------------------------------------------------------------

    async def begin_turn(self, prompt: str, *, is_resumed: bool) -> None:
        """Run the hooks of a session's start, once, and those of the prompt. Raises `NexusError("denied", ...)` if one
        refuses the prompt."""
        self._rounds, self._stopped, self.hooks = 0, None, None  # also a script may have changed
        self._end_idle()
        self._rulings.clear()
        self._added.clear()
        self._ran.clear()
        self._add_section(EXPANSION, ())
        for line in self._describe_broken(await self._load()):
            self._notify_once(line)
        if not self._is_started:
            self._is_started = True
            if not self.is_worker:  # which has those of its session
                theirs = await asyncio.to_thread(trusted_variables, self.cwd)
                self.permission.variables |= {name: (value, False) for name, value in theirs.items()}
            source = "resume" if is_resumed else self._start_source
            names, fields = ([self._role], {}) if self.is_worker else ([source], {"source": source})
            event = "SubagentStart" if self.is_worker else "SessionStart"
            runs = await self._fire(event, names, fields)
            for run in sorted(runs, key=lambda hook_run: hook_run.hook.is_personal):  # the person's own value counts
                is_personal = run.hook.is_personal
                self.permission.variables |= {name: (value, is_personal) for name, value in run.variables.items()}
            self._add_section(event, runs)
            self._check_stopped()
        self._prompt = self._prompt if self.is_worker else str(uuid.uuid4())
        if prompt and (why := await self._refuse_prompt(prompt)):
            raise _not_sent(why)
        self._check_stopped()

    async def admit_steering(self) -> None:
        """Run the hooks of a prompt for the messages to the running turn; withdraw those that one refuses."""
        admitted: list[Trigger] = []
        while waiting := [
            words for words in self.control.steering if not any(words is seen_trigger for seen_trigger in admitted)
        ]:
            trigger = waiting[0]
            admitted.append(trigger)
            if trigger.actor == "person" and (why := await self._refuse_prompt(trigger.text)):
                with suppress(ValueError):  # the person has taken it back meanwhile
                    self.control.steering.remove(trigger)
                self._notify(f"your message was not sent: {why}")
        self._check_stopped()

    async def before_expansion(self, called: Sequence[tuple[str, Skill, str]], prompt: str) -> None:
        """Run the hooks of the guides that a message calls, each with the name that the message has and its arguments.
        Raises `NexusError("denied", ...)` if one refuses."""
        runs = list[HookRun]()
        for name, guide, arguments in called:
            fields = {"expansion_type": "slash_command", "command_name": name, "command_args": arguments}
            fields |= {"command_source": SOURCES[guide.origin], "prompt": prompt}
            runs += await self._fire(EXPANSION, [name, guide.name, guide.whole_name], fields)
        if why := self._find_refusal(runs):
            raise _not_sent(why)
        self._add_section(EXPANSION, runs)
        self._check_stopped()

    async def _refuse_prompt(self, prompt: str) -> str:
        """Run the hooks of a prompt; return why one refuses it, "" if none does."""
        runs = await self._fire("UserPromptSubmit", [], {"prompt": prompt})
        if not (why := self._find_refusal(runs)):
            self._add_section("UserPromptSubmit", runs)
        return why

    def _find_refusal(self, runs: Sequence[HookRun]) -> str:
        """Return a line about the first hook that refuses, "" if none does."""
        refusal = next((run for run in runs if run.denies), None)
        if refusal is None:
            return ""
        return one_line(f"{refusal.hook.label}: {self._clean(refusal.reason)}")

    async def next_message(self) -> str:
        """Run the hooks of the end of a turn; return the message with which one lets it go on, "" if it ends."""
        reply = self.context.conversation.items[-1].message.content
        fields: JsonDict = {"stop_hook_active": self._rounds > 0}
        event = "SubagentStop" if self.is_worker else "Stop"
        if self.is_worker and any(hook.table.event == event for hook in await self._load()):
            fields |= {"agent_transcript_path": await self._transcript(write=True)}
        fields |= {"last_assistant_message": reply[:MAX_RESPONSE], "background_tasks": [], "session_crons": []}
        names = [self._role] if self.is_worker else []
        runs = await self._fire(event, names, fields)
        if self._stopped is not None:  # the turn ends anyway
            self._stopped = None
            return ""
        blocking = [run for run in runs if run.outcome == BLOCKED]
        if not blocking:
            return ""
        if self._rounds >= MAX_ROUNDS:
            self._notify(f"hooks continued the turn {MAX_ROUNDS} times (the maximum); the turn ends")
            return ""
        self._rounds += 1
        for run in blocking:
            why = cut_at_word(one_line(self._clean(run.reason)), MAX_REASON)
            self._notify(f"{run.hook.label} continues the turn: {why}", warning=False)
        return "\n".join(self._format_text(run, run.reason) for run in blocking)

    async def before_compaction(self, is_manual: bool, instructions: str) -> None:
        """Run the hooks of a compaction. Raises `NexusError("denied", ...)` if one refuses it."""
        kind = "manual" if is_manual else "auto"
        runs = await self._fire("PreCompact", [kind], {"trigger": kind, "custom_instructions": instructions or None})
        if why := self._find_refusal(runs):
            raise NexusError("denied", "not compacted", why)

    async def end(self, reason: str = "other") -> None:
        """Run the hooks of the session's end, each for at most `LAST_SECONDS`. `reason` is `clear` or `resume` if
        another session follows, else `other`."""
        self._end_idle()
        if self._is_started:
            self._is_started = False
            await self._fire("SessionEnd", [reason], {"reason": reason}, most=LAST_SECONDS)
        for task in self._asides:  # what nothing waits for ends with the session
            task.cancel()
        await asyncio.gather(*self._asides, return_exceptions=True)

    def end_turn(self) -> None:
        """Notify the person later, unless they write before."""
        if not self.is_worker:
            self._idle = self._notify_later("idle_prompt")

    def _end_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    @contextmanager
    def notify_unanswered(self) -> Iterator[None]:
        """Notify the person of a question that they do not answer soon."""
        due = (self._parent or self)._notify_later("permission_prompt")
        try:
            yield
        finally:
            due.cancel()

    def _notify_later(self, kind: str) -> asyncio.TimerHandle:
        seconds, says = WAITS[kind]

        def describe(hook: Hook) -> list[JsonDict]:
            message = f"{'Claude' if hook.is_foreign else 'nexus'} {says}"
            return [{"message": message, "notification_type": kind}]

        def notify() -> None:
            self._start_in_background(self._fire("Notification", [kind], describe))

        return asyncio.get_running_loop().call_later(seconds, notify)

    def continue_from(self, earlier: SessionHooks, *, is_same: bool) -> None:
        """Go on after `earlier`, the hooks of the previous session of this process: of the same session, with another
        model or effort, or of another one."""
        self._shown_lines |= earlier._shown_lines
        earlier._end_idle()
        if is_same:
            self._is_started, earlier._is_started = earlier._is_started, False
        else:
            self._start_source = "clear"

    @property
    def _role(self) -> str:
        return self._agent.get("agent_type", GENERAL)

    # -- events of calls ---------------------------------------------------------------------------------------

    async def end_step(self, calls: Sequence[ToolCall]) -> list[str]:
        """Run the hooks after the calls of a step; return what they add. Raises `NexusError("denied", ...)` if a hook
        ended the turn."""
        ran = [self._ran.pop(call.id) for call in calls if call.id in self._ran]
        runs = await self._fire(BATCH, [], partial(describe_batch, ran)) if ran else []
        if refusal := next((run for run in runs if run.denies), None):
            self._stop(refusal.hook, refusal.reason)
        self._check_stopped()
        return [self._line(run, run.answer.context) for run in runs if run.answer.context]

    async def before_call(self, checked: CheckedCall, event: str = "PreToolUse") -> JsonObject:
        """Run the hooks of an event before a call, once; return its arguments, as a personal hook may have changed
        them."""
        key = (event, checked.call.id)
        if key not in self._rulings:
            self._rulings[key] = asyncio.ensure_future(self._judge(event, checked))
        return (await self._rulings[key]).arguments

    async def before_question(self, decision: CallDecision) -> CallDecision:
        """Run the hooks before the person is asked about a call, once; return the decision with their answers, which
        `CallDecider._decide` could not apply before they were there."""
        if decision.asks and decision.kind not in UNLIFTABLE_APPROVALS:
            await self.before_call(decision.checked, "PermissionRequest")
        return self.adjust(decision)

    def adjust(self, decision: CallDecision) -> CallDecision:
        """Return the decision on a call as the hooks that ran for it change it."""
        for event in ("PreToolUse", "PermissionRequest"):
            ruling = self._rulings.get((event, decision.checked.call.id))
            if ruling is not None and ruling.done() and not ruling.cancelled() and ruling.exception() is None:
                decision = self._apply(ruling.result(), decision)
        return decision

    def _apply(self, ruling: _CallRuling, decision: CallDecision) -> CallDecision:
        hook = ruling.by
        if hook is None or decision.is_denied:
            return decision
        ruled = replace(decision, rule=f"hook {hook.name}", origin=hook.source)
        reason = f": {ruling.reason}" if ruling.reason else ""
        if ruling.decision == "deny":
            return replace(ruled, verdict="deny", why=f"{hook.label}{reason}")
        if ruling.decision == "ask" and decision.is_granted:
            return replace(ruled, verdict="ask", why=f"hook {hook.name} asks for your decision{reason}", kind=CONFIRM)
        is_askable = decision.asks and decision.kind not in UNLIFTABLE_APPROVALS and not decision.rule
        return replace(ruled, verdict="allow") if ruling.decision == "allow" and is_askable else decision

    async def run_call(
        self, checked: CheckedCall, context: ToolContext, work: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run a call by `work`, and the hooks after it if it ran. Its result gets what they say, and what they change
        in the files of an edit."""
        hooked = HookedCall(checked.call.id, checked.tool, checked.arguments, checked.targets)
        result = await hooked.run(work)
        if not result.ran or result.stopped or result.waits is not None:
            return result
        self._ran[checked.call.id] = hooked
        is_edit = bool(result.changed) and checked.tool.effect is Effect.EDIT
        hooks = await self._load() if is_edit else ()
        is_told = any([await self._matches(hook, "PostToolUse", (), hooked) for hook in hooks])
        before = await asyncio.to_thread(read_files, context.targets.values()) if is_told else {}
        runs = await self._fire_call("PostToolUse", hooked)
        if hooked.has_failed:
            runs += await self._fire_call(FAILED_EVENT, hooked)
        for run in runs:
            if run.outcome == BLOCKED:
                self._add_words(checked.call, run, run.reason)
                self._quote(run, run.reason, MAX_REASON)
            self._add_words(checked.call, run, run.answer.context)
        if before and runs:
            after = await asyncio.to_thread(read_files, before)
            lines = await asyncio.to_thread(list, describe_changes(before, after, context))
            self._added.setdefault(checked.call.id, []).extend(lines)
        return result

    def add_words(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result with what hooks added to it."""
        lines, self._async_texts = [*self._added.pop(call.id, []), *self._async_texts], []
        return result.with_line("\n".join(lines)) if lines else result

    async def _judge(self, event: str, checked: CheckedCall) -> _CallRuling:
        """Run the hooks before a call or a question and combine their answers: deny before ask before allow."""
        call, tool, arguments = checked.call, checked.tool, checked.arguments
        hooked = HookedCall(call.id, tool, arguments, checked.targets)
        runs = await self._fire_call(event, hooked)
        for run in runs:
            self._add_words(call, run, run.answer.context)
            updated = run.answer.updated if event == "PreToolUse" else None
            if updated is not None:
                problem, arguments = _update(tool, arguments, updated, hooked.own_arguments())
                if problem:
                    reason = f"it returned an invalid tool input: {problem}"
                    return _CallRuling(arguments, "deny", reason, run.hook)
                excerpt = cut_at_word(one_line(json.dumps(dict(arguments), ensure_ascii=False)), SHORT)
                self._add_words(call, run, f"the input of this call was changed to {excerpt}")
        for decision in ("deny", "ask", "allow"):
            for run in runs:
                if (run.denies and decision == "deny") or run.answer.decision == decision:
                    return _CallRuling(arguments, decision, self._clean(run.reason), run.hook)
        return _CallRuling(arguments)

    async def _fire_call(self, event: str, call: HookedCall) -> list[HookRun]:
        """Run the hooks of an event of a call."""
        return await self._fire(event, [], partial(call.fields, event), call=call)

    async def _matches(self, hook: Hook, event: str, names: Sequence[str], call: HookedCall | None) -> bool:
        """Return True if a hook runs at `event`, for the call if it is one of a call."""
        if hook.state not in (ACTIVE, CHANGED) or hook.table.event != event:
            return False
        if call is None:
            return not names or hook.matches(names)
        if event == "PostToolUse" and call.has_failed and not hook.is_codex:
            return False
        if not hook.matches(_names(call.tool, is_foreign=hook.is_foreign)):
            return False
        checked = CheckedCall(call.tool, call.checked, call.targets)
        return not hook.condition or await asyncio.to_thread(self.permission.names_call, hook.rules, checked)

    # -- all events --------------------------------------------------------------------------------------------

    async def _fire(
        self,
        event: str,
        names: Sequence[str],
        fields: JsonObject | Callable[[Hook], list[JsonDict]],
        *,
        most: float = math.inf,
        call: HookedCall | None = None,
    ) -> list[HookRun]:
        """Run the hooks of an event at the same time; return their runs in the order of the files. `names` are those
        that a matcher may name, `fields` the event's own part of the input."""
        if self.is_worker and event not in WORKER_EVENTS:
            return []
        matching = [hook for hook in await self._load() if await self._matches(hook, event, names, call)]
        chosen = {hook.key: hook for hook in reversed(matching)}
        if not chosen:
            return []
        subject = call.describe(SHORT) if call else ""
        is_read = event in ("Stop", "SubagentStop", "SessionEnd") or any(hook.names_transcript for hook in matching)
        common = await self._describe_session(event, is_read=is_read)
        jobs = []
        for hook in reversed(chosen.values()):
            limited = replace(hook, table=replace(hook.table, timeout=min(most, hook.table.timeout)))
            for hook_fields in fields(hook) if callable(fields) else [fields]:
                payload = encode_event(common, hook_fields, is_codex=hook.is_codex)
                work = partial(run_hook, limited, payload, Path(common["cwd"]), self.permission)
                job = partial(run_in_thread, work)
                if hook.is_async and event != "SessionEnd":  # which nothing follows
                    self._start_in_background(self._finish_async(job, subject))
                else:
                    jobs.append(job())
        runs = list(await asyncio.gather(*jobs))
        for run in runs:
            self._note(run, subject)
        return runs

    async def _finish_async(self, job: Callable[[], Awaitable[HookRun]], subject: str) -> None:
        """Run an asynchronous hook, of whose answer only the texts count."""
        run = await job()
        self._note(replace(run, answer=replace(run.answer, stops=False)), subject)
        self._async_texts += [self._format_text(run, run.answer.context)] if run.answer.context else []

    def _start_in_background(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._end_background_task)

    def _end_background_task(self, task: asyncio.Task[Any]) -> None:
        self._asides.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._notify_once(f"a hook failed: {one_line(str(error))}")

    async def _describe_session(self, event: str, *, is_read: bool) -> JsonDict:
        """Return the fields that the input of every hook has, of the person's session also for its workers."""
        owner = self._parent or self
        return {
            "session_id": owner.session,
            "transcript_path": await owner._transcript(write=is_read),
            "cwd": os.path.realpath(self.cwd),
            "prompt_id": self._prompt or None,
            "turn_id": self._prompt or None,
            "model": self.context.model.info.name.rpartition("/")[2],
            "permission_mode": MODES.get(self.level(), "default"),
            **self._agent,
            "hook_event_name": event,
        }

    async def _transcript(self, *, write: bool) -> str:
        """Return the path of the session's transcript in Claude's form, brought up to date if a hook is to read it; ""
        if there is no place for it."""
        cwd = os.path.realpath(self.cwd)
        try:
            path = await asyncio.to_thread(self.permission.temp_folder) / f"{self.session}.jsonl"
            if write:
                conversation = self.context.conversation
                entries = conversation.read(1, conversation.last)
                lines = claude_lines(entries, self.session, cwd, conversation.epoch.model)
                await asyncio.to_thread(lambda: replace_private_file(path, "".join(lines).encode("utf-8", "replace")))
        except OSError as error:
            self._notify_once(f"the transcript for hooks could not be written: {reason_of(error)}")
            return ""
        return str(path)

    def _note(self, run: HookRun, subject: str) -> None:
        """Record a run; tell the person what went wrong, and what the hook says to them."""
        hook, answer = run.hook, run.answer
        why = one_line(self._clean(run.why or answer.reason))
        value = {"event": hook.table.event, "hook": hook.name, "source": hook.source, "outcome": run.outcome}
        details = {"why": cut_at_word(why, MAX_REASON), "seconds": run.seconds, "about": subject}
        self.context.conversation.memo(HOOK, {**value, **details})
        if run.is_missing or run.outcome == FAILED:
            is_off = " is off" if hook.state == CHANGED else ""  # the line may have been told with the turn
            self._notify_once(run.common_problem or f"{hook.label}{is_off}: {one_line(self._clean(run.why))}")
        if answer.refused:
            self._notify_once(f"{hook.label}: a project's hook cannot {answer.refused}")
        if answer.unread:
            self._notify_once(f"{hook.label}: nexus does not read {answer.unread} of its answer")
        self._quote(run, answer.message, MAX_CHARACTERS)
        if answer.stops and self._stopped is None:
            self._stop(hook, answer.reason)

    async def _load(self) -> Sequence[Hook]:
        stamp = read_stamp(self.cwd)
        if self.hooks is None or stamp != self._stamp:
            self.hooks, self._stamp = await asyncio.to_thread(list_hooks, self.cwd, self.personal), stamp
        return self.hooks

    def _describe_broken(self, hooks: Sequence[Hook]) -> list[str]:
        """Return a line for each hook that cannot run, one for all of a file at unknown events."""
        lines = [hook.describe_broken() for hook in hooks if hook.is_broken and not hook.unknown_event]
        unknown = [hook for hook in hooks if hook.unknown_event]
        for source in dict.fromkeys(hook.source for hook in unknown):
            events = ", ".join(dict.fromkeys(hook.unknown_event for hook in unknown if hook.source == source))
            lines.append(f"hooks of {source} for unknown events are ignored: {events}")
        return lines

    def _stop(self, hook: Hook, reason: str) -> None:
        """Note that a hook ends the turn, and why."""
        self._stopped = self._clean(reason) or f"{hook.name} ({hook.source}) gave no reason"

    def _check_stopped(self) -> None:
        if self._stopped is not None:
            why, self._stopped = self._stopped, None
            raise NexusError("denied", "a hook stopped the turn", one_line(why), "See `nexus hooks`")

    def _add_section(self, event: str, runs: Sequence[HookRun]) -> None:
        """Let the next request have what hooks add, as the section `hooks.EVENT`."""
        adding = [run for run in runs if run.answer.context]
        if not (adding or event in self.sections):
            return
        text = "\n".join(self._format_text(run, run.answer.context) for run in adding)
        source = ", ".join(dict.fromkeys(run.hook.source for run in adding))
        self.sections[event] = {"text": text, "source": source}

    def _add_words(self, call: ToolCall, run: HookRun, text: str) -> None:
        if text:
            self._added.setdefault(call.id, []).append(self._format_text(run, text))

    def _format_text(self, run: HookRun, text: str) -> str:
        """Return the text of a hook for the model, marked as a note."""
        return f"[{self._line(run, text)}]"

    def _line(self, run: HookRun, text: str) -> str:
        """Return the text of a hook under its name, redacted, neutralized and cut to its bound."""
        return f"hook {run.hook.name}: {self._cut(neutralize(self._clean(text)), run.hook)}"

    def _cut(self, text: str, hook: Hook) -> str:
        if len(text) <= MAX_CHARACTERS:
            return text
        hidden, label = text[MAX_CHARACTERS:], f"text of hook {hook.name}"
        drop = self.context.conversation.record_drop(label, self.context.count(hidden), Cause.OUTPUT_CAP, text)
        self.control.emit_drop(drop)
        return f"{text[:MAX_CHARACTERS]}\n... {len(hidden):,} more characters: recall {drop.id}"

    def _clean(self, text: str) -> str:
        return redact(self.permission.mask_secrets(text)[0])

    def _notify(self, line: str, *, warning: bool = True) -> None:
        self.control.emit_notice(line, warning=warning)

    def _quote(self, run: HookRun, text: str, most: int) -> None:
        """Tell the person what a hook says, on one line of at most `most` characters."""
        if text:
            self._notify(f"{run.hook.label}: {cut_at_word(one_line(self._clean(text)), most)}")

    def _notify_once(self, line: str) -> None:
        if line not in self._shown_lines:
            self._shown_lines.add(line)
            self._notify(line)


def _not_sent(why: str) -> NexusError:
    return NexusError("denied", "your message was not sent", why, "Rephrase the message, or see `nexus hooks`")


def _names(tool: Tool, *, is_foreign: bool) -> list[str]:
    """Return the names of a tool that a matcher may name: those of other programs, which alone a hook for them knows
    where there are any, and ours."""
    theirs = foreign_names(tool.name)
    names = theirs if theirs and is_foreign else [tool.name, *theirs]
    return [*(name for name in names if name != "Bash"), *EDIT_NAMES] if tool.effect is Effect.EDIT else names


def _update(tool: Tool, checked: JsonObject, updated: JsonObject, original: JsonObject) -> tuple[str, JsonObject]:
    """Return a problem or "", and the arguments that a hook wants. Of Claude's names only `file_path` has an effect."""
    accepted = {key: value for key, value in updated.items() if key in tool.parameters.get("properties", {})}
    path = updated.get("file_path")
    if (
        "path" in checked
        and path != original.get("file_path")
        and updated.get("path", checked["path"]) == checked["path"]
    ):
        accepted |= {"path": path} if path else {}
    if lost := sorted(
        key for key in updated if key not in accepted and updated[key] != original.get(key) and key != "file_path"
    ):
        return f"`{lost[0]}` is unknown", checked
    arguments, problems = check_arguments(accepted or dict(checked), tool.parameters)
    return "; ".join(problems), checked if problems else arguments
