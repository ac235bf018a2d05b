"""Admit a trigger: record its text in the window before its turn begins, or resume without text."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.attachment import RESUME, Trigger
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import RESULT, TRIGGER, WAIT
from nexus_cli.core.message import Role
from nexus_cli.core.typed_text import GO_ON
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.model_call import ends_unfinished
from nexus_cli.engine.requests.user_input import record_user_message
from nexus_cli.text.untrusted_text import cut_arrows

UNANSWERED = "the previous turn was stopped before your answer"
"""Notice for the model if nothing else in the window shows it: there was no text yet."""


async def admit_trigger(engine: Engine, dispatcher: Dispatcher, trigger: Trigger, *, may_be_done: bool) -> None:
    """Answer calls that an earlier process left open, then record the trigger's text; resume if it has none.

    Without text, and unless it `may_be_done`, raises `NexusError("usage", ...)` if the last reply is complete.
    """
    if not trigger.has_message:
        await _go_on(engine.context, engine.control, may_be_done)
        return
    if (step := engine.conversation.next_step()).calls:
        dispatcher.settle_open(engine.conversation, engine.control, step.calls)
    elif not step.is_done and trigger.source != RESUME and not _shows_end(engine.conversation):
        engine.tell_model(UNANSWERED)
    if trigger.fresh:
        from nexus_cli.engine.resume_epoch import begin_resume_epoch  # noqa: PLC0415  (a run resumes after a wait)

        subjects = {tool.name: tool.subject for tool in dispatcher.registry.tools()}
        await begin_resume_epoch(engine, subjects, trigger.came)
    conversation = engine.conversation
    text = trigger.text
    if trigger.facts and trigger.facts.get("type") != RESUME:
        from nexus_cli.core.run import TRIGGER_MARK  # noqa: PLC0415  (a structured run)

        if not text.endswith(TRIGGER_MARK):  # the only mark in it
            text = f"{cut_arrows(text)} {TRIGGER_MARK}"
    if trigger.source != "person":  # before its entry, so that a kill between the two loses nothing
        said = {"source": trigger.source, **({"facts": dict(trigger.facts)} if trigger.facts else {})}
        conversation.memo(TRIGGER, said, conversation.last + 1)
    await record_user_message(engine.context, engine.control, Kind.USER, replace(trigger, text=text))


def _shows_end(conversation: Conversation) -> bool:
    """Return True if the window shows why the last turn has no answer: who stopped it, or that its run waited."""
    newest = conversation.items[-1].entry
    if any(memo.value.get("stopped") for memo in conversation.memos(RESULT) if memo.entry == newest):
        return True
    waits = conversation.memos(WAIT)
    return bool(waits) and all(
        item.message.role is Role.TOOL for item in conversation.items if item.entry >= waits[-1].entry
    )


async def _go_on(context: ContextManager, control: Control, may_be_done: bool) -> None:
    """Go on with open calls or an unfinished reply; raise `NexusError("usage", ...)` if the last is complete."""
    if control.steering or not context.conversation.next_step().is_done:
        return
    if not ends_unfinished(context.conversation.log):
        if may_be_done:
            return
        why = "there is no prompt, and the last answer of this session is complete"
        raise NexusError("usage", "nothing to ask", why, "Add a prompt")
    await record_user_message(context, control, Kind.STEER, Trigger(GO_ON, actor="nexus"))
