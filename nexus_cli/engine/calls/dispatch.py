"""Dispatch tool calls: find, decide, commit "started", run, clip, record (`nexus docs tools`).

Every failure becomes a tool result. Read-only calls that follow each other in a message run concurrently; the window
keeps their results in call order.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from nexus_cli.config.foreign_items import HOOKS
from nexus_cli.config.paths import places
from nexus_cli.config.project_items import project_folders
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.work_log import WorkLog
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.read_lines import read_note
from nexus_cli.core import event
from nexus_cli.core.approval import Deny
from nexus_cli.core.entry import Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import UNASKED
from nexus_cli.core.memo_kinds import (
    CLIPPED_MESSAGE,
    COMMAND_DID,
    DECISION,
    FAILED_EDIT,
    RESULT,
    TOLD_FACTS,
    WAIT,
    WORK,
)
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult, result_note
from nexus_cli.core.services import EditorTexts, Jobs
from nexus_cli.core.tool import Effect, Tool, describe_subject, find_governing
from nexus_cli.engine.calls.call_decider import CallDecider, DecisionStep
from nexus_cli.engine.calls.waiting import SessionWaits
from nexus_cli.engine.requests.clip_output import ClippedText, clip_result, read_room
from nexus_cli.engine.requests.control import STOPPED_BY, Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.spending import LAST_REQUEST
from nexus_cli.permission.call_decision import CheckedCall, refuse_by_limit
from nexus_cli.permission.run_limits import (
    AFTER_FAILED_EDIT,
    CHANGES,
    END_AT,
    NOTICE_AT,
    SWITCHED_OFF,
    repeat_notice,
    repeated_calls,
)
from nexus_cli.plugins.installed_plugins import has_plugins
from nexus_cli.tools.cancellable_thread import run_in_thread
from nexus_cli.tools.editor_texts import save_text
from nexus_cli.tools.files import project_relative
from nexus_cli.tools.registry import discover_tools
from nexus_cli.tools.schema import read_arguments

if TYPE_CHECKING:
    from nexus_cli.config.checks import EditCheck
    from nexus_cli.config.hook_tables import HookTable
    from nexus_cli.engine.calls.edit_checks import EditChecks

NOT_RUN = "not run: the session ended before this call started. Call it again if it is still needed."
INTERRUPTED = "interrupted while it ran: {who}"
CANCELLED = "not run: {who}"
NOT_RUN_AFTER_WAIT = (
    "not run: this run waits for something first ({}). Call it again after the wait if it is still needed."
)
REPEATED = "not run: the same call was repeated too often, so the turn was stopped"
ERRORS = 2
"""Number of consecutive calls that could not run after which the model gets the notice `FAILED`."""
FAILED = "{} calls in a row could not run: read their errors before the next call."


@dataclass
class Dispatcher(CallDecider):
    """Runs the tool calls of one session that are decided to run."""

    changed: dict[str, None] = field(default_factory=dict)
    """Files changed in this turn, in order."""
    _remaining_read_room: int = 0
    """The remaining tokens of the `read_room` of this step."""
    _refers: bool = True
    """True if a result may refer to the same text above it: that will not leave the window before the next request."""
    _recording: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a result is clipped and recorded, so that each read knows what the others took."""

    def use_checks(self, configured: Sequence[EditCheck] | None) -> None:
        """Run the checks of the person's settings and of the project after edits."""

        def make_checks() -> EditChecks:
            from nexus_cli.engine.calls.edit_checks import EditChecks  # noqa: PLC0415  (the first edit)

            return EditChecks(self.project_root, configured, self.permission, lambda: self.level)

        self.call_changes.make_checks = make_checks

    def use_hooks(
        self, personal: Sequence[HookTable], session: str, context: ContextManager, control: Control, *, is_worker: bool
    ) -> None:
        """Run the hooks of the `session` with this conversation, if the settings, a plugin or a file of the project can
        have any."""
        paths = (folder / name for folder in project_folders(self.cwd) for name in (".nexus/config.toml", *HOOKS))
        has_hooks = bool(personal) or has_plugins() or any(map(os.path.lexists, paths))
        if not has_hooks and os.path.isdir(places().data / "trusted"):  # all files with trusted hooks may be gone
            from nexus_cli.config.trust import trusted_texts  # noqa: PLC0415  (for who has trusted a project)

            has_hooks = any(key.startswith("hook ") for key in trusted_texts(self.project_root))
        if has_hooks:
            from nexus_cli.engine.calls.session_hooks import SessionHooks  # noqa: PLC0415  (few sessions have hooks)

            self.hooks = SessionHooks(
                personal, self.permission, self.cwd, session, lambda: self.level, context, control, is_worker
            )

    async def run(self, engine: Engine, calls: tuple[ToolCall, ...]) -> None:
        """Run `calls` and record a result for each. Raises `ApprovalDeferred` if the person defers an approval,
        `NexusError` of kind `waiting` if the run begins to wait, of another one if a call was repeated too often."""
        conversation, requested = engine.conversation, calls
        calls = tuple(self.registry.foreign.translate(call, str(self.cwd)) for call in calls)
        if conversation.run != self.counted_run:
            self.counted_run = conversation.run
            self.errors = 0
        limits = self.run_limits(engine)
        refusals = limits.refusals({call.id: call.name for call in calls})
        self.step = DecisionStep(calls, refusals, bool(limits.limits.confirm), engine.control, engine.context)
        for call in requested:
            if len(row := repeated_calls(conversation.items, call, self._refused())) >= END_AT:
                error = self._repetition_error(row, is_refused=call.id in refusals)
                self._record_not_run(requested, REPEATED)
                raise error
        if ending := engine.spending.ending:
            self.step.refusals = {call.id: refuse_by_limit(f"not run: {LAST_REQUEST}", ending) for call in calls}
        tools = [self.registry.get(name) for name in dict.fromkeys(call.name for call in calls)]
        for tool in tools:
            await self.permission.load_for(tool, self.level)
        self.permission.refuse_unguarded(self.level)
        for line in self.permission.take_problems(self.level):
            engine.control.emit_notice(line)
        self._remaining_read_room = (
            read_room(engine.context) if any(tool and tool.reads_content for tool in tools) else 0
        )
        self._refers = not engine.is_narrow
        await self._run_all(calls)
        if jobs := self.services.get_existing(Jobs):
            await jobs.end_step()
        await self.call_changes.report_findings(engine.context, engine.notices, engine.control)
        if waits := self.services.get_existing(SessionWaits):
            waits.end_step()
        if self.errors >= ERRORS and not self.signals:
            engine.notices.tell(FAILED.format(self.errors))
        rows = (repeated_calls(conversation.items, call, self._refused()) for call in requested)
        engine.notices.tell(*(repeat_notice(row[0], len(row)) for row in rows if len(row) >= NOTICE_AT))

    def _repetition_error(self, row: Sequence[ToolCall], *, is_refused: bool) -> NexusError:
        """Return the error that ends a turn for a `row` of same calls, newest first; the limits refuse the newest one
        if `is_refused`."""
        newest, *earlier = row
        ran, refused = self._count_outcomes(earlier)
        if is_refused:
            refused += 1
        why = f"the model repeated the same {newest.name} call {len(row)} times"
        if newest.raw:
            why += ", with arguments that were cut off or are not a JSON object; none ran"
        elif refused >= len(earlier):
            why += f"; {refused} were refused"
        else:
            why += f"; {ran} ran with the same result" + f", refused: {refused}" * bool(refused)
        _, just_refused = self._count_outcomes(earlier[:1])
        kind = "denied" if is_refused or just_refused else "limit"
        return NexusError(kind, "the turn was stopped", why, "Rephrase the request")

    async def _run_all(self, calls: tuple[ToolCall, ...]) -> None:
        waiting, first = list(calls), len(self.denied)
        places = {call.id: place for place, call in enumerate(calls)}
        parallel = {call.id for call in calls if (tool := self.registry.get(call.name)) and tool.is_parallel}
        try:
            while waiting:
                batch = list(takewhile(lambda call: call.id in parallel, waiting)) or waiting[:1]
                later = tuple(waiting[len(batch) :])
                if later and len(waiting) == len(calls):
                    subjects = tuple(describe_subject(self.registry.get(call.name), call) for call in later)
                    self.step.control.emit(event.ToolQueue(later, subjects))
                results = await asyncio.gather(*map(self._run_call, batch), return_exceptions=True)
                self.denied[first:] = sorted(
                    self.denied[first:], key=lambda decision: places.get(decision.checked.call.id, 0)
                )
                failures = [result for result in results if isinstance(result, BaseException)]
                if failures:
                    raise failures[0]
                del waiting[: len(batch)]
                if (waits := self.services.get_existing(SessionWaits)) and waits.why:
                    self._record_not_run(waiting, NOT_RUN_AFTER_WAIT.format(waits.why))
                    return
        except asyncio.CancelledError:
            await self._record_stopped_calls(calls)
            raise

    def settle_open(self, context: ContextManager, control: Control, calls: tuple[ToolCall, ...]) -> None:
        """Record a result for each call that an earlier process left open, without running any."""
        self.step = DecisionStep(calls, control=control, context=context)
        for call in calls:
            if context.conversation.log.was_started(call.id):
                self._append(call, self.recover(call, self.registry.get(call.name)))
            else:
                self._record_not_run([call], NOT_RUN)

    def look_early(self) -> None:
        """Look at the project while the model answers, if a command may then run that changes it."""
        tools, names = self.registry.tools(), self.limits.tools
        runs = any(
            tool.effect is Effect.RUN and not tool.server and (names is None or tool.name in names) for tool in tools
        )
        if runs and (self.approver is not None or self.level in UNASKED):
            self.call_changes.look_early(self.project_root)

    def _refused(self) -> set[str]:
        """Return the ids of the calls that were refused in this turn."""
        return {decision.checked.call.id for decision in self.denied}

    def _count_outcomes(self, calls: Sequence[ToolCall]) -> tuple[int, int]:
        """Count the calls that ran and the calls that were refused in this turn; the others could not run."""
        denied = self._refused()
        ran = sum(self.context.conversation.log.was_started(call.id) for call in calls)
        refused = sum(call.id in denied for call in calls)
        return ran, refused

    async def _record_stopped_calls(self, calls: tuple[ToolCall, ...]) -> None:
        """Record a result for every open call of a stopped turn: its partial output, or the person's answer to it."""
        settled = {item.message.tool_call_id for item in self.context.conversation.tail}
        who = STOPPED_BY[self.step.control.stopped or "end"]
        for call in calls:
            if call.id in settled:
                continue
            answered = self.step.answered.get(call.id)
            if answered and isinstance(answer := answered.decision.answer, Deny) and answer.said:
                decision = self.step.decisions[call.id] = self._apply_answer(
                    answered.decision, answered.decision.checked
                )
                if decision.result:
                    self._append(call, decision.result)
                    continue
            started_at = self.started_here.get(call.id)
            why = (CANCELLED if started_at is None else INTERRUPTED).format(who=who)
            output = self.partial_outputs.pop(call.id, "").rstrip("\n")
            cut = self.call_changes.pop_interrupted_files() if started_at is not None else ()
            result = ToolResult(output, why, stopped=True, ran=started_at is not None, changed=cut)
            seconds = 0.0 if started_at is None else time.monotonic() - started_at
            if output:
                await self._record(call, result, seconds)
            else:
                self._append(call, result, took=seconds)

    async def _run_call(self, call: ToolCall) -> None:
        tool, conversation = self.registry.get(call.name), self.context.conversation
        self.step.control.emit(event.ToolCallEvent(call, describe_subject(tool, call)))
        if tool and tool.needs_edits and call.id not in self.step.refusals and (why := _failed_edit(conversation)):
            _, faults = read_arguments(call, tool)
            self._record_not_run([call], f"{why}\n{faults}".rstrip())
            return
        result = await self.execute(call, tool)
        if not result.stopped and (mention := self.registry.foreign.mention(call.id, call.name)):
            result = result.with_line(mention)
        result = self.hooks.add_words(call, result) if self.hooks else result
        now = time.monotonic()
        await self._record(call, result, now - self.started_here.get(call.id, now))
        await conversation.log.save()

    async def execute(self, call: ToolCall, tool: Tool | None) -> ToolResult:
        """Run one call of the step if it may run, and return its result without recording it."""
        if tool is None and not self.registry.names() and (built_in := discover_tools().get(call.name)):
            off = replace(refuse_by_limit(SWITCHED_OFF, "tools"), about=CheckedCall(built_in, call.arguments, {}, call))
            return self._refuse(off, SWITCHED_OFF, off.limit).result or ToolResult(error=SWITCHED_OFF)
        if tool is None:
            return ToolResult(error=self.registry.describe_unknown(call.name), ran=False)
        checked = await self.check(call, tool)
        if isinstance(checked, ToolResult):
            return checked
        decision = await self.decide(checked)
        if decision.may_run:
            conversation = self.context.conversation
            self.step.recorded[call.id] = decision
            memo = Memo(DECISION, conversation.now(), conversation.last, decision.recorded_row(is_run=True))
            conversation.log.record_start(call.id, call.name, [memo])
            if await conversation.log.save():
                decision = await self.decide(checked)  # level and rules may have changed meanwhile
        if not decision.may_run:
            return decision.result or ToolResult(error=decision.why, denied=True, ran=False)
        checked, context = decision.checked, self.make_context(decision)
        self.started_here[call.id] = time.monotonic()
        run = partial(tool.run, checked.arguments, context)
        work = partial(self.hooks.run_call, checked, context, run) if self.hooks else run
        try:
            editor = self.services.find(EditorTexts)
            unsaved = await self._save_texts(editor, checked) if editor else ""
            if unsaved and tool.effect is Effect.EDIT:
                return ToolResult(error=f"{unsaved}. Ask the person to save it", ran=False)
            result = await self.call_changes.run(decision, context, work)
            result = result.with_line(f"[the command read the files on disk; {unsaved}]") if unsaved else result
            return result if result.waits is None else self.services[SessionWaits].begin(result)
        except Exception as error:  # a bug in a tool becomes a tool result and does not end the turn
            why = f"{tool.name} failed: {type(error).__name__}: {error}"
            return ToolResult(error=why, changed=self.call_changes.pop_interrupted_files())

    async def execute_own(self, call: ToolCall, tool: Tool, label: str) -> ToolResult:
        """Run the call that `begin_own_call` has begun, show it to the person as `label`, and keep its images for the
        model."""
        control, began = self.step.control, time.monotonic()
        control.emit(event.ToolCallEvent(call, label))
        try:
            result = await self.execute(call, tool)
        finally:
            self.partial_outputs.pop(call.id, None)
        if result.images:
            result = control.take_images(label, result, self.context.model.info)
        control.emit(event.ToolResultEvent(call, result, 0, time.monotonic() - began))
        return result

    async def _save_texts(self, editor: EditorTexts, checked: CheckedCall) -> str:
        """Let the person's editor save its unsaved text of the files of an edit, or before a command of all that the
        session knows of and may edit. Return a line with the files of which the disk does not have it, "" for none."""
        tool = checked.tool
        if tool.server or tool.effect not in CHANGES:
            return ""
        edits = find_governing(self.registry.tools(), Effect.EDIT)
        rows = list[str]()
        for path in checked.targets.values() if tool.effect is Effect.EDIT else [*editor.unsaved]:
            name, why = project_relative(path, self.project_root), "edits of this file are refused"
            if edits and not self._decide(CheckedCall(edits, {"path": name}, {name: path})).is_denied:
                why = await run_in_thread(partial(save_text, path, editor))
            rows += [f"{name} ({why})"] if why else []
        return f"unsaved text in the editor is not on disk: {', '.join(rows)}" if rows else ""

    async def _record(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        """Clip the result, and append it to the window."""
        if not result.denied:  # a denied call is no error
            self.errors = 0 if result.ran else self.errors + 1
        find, control = self.registry.get, self.step.control
        async with self._recording:
            result, clipped = await clip_result(
                self.context, control, find, call, result, self._remaining_read_room, refers=self._refers
            )
            tokens = self._append(call, result, clipped, took=seconds)
            self._remaining_read_room -= tokens if (tool := find(call.name)) and tool.reads_content else 0

    def _record_not_run(self, calls: Sequence[ToolCall], why: str) -> None:
        """Record the results of calls that do not run."""
        for call in calls:
            self._append(call, ToolResult(error=why, ran=False))

    def _append(
        self, call: ToolCall, result: ToolResult, clipped: ClippedText | None = None, *, took: float = 0.0
    ) -> int:
        """Append a result to the conversation with its memos, whole or `clipped`, and return its tokens.

        What a tool changed with an effect that is not in `CHANGES` is not noted: workers record their own work.
        """
        clipped = clipped or ClippedText(result.text)
        message = Message(Role.TOOL, clipped.text, tool_call_id=call.id)
        noted: dict[str, JsonObject] = {RESULT: result_note(result, took), **read_note(result, clipped)}
        noted |= result.memos
        tool = self.registry.get(call.name)
        if clipped.drop:
            noted[CLIPPED_MESSAGE] = {"drop": clipped.drop.id}
        if result.facts:
            noted[TOLD_FACTS] = {"ids": list(result.facts)}
        self.changed.update(dict.fromkeys(result.changed))
        if result.changed and tool and tool.effect in CHANGES:
            how = COMMAND_DID if tool.effect is Effect.RUN else ""
            noted[WORK] = WorkLog.note(self.project_root, result.changed, how)
            if how and (editor := self.services.find(EditorTexts)):  # its texts of these files may be older ones
                for name in result.changed:
                    editor.compared.setdefault(self.project_root / name, ("", None))
        if tool and tool.effect is Effect.EDIT and result.error:
            how, subject = "was refused" if result.denied else "failed", describe_subject(tool, call)
            noted[FAILED_EDIT] = {"behind": f"{AFTER_FAILED_EDIT}{f' of {subject}' * bool(subject)} before it {how}]"}
        if result.waits is not None:
            noted[WAIT] = {**self.services[SessionWaits].describe_run(), **result.waits}
        decision = self.step.decisions.get(call.id)
        if decision is not None and not (result.ran and decision == self.step.recorded.get(call.id)):
            noted[DECISION] = decision.recorded_row(is_run=result.ran)  # no start, or it could not run after all
        entry = self.context.conversation.append(Kind.TOOL, message, f"tool:{call.name}", noted)
        if result.cites:
            self.step.control.emit(event.ContextRecall(result.cites, entry.tokens))
        self.step.control.emit(event.ToolResultEvent(call, result, entry.tokens, took))
        return entry.tokens


def _failed_edit(conversation: Conversation) -> str:
    """Return the result of commands behind a failed edit of the newest message with calls, "" if none failed."""
    message = next(item.entry for item in reversed(conversation.items) if item.message.tool_calls)
    failed = (memo.value["behind"] for memo in conversation.memos(FAILED_EDIT) if memo.entry > message)
    return next(failed, "")
