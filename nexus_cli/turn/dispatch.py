"""Dispatch tool calls: find, validate, limits, permission, commit "started", run, clip, record (`nexus docs tools`).

Every failure becomes a tool result. Read-only calls of one message run concurrently; the window keeps their results in
call order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never, cast

from nexus_cli.config.protected_places import HOLDS_SECRETS
from nexus_cli.context.window.lane import Lane
from nexus_cli.core import event
from nexus_cli.core.approval import Allow, Answer, Approver, Defer, Deny, Question
from nexus_cli.core.elide import ElidedText
from nexus_cli.core.entry import Drop, Kind
from nexus_cli.core.limits import LEVELS, PLAN, UNASKED, Bound, Limits, compose_limits, name_level
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult, result_note
from nexus_cli.core.services import Jobs, StartLog
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import Effect, Reads, Tool, ToolContext, describe_subject
from nexus_cli.lane.clip_results import clip_result, leave_out_repeats, read_room
from nexus_cli.lane.control import Control
from nexus_cli.lane.current_request import window_request
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.lane.read_lines import count_unread, read_note
from nexus_cli.lane.spending import LAST_REQUEST
from nexus_cli.ledger import WAIT
from nexus_cli.permission.approvals import (
    BY_RULE,
    CONFIRM,
    DECISION,
    GUARDED,
    RULE,
    SAID_NO,
    SAID_NOTHING,
    ApprovalDeferred,
    ApprovalStep,
    AskedCall,
    allow_from_now,
    approval_scope,
    as_command,
    describe_decision,
    describe_refusal,
    make_question,
)
from nexus_cli.permission.call_decision import Permission
from nexus_cli.permission.call_permission import ALLOWED, CallPermission
from nexus_cli.permission.permission import ApprovalNeed, Denial, Grant, resolve_targets
from nexus_cli.permission.run_limits import (
    ASSESSMENT,
    BEHIND_EDIT,
    CHANGES,
    Refusal,
    RunHistory,
    RunLimits,
    Signals,
    event_class,
    restrictions,
    tighten_by_signals,
)
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.registry import ToolRegistry
from nexus_cli.tools.schema import check_call
from nexus_cli.turn.call_changes import CallChanges
from nexus_cli.turn.waiting import SessionWaits

if TYPE_CHECKING:
    from nexus_cli.turn.session_hooks import SessionHooks

UNKNOWN_OUTCOME = "outcome unknown: the process ended while this ran. Look before you run it again."
NOT_RUN = "not run: the session ended before this call started. Ask for it again if it is still wanted."
INTERRUPTED = "interrupted while it ran: {who}"
CANCELLED = "not run: {who}"
PERSON = "the person stopped the turn"
TIMEOUT = "the time limit was reached"
AFTER_WAIT = "not run: this run waits until {}. Ask for it again after that if it is still wanted."
REPEATED = "not run: the same call came too often, so the turn was stopped"
RESULT = "result"
"""Memo of a result's entry: its `result_note`, so that a resumed session shows it as it was."""
FAILED_EDIT = "failed_edit"
"""Memo of the result of an edit that failed: `behind`, the result of the commands behind it in its message."""
WHAT = 80
"""Most characters of a call's main argument in the name of its drop."""
ERRORS = 2
"""Number of consecutive calls that could not run after which the model gets the notice `FAILED`."""
FAILED = "{} calls in a row could not run: read their errors before the next one."


