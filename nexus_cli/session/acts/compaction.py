"""Acts on the window: compact it, preview that, undo the newest compaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import UNDO
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.engine.compaction.compact import compact
from nexus_cli.engine.compaction.preview import preview_compaction
from nexus_cli.session.base_session import Act, BaseSession


def compaction(instructions: str) -> Act:
    """Summarize older messages; `instructions` tell the model what to keep."""

    async def act(session: BaseSession) -> None:
        engine = session.engine
        if engine.conversation.next_step().calls:
            raise UsageError("not compacted", "a tool call has no result yet", "Run /continue first")
        await engine.begin_pending_epoch()
        await compact(engine, "command", engine.settings.compact.to, instructions)

    return act


def preview(instructions: str, report: Callable[[JsonObject], None]) -> Act:
    """Pass to `report` the effects that `compaction` would have now. Sends and changes nothing."""

    async def act(session: BaseSession) -> None:
        report({"session": session.id, **await preview_compaction(session.engine, instructions)})

    return act


def uncompaction() -> Act:
    """Undo the newest compaction in force, without losing messages or sending a request.

    System text and tools of the former epoch come back with it, so that what the provider cached of it counts, unless
    the model has changed. A notice says that instructions which have changed since are not in force.
    Raises `UsageError` if there is none, `NexusError("overflow", ...)` if the former window no longer
    fits the budget.
    """

    async def act(session: BaseSession) -> None:
        engine = session.engine
        conversation = engine.conversation
        if conversation.next_step().calls:
            raise UsageError("nothing was undone", "a tool call has no result yet", "Run /continue first")
        active = conversation.compaction_in_force()
        if active is None or active.parent is None:
            why = "this session has no active compaction"
            raise UsageError("nothing to undo", why, "/compact summarizes older messages")
        old = conversation.log.epoch(active.parent)
        tokens_before = engine.next_request().tokens
        head = conversation.restored_head(old)
        is_same_model = old.model == engine.model.info.name
        anchor = engine.backoff.anchor_before(active.id) if is_same_model else None
        _refuse_if_too_large(engine.context.project(epoch=conversation.epoch, items=head, anchor=anchor))
        if is_same_model:
            planned = Rewrite(replace(old, effort=engine.model.effort))
        else:
            planned = await engine.prompt.draft_epoch(engine.context)
        epoch = conversation.make_epoch(head, UNDO, planned.epoch)
        _refuse_if_too_large(engine.context.project(epoch=epoch, items=epoch.head, anchor=anchor))
        is_older = is_same_model and old.system != conversation.epoch.system
        notes = engine.backoff.undone(epoch.id, active.id)
        engine.begin_epoch(replace(engine.draft_rewrite(epoch, planned, notes=notes), anchor=anchor))
        engine.readings.epoch_cause = ""
        line = f"compaction undone: {tokens_before:,} -> {engine.next_request().tokens:,} tokens"
        engine.control.emit_notice(line, warning=False)
        if is_older:
            engine.control.emit_notice(
                "the system prompt from before the compaction is back; /reload updates it", warning=False
            )

    return act


def _refuse_if_too_large(request: RequestPlan) -> None:
    """Raise `NexusError("overflow", ...)` if the request with the former window does not fit."""
    if not request.fits:
        why = f"the former messages need {request.upper_bound:,} tokens, but only {request.room:,} fit"
        hint = "Restore single parts with /drops recall, or choose a model with a larger window"
        raise NexusError("overflow", "the compaction cannot be undone", why, hint)
