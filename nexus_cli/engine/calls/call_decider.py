"""Decide on the calls of a step, in one place: limits, hooks, rules, level, undo, what was allowed before, the person.

`CallDecider.check` checks the arguments of a call, `CallDecider.decide` returns its `CallDecision`. The person is asked
about all calls of a step at the same time; a question is withdrawn if level or rules decide meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.command_records import running_guards
from nexus_cli.config.protected_places import HOLDS_SECRETS
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.read_lines import count_unread
from nexus_cli.core import event
from nexus_cli.core.approval import DEFINITION, SAY_INSTEAD, Allow, Answer, Approver, Deny, Question
from nexus_cli.core.attachment import IMAGE_TOKENS
from nexus_cli.core.errors import NexusError
from nexus_cli.core.image_check import MAX_PAGES
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.limits import ALL, ASK, AUTO, LEVELS, PLAN, Bound, Limits, compose_limits
from nexus_cli.core.memo_kinds import LEVEL_SET, LIMITS_IN_FORCE
from nexus_cli.core.message import UNKNOWN_OUTCOME, ToolCall, ToolResult
from nexus_cli.core.services import ServerTools
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import Effect, Reads, Tool, ToolContext, describe_subject
from nexus_cli.engine.calls.call_changes import CallChanges
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.permission.approvals import (
    RULE,
    ApprovalDeferred,
    CallQuestion,
    accept_definition,
    allow_from_now,
    approval_scope,
    as_command,
    describe_refusal,
    make_question,
)
from nexus_cli.permission.call_decision import (
    ACCEPT_SEPARATOR,
    BY_RULE,
    CONFIRM,
    DECLINED,
    GUARDED,
    NOT_ANSWERED,
    UNREQUESTED,
    CallDecision,
    CheckedCall,
    MinimalGrant,
)
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.permission.folder_rules import ALLOWED
from nexus_cli.permission.permission import resolve_targets
from nexus_cli.permission.run_limits import (
    ASSESSMENT,
    CHANGES,
    RunHistory,
    RunLimits,
    Signals,
    event_class,
    restrictions,
    tighten_by_signals,
)
from nexus_cli.sections.recipe import Recipe
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.registry import ToolRegistry
from nexus_cli.tools.schema import read_arguments

if TYPE_CHECKING:
    from nexus_cli.engine.calls.session_hooks import SessionHooks


@dataclass
class DecisionStep:
    """The decisions on the calls of one step."""

    calls: tuple[ToolCall, ...] = ()
    refusals: Mapping[str, CallDecision] = field(default_factory=dict)
    """By call id: what the limits refuse."""
    confirms: bool = False
    """True if granted calls that change something need confirmation."""
    control: Control = field(default_factory=Control)
    context: ContextManager | None = None
    """None before the first step."""
    agreed: CallDecision | None = None
    """What the person has answered before about a call like that of this step."""
    decisions: dict[str, CallDecision] = field(default_factory=dict)
    """By call id, once a call is due."""
    recorded: dict[str, CallDecision] = field(default_factory=dict)
    """By call id: the decision that the ledger has since the call began to run."""
    questions: list[CallQuestion] = field(default_factory=list)
    """All that the person was asked, in order."""
    answered: dict[str, CallQuestion] = field(default_factory=dict)
    """By call id."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    declined: str = ""
    """The call that the person declined in order to type, also one of a worker that a call of this step waited for; ""
    for none."""

    def stop_declined(self, *, is_steered: bool) -> None:
        """Raise `NexusError("denied", ...)` if the person declined a call in order to type, unless it `is_steered`, or
        the person has given words for the model with another call."""
        answers = [question.decision.answer for question in self.answered.values()]
        has_words = any(isinstance(answer, Deny) and answer.said and answer.why for answer in answers)
        if self.declined and not is_steered and not has_words:
            raise NexusError("denied", "stopped", f"you declined {self.declined}", SAY_INSTEAD)

    def note_change(self, target: Path, before: str, after: str) -> None:
        """Apply later calls on `target` to its new content: another call of the step has changed what the person saw,
        from digest `before` to `after`. Commands that run accept the new content too. Blocks."""
        for question in self.questions:
            if question.decision.before == before and target in question.decision.checked.targets.values():
                question.decision = replace(question.decision, before=after)
        for accept in tuple(running_guards):
            accept(target, before, after)


