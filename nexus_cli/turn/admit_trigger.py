"""Admit a trigger: record its text in the window before its turn begins, or resume without text."""

from __future__ import annotations

from nexus_cli.context.untrusted_text import cut_arrows
from nexus_cli.context.window.groups import Dispatch, Done
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.lane.control import Control
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.lane.model_call import GO_ON, ends_unfinished
from nexus_cli.lane.user_input import TRIGGER, record_user_message
from nexus_cli.turn.dispatch import Dispatcher

RESUME = "resume"
"""Type of a trigger that resumes a run after a wait; its message gets no trigger mark."""


async def admit_trigger(lane_state: LaneState, dispatcher: Dispatcher, trigger: Trigger) -> None:
    """Answer calls that an earlier process left open, then record the trigger's text; resume if it has none."""
    if not trigger.text and not trigger.parts:
        await _go_on(lane_state.window, lane_state.control)
        return
    if isinstance(step := lane_state.lane.next_step(), Dispatch):
        dispatcher.settle_open(lane_state.lane, lane_state.control, step.calls)
    if trigger.fresh:
        from nexus_cli.turn.resume_epoch import begin_resume_epoch  # noqa: PLC0415  (a run resumes after a wait)

        subjects = {tool.name: tool.subject for tool in dispatcher.registry.tools()}
        await begin_resume_epoch(lane_state, subjects, trigger.came)
    timeline = lane_state.lane.timeline
    if trigger.source != "person":  # before its entry, so that a kill between the two loses nothing
        said = {"source": trigger.source, **({"facts": dict(trigger.facts)} if trigger.facts else {})}
        timeline.log.record_memo(Memo(TRIGGER, timeline.now(), timeline.last + 1, said))
    await record_user_message(
        lane_state.window,
        lane_state.control,
        Kind.USER,
        _marked_text(trigger),
        parts=trigger.parts,
        files=trigger.files,
        uncounted=trigger.uncounted,
        pasted=trigger.pasted,
        shown=trigger.shown,
        actor=trigger.actor,
        notes=trigger.notes,
    )


def _marked_text(trigger: Trigger) -> str:
    """Return the text of a trigger. That of a structured run ends with the trigger mark and has no other mark in it."""
    if not trigger.facts or trigger.facts.get("type") == RESUME:
        return trigger.text
    from nexus_cli.core.run import TRIGGER_MARK  # noqa: PLC0415  (a structured run)

    return trigger.text if trigger.text.endswith(TRIGGER_MARK) else f"{cut_arrows(trigger.text)} {TRIGGER_MARK}"


async def _go_on(window: LaneWindow, control: Control) -> None:
    """Resume without a message: open calls continue, an unfinished reply is requested again.

    Raises `NexusError("usage", ...)` if the last reply is complete.
    """
    if control.steering or not isinstance(window.lane.next_step(), Done):
        return
    if not ends_unfinished(window.lane.timeline.log):
        why = "there is no prompt, and the last answer of this session is complete"
        raise NexusError("usage", "nothing to ask", why, 'Say what comes next: nexus ask -c "..."')
    await record_user_message(window, control, Kind.STEER, GO_ON, actor="nexus")