@dataclass
class Dispatcher:
    """Runs tool calls for one session."""

    registry: ToolRegistry
    starts: StartLog
    limits: Limits
    cwd: Path
    project: Path
    permission: CallPermission
    approver: Approver | None = None
    services: SessionServices = field(default_factory=SessionServices)
    ceiling: str | None = None
    """The highest level that `--allow` can reach, set by the recipe; None for no ceiling."""
    signals: bool = False
    """True if pressure, errors and event class restrict the limits; otherwise they are only reported."""
    found: int = 0
    """Tokens in the window of a side run when it began. They do not count as its pressure: a fork that was made because
    the window is full must not be restricted by that."""
    denied: list[dict[str, str]] = field(default_factory=list)
    """Refused calls of this turn: `id`, `tool`, `subject`, `why`, `allow` (the level at which the call would have run;
    "" if at none), and `limit` (the limit that refused it, or a word such as `approvals.SAID_NO`)."""
    changed: dict[str, None] = field(default_factory=dict)
    """Files changed in this turn, in order."""
    always: set[tuple[str, ...]] = field(default_factory=set)
    """Scopes allowed for the rest of the session, see `approval_scope`."""
    call_changes: CallChanges = field(default_factory=CallChanges)
    partial_outputs: dict[str, str] = field(default_factory=dict)
    """Partial output of cancelled calls, by call id."""
    started_here: dict[str, float] = field(default_factory=dict)
    """Start time (monotonic seconds) of each call that began in this process, after any approval."""
    assessed: Limits = field(default_factory=Limits)
    """The limits that the assessment of the turn set."""
    errors: int = 0
    """Consecutive calls that could not run, in the run that began with entry `_began`. Refused calls do not count."""
    _began: int = -1
    _confirm: bool = False
    """True if granted calls of this step need confirmation."""
    _refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """The calls of this step that the limits refuse, by call id."""
    _room: int = 0
    """What is left of the `read_room` of this step."""
    _refers: bool = True
    """True if a result may refer to the same text above it: that will not leave the window before the next request."""
    _recording: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a result is clipped and recorded, so that each read knows what the others took."""
    hooks: SessionHooks | None = None
    """The hooks of the session; None without any."""
    step: ApprovalStep = field(default_factory=ApprovalStep)
    """The questions about the calls of the newest step."""

    async def run(self, lane_state: LaneState, calls: tuple[ToolCall, ...]) -> None:
        """Run `calls` and record a result for each. Raises `ApprovalDeferred` if the person defers an approval,
        `NexusError("waiting", ...)` if the run begins to wait."""
        calls = tuple(self.registry.foreign.translate(call, str(self.cwd)) for call in calls)
        self.step = ApprovalStep(calls)
        if lane_state.lane.run != self._began:
            self._began = lane_state.lane.run
            self.errors = 0
        limits = self.run_limits(lane_state)
        self._refusals = limits.refusals(calls)
        self._confirm = bool(limits.limits.confirm)
        if ending := lane_state.spending.ending:
            self._refusals = {call.id: Refusal(f"not run: {LAST_REQUEST}", ending) for call in calls}
        for name in dict.fromkeys(call.name for call in calls):
            await self._load_rules(self.registry.get(name))
        self.permission.refuse_unguarded(self.limits.allow or "read")
        for line in self.permission.take_problems(self.limits.allow or "read"):
            lane_state.emit(event.Notice(line))
        self._room = read_room(lane_state.window)
        self._refers = not lane_state.upcoming.is_narrow
        await self._run_all(lane_state.window, lane_state.control, calls)
        if jobs := self.services.made(Jobs):
            await jobs.end_step()
        await self.call_changes.report_findings(lane_state.window, lane_state.upcoming, lane_state.control)
        if waits := self.services.made(SessionWaits):
            waits.end_step()
        if self.errors >= ERRORS and not self.signals:
            lane_state.upcoming.notices.append(FAILED.format(self.errors))

    async def _load_rules(self, tool: Tool | None, level: str = "") -> None:
        """Load rules and sandbox for decisions on `tool` at `level` ("": the level in force), in a thread."""
        level = level or self.limits.allow or "read"
        runs = tool is not None and tool.effect is Effect.RUN
        if not self.permission.is_loaded(level, runs=runs):
            await asyncio.to_thread(self.permission.load, level, runs=runs)

    def run_limits(self, lane_state: LaneState) -> RunLimits:
        """Return the limits on the next step of the lane, including those of signals and assessment."""
        lane = lane_state.lane
        limits = self.limits
        started = self.starts.was_started
        bound = limits & self.assessed
        counted = self.signals or bound.is_one_step or bound.max_iterations is not None
        run = RunHistory.of(lane.timeline, lane.run) if counted else RunHistory(None, ())
        layers = [("run", limits), (ASSESSMENT, self.assessed)]
        now = Signals()
        if self.signals:
            translate = self.registry.foreign.translate
            acted = {translate(call).name for batch in run.batches for call in batch if started(call.id)}
            changed = any(tool.effect in CHANGES for name in acted if (tool := self.registry.get(name)))
            pressure = window_request(lane_state).budget.pressure_beyond(self.found)
            errors = self.errors if lane.run == self._began else 0
            now = Signals(pressure, errors, event_class(run.began, changed=changed))
            layers.append(("signals", restrictions(now)))
        return RunLimits(*compose_limits(layers), run, now, self.registry.get, started)

    def begin_own_call(self, call: ToolCall, tool: Tool, limits: RunLimits) -> Refusal | None:
        """Begin a step of one call that the model did not request; return the refusal of a tool that `limits` exclude.
        Counted steps are the model's alone."""
        self.step = ApprovalStep((call,))
        self._confirm = bool(limits.limits.confirm)
        return limits.exclude(tool)

    def in_force(self, lane_state: LaneState, bounds: tuple[Bound, ...]) -> tuple[Limits, tuple[Bound, ...]]:
        """Return the limits of the session, tightened by the current signals if they bind; `bounds` are the layers of
        the limits."""
        return tighten_by_signals(bounds, self.run_limits(lane_state).now) if self.signals else (self.limits, bounds)

    async def _run_all(self, window: LaneWindow, control: Control, calls: tuple[ToolCall, ...]) -> None:
        waiting = list(calls)
        try:
            while waiting:
                batch = [waiting[0]]
                while len(batch) < len(waiting) and all(map(self._together, [*batch, waiting[len(batch)]])):
                    batch.append(waiting[len(batch)])
                later = tuple(waiting[len(batch) :])
                if later and len(waiting) == len(calls):
                    subjects = tuple(describe_subject(self.registry.get(call.name), call) for call in later)
                    control.emit(event.ToolQueue(later, subjects))
                results = await asyncio.gather(
                    *(self._one(window, control, call) for call in batch), return_exceptions=True
                )
                failures = [result for result in results if isinstance(result, BaseException)]
                if failures:
                    raise failures[0]
                del waiting[: len(batch)]
                if (waits := self.services.made(SessionWaits)) and waits.why:
                    for call in waiting:
                        self._leave_out(window.lane, control, call, AFTER_WAIT.format(waits.why))
                    return
        except asyncio.CancelledError:
            await self._settle(window, control, calls)
            raise

    def settle_open(self, lane: Lane, control: Control, calls: tuple[ToolCall, ...]) -> None:
        """Record a result for each call that an earlier process left open, without running any."""
        for call in calls:
            if self.starts.was_started(call.id):
                result = self._recovered(call, self.registry.get(call.name))
                self._append(lane, control, call, result, ElidedText(result.text))
            else:
                self._leave_out(lane, control, call, NOT_RUN)

    def look_early(self) -> None:
        """Look at the project while the model answers, if a command may then run that changes it."""
        tools, names = self.registry.tools(), self.limits.tools
        runs = any(
            tool.effect is Effect.RUN and not tool.server and (names is None or tool.name in names) for tool in tools
        )
        if runs and (self.approver is not None or self.limits.allow in UNASKED):
            self.call_changes.look_early(self.project)

    def refused(self) -> set[str]:
        """Return the ids of the calls that were refused in this turn."""
        return {row["id"] for row in self.denied}

    def count_outcomes(self, calls: Sequence[ToolCall]) -> tuple[int, int]:
        """Count the calls that ran and the calls that were refused in this turn; the others could not run."""
        denied = self.refused()
        ran = sum(self.starts.was_started(call.id) for call in calls)
        refused = sum(call.id in denied for call in calls)
        return ran, refused

    def stop_repeating(self, lane: Lane, control: Control, calls: tuple[ToolCall, ...]) -> None:
        """Record a result for each of `calls`, none of which runs because one was repeated too often."""
        for call in calls:
            self._leave_out(lane, control, call, REPEATED)

    async def _settle(self, window: LaneWindow, control: Control, calls: tuple[ToolCall, ...]) -> None:
        """Record a result with the partial output for every open call of a stopped turn."""
        answered = {item.message.tool_call_id for item in window.lane.tail}
        who = TIMEOUT if control.stopped == "timeout" else PERSON
        for call in calls:
            if call.id in answered:
                continue
            began = self.started_here.get(call.id)
            why = (CANCELLED if began is None else INTERRUPTED).format(who=who)
            given = self.partial_outputs.pop(call.id, "").rstrip("\n")
            cut = self.call_changes.take_cut() if began is not None else ()
            result = ToolResult(given, why, stopped=True, ran=began is not None, changed=cut)
            seconds = 0.0 if began is None else time.monotonic() - began
            if given:
                await self._record(window, control, call, result, seconds)
            else:
                self._append(window.lane, control, call, result, ElidedText(why), seconds)

    def _together(self, call: ToolCall) -> bool:
        tool = self.registry.get(call.name)
        return tool is not None and tool.is_parallel

    async def _one(self, window: LaneWindow, control: Control, call: ToolCall) -> None:
        tool = self.registry.get(call.name)
        control.emit(event.ToolCallEvent(call, describe_subject(tool, call)))
        if tool and tool.needs_edits and call.id not in self._refusals and (why := _failed_edit(window.lane)):
            self._leave_out(window.lane, control, call, why)
            return
        result = await self.execute(window, control, call, tool)
        result = self.registry.foreign.mention(call, result)
        result = self.hooks.add_words(call, result) if self.hooks else result
        now = time.monotonic()
        await self._record(window, control, call, result, now - self.started_here.get(call.id, now))
        await window.lane.timeline.log.save()

    async def execute(self, window: LaneWindow, control: Control, call: ToolCall, tool: Tool | None) -> ToolResult:
        """Run one call as `step` and the permission rules decide, and return its result without recording it."""
        if tool is None:
            return ToolResult(error=self.registry.describe_unknown(call.name), ran=False)
        prepared = await self._prepare(call, tool)
        if isinstance(prepared, ToolResult):
            return prepared
        if refusal := self._refusals.get(call.id):
            return self._refuse(call, tool, refusal.why, refusal.limit)
        checked, targets = prepared
        answer = await self.obtain_permission(window, control, call, tool, checked, targets)
        if isinstance(answer, ToolResult):
            return answer
        # The profile and targets that the person agreed to: rules and files may have changed since.
        profile = self.step.decided[call.id].profile
        context = self._tool_context(window, control, call, targets if answer is None else answer.targets)
        context = replace(context, before=answer.before) if answer else context
        if tool.reaches:
            decide = self._decide
            asked = str(checked.get(tool.reaches)) if answer else ""
            context = replace(
                context,
                may_reach=lambda url: url == asked or decide(tool, {**checked, tool.reaches: url}, targets).runs,
            )
        if refused := self.permission.find_refused(tool):
            context = replace(context, is_refused=refused)
        if profile:
            asks = self.approver is not None
            stays = bool(checked.get("background"))
            make = partial(self.permission.make_sandbox, cast(Any, profile), asks=asks, stays=stays)
            context = replace(context, sandbox=make)
        self.starts.record_start(call.id, call.name)
        await window.lane.timeline.log.save()
        self.started_here[call.id] = time.monotonic()
        work: Callable[[], Awaitable[ToolResult]] = partial(tool.run, checked, context)
        work = self.hooks.follow(call, tool, checked, targets, work) if self.hooks else work
        try:
            command = str(checked.get(tool.subject, ""))
            result = await self.call_changes.run(tool, profile, describe_subject(tool, call), context, work, command)
            return result if result.waits is None else self.services[SessionWaits].begin(result)
        except Exception as error:  # a bug in a tool becomes a tool result and does not end the turn
            why = f"{tool.name} failed: {type(error).__name__}: {error}"
            return ToolResult(error=why, changed=self.call_changes.take_cut())

    def _checked_arguments(self, call: ToolCall, tool: Tool) -> Mapping[str, Any] | ToolResult:
        """Return the arguments validated against the tool's schema, or the result of a call that cannot run."""
        if self.starts.was_started(call.id) and call.id not in self.started_here:
            return self._recovered(call, tool)
        return check_call(call, tool)

    async def _prepare(self, call: ToolCall, tool: Tool) -> tuple[Mapping[str, Any], Mapping[str, Path]] | ToolResult:
        """Return arguments and targets of a call, after the hooks before it; or the result if it cannot run."""
        checked = self._checked_arguments(call, tool)
        if isinstance(checked, ToolResult):
            return checked
        try:
            targets = resolve_targets(tool, checked, self.cwd)
            if self.hooks and call.id not in self._refusals:
                checked = await self.hooks.before_call(call, tool, checked, targets)
                targets = resolve_targets(tool, checked, self.cwd)
        except ToolError as error:
            return ToolResult(error=f"{describe_subject(tool, call)}: {error}".removeprefix(": "), ran=False)
        return checked, targets

    def _recovered(self, call: ToolCall, tool: Tool | None) -> ToolResult:
        """Return the result of a call that an earlier process started: recovered by the tool, else unknown."""
        found = tool.recover(call.id, self.services) if tool is not None and tool.recover else None
        return found or ToolResult(error=UNKNOWN_OUTCOME, ran=False)

    def _tool_context(
        self, window: LaneWindow, control: Control, call: ToolCall, targets: Mapping[str, Path]
    ) -> ToolContext:
        return ToolContext(
            self.cwd,
            self.project,
            window.budget.output_cap,
            call.id,
            lambda text: control.emit(event.ToolOutput(call.id, text)),
            self.services,
            lambda text: self.partial_outputs.update({call.id: text}),
            targets,
            tell=lambda line: control.emit(event.Notice(line)),
            released=control.released.wait,
            unread=lambda path, total: count_unread(window.lane, str(path), total),
            replaced=self.step.note_change,
        )

    async def obtain_permission(
        self,
        window: LaneWindow,
        control: Control,
        call: ToolCall,
        tool: Tool,
        checked: Mapping[str, Any],
        targets: Mapping[str, Path],
    ) -> ToolResult | AskedCall | None:
        """Return the call that the person approved, None if it needs no approval, or the result of a refused call."""
        found = await self.decide_loaded(tool, checked, targets, call)
        need = found.verdict
        self.step.decided[call.id] = found
        if isinstance(need, Grant):
            return None
        if isinstance(need, Denial):
            return await self._refuse_denied(call, tool, found, checked, targets)
        if self.approver is None:
            context = self._tool_context(window, control, call, targets)
            if tool.check and need.kind == "network" and (error := await tool.check(checked, context)):
                return error
            if need.why.endswith(HOLDS_SECRETS):
                return self._refuse(call, tool, f"not permitted: {need.why}", GUARDED)
            level = name_level(self.limits.allow or LEVELS[0])
            why = f"not permitted: {need.why}, and nobody can be asked here (--allow {level})"
            needed = "" if need.kind == CONFIRM else await self._level_needed(tool, checked, targets)
            return self._refuse(call, tool, why, "confirm" if need.kind == CONFIRM else "allow", needed)
        async with self.step.lock:  # concurrent calls get here at the same time
            if call.id not in self.step.answers:
                await self._ask(window, control, call, self.approver)
        now = await self.decide_loaded(tool, checked, targets, call)
        if isinstance(now.verdict, Denial):  # level or rules have changed meanwhile
            self.step.decided[call.id] = now
            return await self._refuse_denied(call, tool, now, checked, targets)
        match self.step.answers[call.id]:
            case ToolResult() as error:
                return error
            case Allow():
                return self.step.asked[call.id]
            case Deny(why, said=False):
                return self._refuse(call, tool, CANCELLED.format(who=why), SAID_NOTHING)
            case Deny(why, name=name):
                return self._refuse(call, tool, describe_refusal(why, name), SAID_NO)
            case Defer():
                raise ApprovalDeferred
            case never:
                assert_never(never)

    async def decide_loaded(
        self, tool: Tool, checked: Mapping[str, Any], targets: Mapping[str, Path], call: ToolCall | None = None
    ) -> Permission:
        """Return the decision on a call as things are, with the rules of now; with `call` also by the hooks."""
        judged, given = as_command(tool, checked, self.services)
        await self._load_rules(judged)
        found = self._decide(judged, given, targets, call.id if call else "")
        is_free = self.call_changes.requires and isinstance(found.verdict, Grant) and found.origin != ALLOWED
        if is_free and (why := await self.call_changes.find_uncovered(judged, found.profile, self.project)):
            found = replace(found, verdict=ApprovalNeed(f"{why} (undo.require)", CONFIRM), rule="")
        return await self.hooks.before_question(call, tool, checked, targets, found) if self.hooks and call else found

    def _decide(
        self, tool: Tool, checked: Mapping[str, Any], targets: Mapping[str, Path], call_id: str = ""
    ) -> Permission:
        """Decide on a call by the current level, rules, confirmation, session scopes and what hooks said."""
        rules = [rule for _, kind, *objects in self.always if kind == RULE for rule in objects]
        found = self.permission.decide(tool, checked, self.limits.allow or "read", targets, rules)
        verdict = found.verdict
        if isinstance(verdict, Grant) and self._confirm and tool.effect in CHANGES:
            verdict = ApprovalNeed("this run confirms what changes something", CONFIRM)
            found = replace(found, rule="", origin=f"limit {CONFIRM}")
        need = verdict.kind if isinstance(verdict, ApprovalNeed) else ""
        if need and approval_scope(tool, checked, need, targets, found.profile) in self.always:
            verdict = Grant()
            found = replace(found, rule="", origin=ALLOWED)
        found = replace(found, verdict=verdict)
        return self.hooks.adjust(call_id, found) if self.hooks else found

    async def _ask(self, window: LaneWindow, control: Control, first: ToolCall, approver: Approver) -> None:
        """Ask about `first` and all later calls of the step that need approval now, at the same time. A command behind
        an edit that would fail now is asked about once the edit is made."""
        asked, fails = list[AskedCall](), False
        for call in self.step.calls[self.step.calls.index(first) :]:
            tool = self.registry.get(call.name)
            if tool is None or call.id in self.step.answers or (fails and tool.needs_edits):
                continue
            made = await self._question(window, control, call, tool, due=call is first)
            if isinstance(made, AskedCall):
                asked.append(made)
            fails = fails or (tool.effect is Effect.EDIT and isinstance(made, ToolResult))
        for one in asked:
            control.emit(event.ApprovalRequest(one.question))
        await control.wait_until_shown()
        tasks = [asyncio.create_task(self._answer(control, one, approver)) for one in asked]
        self.step.asked |= {one.question.call.id: one for one in asked}
        self.step.unanswered = {one.question.call.id: (one, task) for one, task in zip(asked, tasks, strict=True)}
        try:
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        finally:
            self.step.unanswered.clear()

    async def _answer(self, control: Control, asked: AskedCall, approver: Approver) -> None:
        call_id = asked.question.call.id
        try:
            answer = await approver.ask(asked.question)
        except asyncio.CancelledError:
            if call_id not in self.step.answers:  # the turn is stopped
                raise
            withdrawn = self.step.answers[call_id]
            assert not isinstance(withdrawn, ToolResult)
            answer = withdrawn
        self.step.answers[call_id] = answer
        if isinstance(answer, Deny) and asked.tool.effect is Effect.EDIT:
            self.step.withdraw_behind(call_id)
        self.step.unanswered.pop(call_id, None)
        control.emit(event.ApprovalAnswer(call_id, answer))
        if isinstance(answer, Allow) and answer.always:
            control.emit(await allow_from_now(asked, answer, self.always, self.permission, self.project))
            self.withdraw_questions()

    async def ask_aside(self, question: Question, control: Control) -> Answer | None:
        """Ask about what follows from a call; return None if nobody can be asked."""
        if self.approver is None:
            return None
        control.emit(event.ApprovalRequest(question))
        await control.wait_until_shown()
        answer = await self.approver.ask(question)
        control.emit(event.ApprovalAnswer(question.call.id, answer))
        return answer

    def withdraw_questions(self) -> None:
        """Decide again on the open questions, after a change of level, rules or scopes, and withdraw those of calls
        that are granted or denied now. Questions that need a blocking decision stay open until their answer."""
        level = self.limits.allow or "read"
        for call_id, (asked, task) in self.step.unanswered.items():
            if not self.permission.is_loaded(level, runs=asked.tool.effect is Effect.RUN):
                continue
            found = self._decide(asked.tool, asked.checked, asked.targets, call_id)
            if call_id in self.step.answers or isinstance(found.verdict, ApprovalNeed):
                continue
            refusal = Deny(found.verdict.why, said=False) if isinstance(found.verdict, Denial) else None
            self.step.answers[call_id] = refusal or Allow()
            self.step.decided[call_id] = found
            # Deferred: a task that is cancelled before its first step would emit no answer.
            asyncio.get_running_loop().call_soon(task.cancel)

    async def _question(
        self, window: LaneWindow, control: Control, call: ToolCall, tool: Tool, *, due: bool
    ) -> AskedCall | ToolResult | None:
        """Make the question about a call; return an error if it would fail or is refused, None if it needs no approval.
        The error of a call that is `due` now becomes its result; a later one is checked again."""
        if refusal := self._refusals.get(call.id):
            return ToolResult(error=refusal.why, ran=False)
        prepared = await self._prepare(call, tool)
        if isinstance(prepared, ToolResult):
            return prepared
        checked, targets = prepared
        found = await self.decide_loaded(tool, checked, targets, call)
        need = found.verdict
        if isinstance(need, Denial):
            return ToolResult(error=need.why, ran=False)
        if not isinstance(need, ApprovalNeed):
            return None
        if not due and tool.reads is Reads.STATE and any(one.arguments.get("background") for one in self.step.calls):
            return None  # perhaps the address of a job that is about to begin
        context = self._tool_context(window, control, call, targets)
        # A file outside the project is not opened before the person allows it.
        if tool.check and need.kind != "outside":
            error = await tool.check(checked, context)
            if error is not None:
                if due:
                    self.step.answers[call.id] = error
                return error
        subject = describe_subject(tool, call)
        tool, checked = as_command(tool, checked, self.services)
        asked = await make_question(tool, call, checked, context, found, subject, self.limits)
        why = "" if need.kind == CONFIRM else await self.call_changes.find_uncovered(tool, found.profile, self.project)
        doubts = (why, *asked.question.doubts) if why else asked.question.doubts
        return replace(asked, question=replace(asked.question, doubts=doubts))

    async def _level_needed(self, tool: Tool, checked: Mapping[str, Any], targets: Mapping[str, Path]) -> str:
        """Return the lowest level of `--allow` at which this call would run; "" if no reachable level is enough."""
        tool, checked = as_command(tool, checked, self.services)
        reach = LEVELS[: LEVELS.index(self.ceiling or LEVELS[-1]) + 1]
        await self._load_rules(tool, LEVELS[0])
        decide = self.permission.decide
        found = (level for level in reach if isinstance(decide(tool, checked, level, targets).verdict, Grant))
        return next(found, "")

    async def _refuse_denied(
        self, call: ToolCall, tool: Tool, found: Permission, checked: Mapping[str, Any], targets: Mapping[str, Path]
    ) -> ToolResult:
        """Return the result of a denied call: a rule, a guarded place or the level refuses it without a question."""
        assert isinstance(found.verdict, Denial)
        why = f"not permitted: {found.verdict.why}"
        if found.rule:
            return self._refuse(call, tool, why, BY_RULE)
        limit = "allow" if found.level == PLAN else GUARDED
        return self._refuse(call, tool, why, limit, await self._level_needed(tool, checked, targets))

    def _refuse(self, call: ToolCall, tool: Tool, why: str, limit: str, allow: str = "") -> ToolResult:
        row = {"id": call.id, "tool": call.name, "subject": describe_subject(tool, call), "why": why}
        self.denied.append({**row, "allow": allow, "limit": limit})
        return ToolResult(error=why, denied=True, ran=False)

    async def _record(
        self, window: LaneWindow, control: Control, call: ToolCall, result: ToolResult, seconds: float
    ) -> None:
        """Clip the result at the output cap, store the rest as a drop, and append it to the window."""
        if not result.denied:  # a denied call is no error
            self.errors = 0 if result.ran else self.errors + 1
        tool = self.registry.get(call.name)
        what = f"result of {call.name} {describe_subject(tool, call)[:WHAT]}".rstrip()
        if tool and (tool.effect is Effect.RUN or tool.feeds):
            shown, states = await leave_out_repeats(window, result.output, what)
            if states:
                result = replace(result, output=shown)
                control.emit_drop(states)
        async with self._recording:
            clipped, drop = await clip_result(
                window, self.registry.get, call, result, what, self._room, refers=self._refers
            )
            if drop:
                control.emit_drop(drop)
            taken = self._append(window.lane, control, call, replace(result, full=None), clipped, seconds, drop)
            self._room -= taken if tool and tool.reads_content else 0

    def _leave_out(self, lane: Lane, control: Control, call: ToolCall, why: str) -> None:
        """Record the result of a call that does not run."""
        self._append(lane, control, call, ToolResult(error=why, ran=False), ElidedText(why))

    def _append(
        self,
        lane: Lane,
        control: Control,
        call: ToolCall,
        result: ToolResult,
        sent: ElidedText,
        took: float = 0.0,
        drop: Drop | None = None,
    ) -> int:
        """Append a result to the lane, and return its tokens."""
        message = Message(Role.TOOL, sent.text, tool_call_id=call.id)
        noted: dict[str, Mapping[str, Any]] = {RESULT: result_note(result, took), **read_note(result, sent)}
        tool = self.registry.get(call.name)
        self.changed.update(dict.fromkeys(result.changed))
        noted |= self.call_changes.note(tool, self.project, result, drop)
        if tool and tool.effect is Effect.EDIT and result.error:
            how = "was refused" if result.denied else "failed"
            noted[FAILED_EDIT] = {"behind": f"{BEHIND_EDIT} of {describe_subject(tool, call)} before it {how}]"}
        if result.waits is not None:
            noted[WAIT] = {**self.services[SessionWaits].describe_run(), **result.waits}
        refusal = self._refusals.get(call.id) if result.denied else None
        if made := describe_decision(self.step, call, refusal, self.limits.allow or "read"):
            subject = describe_subject(tool, call)
            noted[DECISION] = {"id": call.id, "tool": call.name, "subject": subject, "ran": result.ran, **made}
        entry = lane.append(Kind.TOOL, message, f"tool:{call.name}", noted)
        if result.cites:
            control.emit(event.ContextRecall(result.cites, entry.tokens))
        control.emit(event.ToolResultEvent(call, result, entry.tokens, took))
        return entry.tokens


def _failed_edit(lane: Lane) -> str:
    """Return the result of commands behind a failed edit of the newest message with calls, "" if none failed."""
    message = next(item.entry for item in reversed(lane.items) if item.message.tool_calls)
    failed = (memo.value["behind"] for memo in lane.timeline.memos(FAILED_EDIT) if memo.entry > message)
    return next(failed, "")