@dataclass
class CallDecider:
    """Decides on the calls of one session."""

    registry: ToolRegistry
    limits: Limits
    cwd: Path
    project_root: Path
    permission: CallPermission
    approver: Approver | None = None
    services: SessionServices = field(default_factory=SessionServices)
    bounds: tuple[Bound, ...] = ()
    """The layers that set the limits; () in a session from parts, whose limits are not recorded."""
    recipe: Recipe = field(default_factory=lambda: Recipe("chat"))
    """The recipe of the session."""
    signals: bool = False
    """True if pressure, errors and event class restrict the limits; otherwise they are only reported."""
    tokens_at_start: int = 0
    """Tokens in the window of a side run when it began. They do not count as its pressure: a fork that was made because
    the window is full must not be restricted by that."""
    denied: list[CallDecision] = field(default_factory=list)
    """The refused calls of this turn."""
    granted: tuple[str, ...] = ()
    """The rules of the guides that the person called in this turn."""
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
    """Consecutive calls that could not run, in the run of entry `counted_run`. Refused calls do not count."""
    counted_run: int = -1
    hooks: SessionHooks | None = None
    """The hooks of the session; None without any."""
    step: DecisionStep = field(default_factory=DecisionStep)
    _recorded: JsonObject | None = None
    """The newest memo `LIMITS_IN_FORCE`, once one was recorded or compared."""

    @property
    def level(self) -> str:
        """The permission level in force."""
        return self.limits.allow or ASK

    @property
    def turn_limits(self) -> Limits:
        """The limits of the session and of the turn's assessment."""
        return self.limits & self.assessed

    @property
    def context(self) -> ContextManager:
        """The conversation of the step, of which there must be one."""
        assert self.step.context is not None
        return self.step.context

    def section_facts(self) -> JsonObject:
        """Return the values of the context section `permission`; a sandbox is assumed until it was probed."""
        return {
            "level": self.level,
            "asked": self.approver is not None,
            "confined": self.permission.may_have_sandbox,
            **({"ahead": list(ahead)} if (ahead := self.permission.rules_ahead) else {}),
        }

    # -- limits ------------------------------------------------------------------------------------------------

    def run_limits(self, engine: Engine) -> RunLimits:
        """Return the limits on the next step of the conversation, including those of signals and assessment."""
        conversation = engine.conversation
        started = conversation.log.was_started
        bound = self.turn_limits
        counted = self.signals or bound.is_one_step or bound.max_iterations is not None
        run = RunHistory.of(conversation, conversation.run) if counted else RunHistory(None, ())
        now = Signals()
        if self.signals:
            translate = self.registry.foreign.translate
            ran = (translate(call).name for batch in run.batches for call in batch if started(call.id))
            changed = any(tool.effect in CHANGES for tool in map(self.registry.get, ran) if tool)
            pressure = engine.window_request().budget.pressure_beyond(self.tokens_at_start)
            errors = self.errors if conversation.run == self.counted_run else 0
            now = Signals(pressure, errors, event_class(run.began, changed=changed))
        layers = [("run", self.limits), (ASSESSMENT, self.assessed), ("signals", restrictions(now))]
        return RunLimits(*compose_limits(layers), run, now, self.registry.get, started)

    def in_force(self, engine: Engine) -> tuple[Limits, tuple[Bound, ...]]:
        """Return the limits of the next request and their layers: those of the session, tightened by the current
        signals if they bind."""
        if not self.signals:
            return self.limits, self.bounds
        return tighten_by_signals(self.bounds, self.run_limits(engine).now)

    def record_limits(self, engine: Engine) -> Limits:
        """Return the limits of the next request. Record them with its recipe and window in a memo of the conversation,
        if they differ from the last one, or a level was set since."""
        limits, bounds = self.in_force(engine)
        info, conversation = engine.model.info, engine.conversation
        now = {
            "recipe": self.recipe.name,
            "section_budget": self.recipe.section_budget,
            "limits": to_json_value(bounds),
            "window": info.window,
            "max_output": info.max_output,
        }
        if self.bounds and self._recorded != now:
            if conversation.newest_memo(LIMITS_IN_FORCE, LEVEL_SET) != now:
                conversation.memo(LIMITS_IN_FORCE, now)
            self._recorded = now
        return limits

    def begin_own_call(
        self, engine: Engine, call: ToolCall, tool: Tool, agreed: CallDecision | None = None
    ) -> CallDecision | None:
        """Begin a step of one call that the model did not request; return the refusal of a tool that the limits
        exclude. Counted steps are the model's alone. `agreed` is what the person has allowed before: an earlier call
        like it. Ctrl+B does not release the call: who began it needs its result."""
        limits, control = self.run_limits(engine), replace(engine.control, released=asyncio.Event())
        self.step = DecisionStep((call,), {}, bool(limits.limits.confirm), control, engine.context, agreed)
        return limits.exclude(tool)

    # -- one call ----------------------------------------------------------------------------------------------

    async def decide(self, checked: CheckedCall) -> CallDecision:
        """Decide on a call of the step, ask the person if it needs approval, and note the decision in the step. Raises
        `ApprovalDeferred` if they defer it."""
        step, call = self.step, checked.call
        while True:  # level and rules may change while the person is asked
            decision = step.decisions[call.id] = await self.decide_now(checked)
            answered = step.answered.get(call.id)
            if not decision.is_denied and answered:
                decision = self._apply_answer(answered.decision, checked)
            elif decision.asks and step.agreed:
                decision = self._apply_answer(step.agreed, checked)
            elif decision.asks and self.approver is not None:
                async with step.lock:  # concurrent calls get here at the same time
                    error = None if call.id in step.answered else await self._ask(call, self.approver)
                if error is None:
                    continue
                decision = replace(decision, result=error)
            elif not decision.is_granted:
                decision = await self._refuse_unasked(decision)
            step.decisions[call.id] = decision
            return decision

    async def decide_now(self, checked: CheckedCall) -> CallDecision:
        """Return the decision as things are, with the rules of now, before anybody is asked. The hooks that run where
        somebody would be asked run here, for a call that was requested."""
        if refusal := self.step.refusals.get(checked.call.id):
            return replace(refusal, level=self.level, about=checked)
        judged = as_command(checked, self.services)
        await self.permission.load_for(judged.tool, self.level)
        decision = self._decide(judged)
        if judged.tool.entry and (
            decision.is_granted or decision.kind == DEFINITION
        ):  # by what its server says of it now
            await self.services[ServerTools].refresh(judged.tool.server)
            checked = judged = replace(checked, tool=self.registry.get(judged.tool.name) or judged.tool)
            decision = self._decide(judged)
        is_free = self.call_changes.requires and decision.is_granted and decision.origin != ALLOWED
        if is_free and (why := await self.call_changes.find_uncovered(decision, self.project_root)):
            decision = replace(decision, verdict="ask", why=f"{why} (setting undo.require)", kind=CONFIRM, rule="")
        decision = replace(decision, about=checked)
        return (
            await self.hooks.before_question(decision) if self.hooks and checked.call is not UNREQUESTED else decision
        )

    def _decide(self, judged: CheckedCall) -> CallDecision:
        """Decide on a call by the current level, rules, confirmation, session scopes and what hooks have said by now.
        Does not wait: open questions are decided again by it."""
        rules = [scope[2] for scope in self.always if scope[1] == RULE]
        decision = self.permission.decide(judged, self.level, rules, granted=self.granted)
        if decision.is_granted and self.step.confirms and judged.tool.effect in CHANGES:
            why = "this run asks before each change"
            decision = replace(decision, verdict="ask", why=why, kind=CONFIRM, rule="", origin=f"limit {CONFIRM}")
        if decision.asks and approval_scope(decision) in self.always:
            decision = replace(decision, verdict="allow", rule="", origin=ALLOWED)
        return self.hooks.adjust(decision) if self.hooks else decision

    async def check(self, call: ToolCall, tool: Tool) -> CheckedCall | ToolResult:
        """Return a call with valid arguments and its paths, after the hooks before it; or the result if it cannot
        run."""
        if self.context.conversation.log.was_started(call.id) and call.id not in self.started_here:
            return self.recover(call, tool)
        arguments, faults = read_arguments(call, tool)
        if faults:
            return ToolResult(error=faults, ran=False)
        try:
            checked = CheckedCall(tool, arguments, resolve_targets(tool, arguments, self.cwd), call)
            if self.hooks and call.id not in self.step.refusals:
                changed = await self.hooks.before_call(checked)
                checked = replace(checked, arguments=changed, targets=resolve_targets(tool, changed, self.cwd))
        except ToolError as error:
            return ToolResult(error=f"{describe_subject(tool, call)}: {error}".removeprefix(": "), ran=False)
        return checked

    def recover(self, call: ToolCall, tool: Tool | None) -> ToolResult:
        """Return the result of a call that an earlier process started: recovered by the tool, else unknown."""
        tool_result = tool.recover(call.id, self.services) if tool is not None and tool.recover else None
        return tool_result or ToolResult(error=UNKNOWN_OUTCOME, ran=False)

    # -- refusals ----------------------------------------------------------------------------------------------

    def _refuse(
        self, decision: CallDecision, why: str, limit: str, allow: str = "", minimal_grant: MinimalGrant | None = None
    ) -> CallDecision:
        result = ToolResult(error=why, denied=True, ran=False)
        self.denied.append(
            replace(decision, result=result, limit=limit, allow=allow, minimal_grant=minimal_grant or MinimalGrant())
        )
        return self.denied[-1]

    async def _refuse_unasked(self, decision: CallDecision) -> CallDecision:
        """Refuse a call that is denied, by a limit too, or that needs approval where nobody can be asked.

        The decision names the lowest level of `--allow` at which the call would run, if a reachable one is enough, and
        a narrower way (a rule or an option) if there is one: with that, level `all` is not named.
        """
        checked, why = decision.checked, f"not permitted: {decision.why}"
        if decision.limit:
            return self._refuse(decision, decision.why, decision.limit)
        if decision.is_denied:
            limit = BY_RULE if decision.rule else "allow" if decision.level == PLAN else GUARDED
        elif decision.why.endswith(HOLDS_SECRETS):
            return self._refuse(decision, why, GUARDED)
        elif decision.kind == DEFINITION:
            return self._refuse(
                decision, f"{why}{ACCEPT_SEPARATOR}nexus rules add --here allow {checked.tool.name}", GUARDED
            )
        else:
            check = checked.tool.check if decision.kind == "network" else None
            if check and (error := await check(checked.arguments, self.make_context(decision))):
                return replace(decision, result=error)
            limit = CONFIRM if decision.kind == CONFIRM else "allow"
            why += f", and nobody here can approve it (permission level: {self.level})"
        if limit in (BY_RULE, CONFIRM):
            return self._refuse(decision, why, limit)
        judged = as_command(checked, self.services)
        reach = LEVELS[: LEVELS.index(self.recipe.limits.allow or ALL) + 1]
        await self.permission.load_for(judged.tool, ASK)
        unread = self.permission.unread_denials  # beside them level all is refused, and no stored rule opens a path
        levels = (level for level in reach if not (unread and level == ALL))
        level = next((level for level in levels if self.permission.decide(judged, level).is_granted), "")
        if unread and not level:
            why = f"not permitted: {decision.why}; first correct the rule in {unread[0].partition(': ')[0]}"
            return self._refuse(decision, why, GUARDED)
        minimal_grant = None
        if level and not unread:
            minimal_grant = await asyncio.to_thread(self.permission.find_minimal_grant, replace(decision, about=judged))
        return self._refuse(
            decision,
            why,
            limit,
            "" if level == ALL and minimal_grant and (minimal_grant.rule or minimal_grant.option) else level,
            minimal_grant,
        )

    # -- questions ---------------------------------------------------------------------------------------------

    def _apply_answer(self, answered: CallDecision, checked: CheckedCall) -> CallDecision:
        """Return the decision on a call by the person's answer, with the profile and the paths of the question: rules
        and files may have changed since."""
        decision = replace(answered, about=replace(checked, targets=answered.checked.targets))
        match answered.answer:
            case Allow():
                return decision
            case Deny(why, said=False):
                return self._refuse(decision, f"not run: {why}", NOT_ANSWERED)
            case Deny(why, name=name):
                return self._refuse(decision, describe_refusal(why, name), DECLINED)
        raise ApprovalDeferred

    async def _ask(self, first: ToolCall, approver: Approver) -> ToolResult | None:
        """Ask about `first` and all later calls of the step that need approval now, at the same time; return the error
        of `first` if it would fail. A command behind an edit that would fail now is asked about once the edit is
        made."""
        step, questions, fails = self.step, list[CallQuestion](), False
        error = None
        begins_job = any(call.arguments.get("background") for call in step.calls)
        for call in step.calls[step.calls.index(first) :]:
            tool = self.registry.get(call.name)
            if tool is None or call.id in step.answered or (fails and tool.needs_edits):
                continue
            if begins_job and call is not first and tool.reaches and tool.reads is Reads.STATE:  # perhaps that job
                continue
            outcome = await self._question(call, tool)
            if isinstance(outcome, CallQuestion):
                questions.append(outcome)
            elif call is first and outcome and not outcome.denied:
                error = outcome
            fails = fails or (tool.effect is Effect.EDIT and isinstance(outcome, ToolResult))
        for call_question in questions:
            step.control.emit(event.ApprovalRequest(call_question.question))
        await step.control.wait_until_shown()
        step.questions += questions
        for call_question in questions:
            call_question.task = asyncio.create_task(self._answer(call_question, approver))
        with self.hooks.notify_unanswered() if self.hooks and questions else nullcontext():
            answers = await asyncio.gather(
                *(question.task for question in questions if question.task), return_exceptions=True
            )
        for result in answers:
            if isinstance(result, Exception):
                raise result
        return error

    async def _answer(self, call_question: CallQuestion, approver: Approver) -> None:
        """Wait for the person's answer to an open question."""
        step, call_id = self.step, call_question.question.call.id
        try:
            answer = await approver.ask(call_question.question)
            call_question.decision = replace(call_question.decision, answer=answer)
            step.answered[call_id] = call_question
        except asyncio.CancelledError:
            if call_question.withdrawn is None:  # the turn is stopped
                raise
            answer = call_question.withdrawn
        finally:
            call_question.task = None
        if isinstance(answer, Deny) and answer.stops:
            step.declined = step.declined or call_question.question.what
        if isinstance(answer, Deny) and call_question.decision.checked.tool.effect is Effect.EDIT:
            for behind in step.questions[step.questions.index(call_question) :]:
                if behind.decision.checked.tool.needs_edits:
                    behind.withdraw(Deny("an earlier edit was not approved", said=False))
        failed = allowed = None
        if isinstance(answer, Allow):
            failed = await accept_definition(call_question.decision, answer)
            if answer.always:
                allowed = await allow_from_now(
                    call_question.decision, answer, self.always, self.permission, self.project_root
                )
        step.control.emit(event.ApprovalAnswer(call_id, answer))  # the session of a worker withdraws questions then
        for notice in (failed, allowed):
            if notice:
                step.control.emit(notice)
        if allowed:
            self.withdraw_questions()

    async def ask_followup(self, question: Question, control: Control) -> Answer | None:
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
        for call_question in self.step.questions:
            judged = call_question.decision.checked
            if call_question.task and self.permission.is_loaded(self.level, runs=judged.tool.effect is Effect.RUN):
                decision = self._decide(judged)
                needs_answer = (
                    call_question.decision.kind == CONFIRM and decision.origin != ALLOWED
                )  # perhaps for undo.require
                if decision.is_denied or (decision.is_granted and not needs_answer):  # `decide` does so again
                    call_question.withdraw(Allow() if decision.is_granted else Deny(decision.why, said=False))

    async def _question(self, call: ToolCall, tool: Tool) -> CallQuestion | ToolResult | None:
        """Make the question about a call; return an error if it would fail or is refused, None if it needs no
        approval."""
        checked = await self.check(call, tool)
        if isinstance(checked, ToolResult):
            return checked
        decision = await self.decide_now(checked)
        if not decision.asks:
            return None if decision.is_granted else ToolResult(error=decision.why, denied=True, ran=False)
        context = self.make_context(decision)
        # A file outside the project is not opened before the person allows it.
        if tool.check and decision.kind != "outside" and (error := await tool.check(checked.arguments, context)):
            return error
        decision = replace(decision, about=as_command(checked, self.services))
        uncovered = (
            "" if decision.kind == CONFIRM else await self.call_changes.find_uncovered(decision, self.project_root)
        )
        label = f"{call.name} {checked.subject}"
        return await make_question(decision, label, context, self.limits, uncovered)

    def make_context(self, decision: CallDecision) -> ToolContext:
        """Return the context of a call: with the paths, the diff, the address and the sandbox profile that were agreed
        to."""
        checked, context, control = decision.checked, self.context, self.step.control
        tool, call_id = checked.tool, checked.call.id
        asks, stays = self.approver is not None, bool(checked.arguments.get("background"))
        sandbox = partial(self.permission.make_sandbox, asks=asks, stays=stays, is_auto=decision.level == AUTO)

        def may_reach(url: str) -> bool | None:
            if decision.answer and url == checked.arguments.get(tool.reaches):
                return True
            if not tool.reaches:
                return None
            call_decision = self._decide(CheckedCall(tool, {**checked.arguments, tool.reaches: url}, checked.targets))
            return None if call_decision.asks else call_decision.is_granted

        return ToolContext(
            self.cwd,
            self.project_root,
            context.budget.output_cap,
            call_id,
            lambda text: control.emit(event.ToolOutput(call_id, text)),
            self.services,
            lambda text: self.partial_outputs.update({call_id: text}),
            checked.targets,
            decision.before,
            self.permission.find_refused(tool),
            may_reach,
            partial(sandbox, decision.command.profile) if decision.command else None,
            tell=control.emit_notice,
            released=control.released.wait,
            unread=lambda path, total: count_unread(context.conversation, str(path), total),
            replaced=self.step.note_change,
            pictures=min(MAX_PAGES, context.budget.output_cap // IMAGE_TOKENS) if context.model.info.images else 0,
        )
