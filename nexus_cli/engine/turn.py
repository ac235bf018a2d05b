"""The loop of steps: what the next one is follows from the tail of the window (`engine/README.md`).

Calls without results are dispatched; if the last message is not the assistant's, the model is asked; otherwise the
loop ends, unless the person has written meanwhile. A resume after a kill, a deferred approval or an interrupt is
therefore the same path as the next step. What may follow a complete reply besides is decided in `Session`.
"""

from __future__ import annotations

from typing import TypedDict, cast

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core import event
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import LedgerAwayError, NexusError, ProviderError
from nexus_cli.core.json_value import JsonDict, JsonOf, to_json_value
from nexus_cli.core.limits import Limits
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.compaction.context_fit import (
    draft_due_pruning,
    ensure_fits,
    ensure_fits_after_overflow,
    notice_narrow_window,
    plan_request,
)
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.model_call import call_model
from nexus_cli.engine.requests.readings import Preamble
from nexus_cli.engine.requests.refused_images import draft_without_images
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.permission.run_limits import SPARE, RunHistory
from nexus_cli.sections.planner import SectionObject

TRIES = 2
"""Most times that lost sections are attached again after a rewrite: making room for them may need another rewrite."""


class PlanObject(TypedDict):
    """A request before it is sent."""

    step: int
    epoch: int
    basis: str
    budget: JsonOf[TokenBudget]
    sections: list[SectionObject]
    entries: int
    drops: list[str]
    facts: list[dict[str, str]]
    limits: JsonDict


async def turn(engine: Engine, dispatcher: Dispatcher) -> None:
    """Run steps until the last message is a reply without calls and no steering waits; in the last request of a budget
    (`Spending.ending`) steering does not go on. Raises `NexusError` if the turn ends early.

    A step in which the ledger's server could not be read is taken again when the server answers.
    """
    while True:
        try:
            step = engine.conversation.next_step()
            if step.calls:
                await dispatcher.run(engine, step.calls)
                notice_narrow_window(engine)
                _stop_asking(engine.conversation, engine.spending, dispatcher.turn_limits)
                if dispatcher.hooks:
                    engine.notices.keep("", *await dispatcher.hooks.end_step(step.calls))
                dispatcher.step.stop_declined(is_steered=bool(engine.control.steering))
                continue
            if dispatcher.hooks:
                await dispatcher.hooks.admit_steering()
            if step.is_done and engine.spending.ending:
                return
            if not await engine.deliver_steering() and step.is_done:
                return
            await request(engine, dispatcher)
        except LedgerAwayError as error:
            await engine.conversation.log.save(error)


async def request(engine: Engine, dispatcher: Dispatcher) -> None:
    """Make one model request: check limits, prepare it, make room, send; send once more after an overflow, or without
    new images that the provider refused. What a new window has lost of the attached changes is attached again."""
    engine.control.check_ending()
    engine.take_model_info()
    engine.begin_step()
    engine.spending.check_steps()
    epoch = engine.conversation.epoch.id
    plan = await ensure_fits(engine, await prepare_request(engine))
    plan = await _resend_lost_sections(engine, epoch) or plan
    try:
        await _send(engine, plan, dispatcher.record_limits(engine))
    except ProviderError as error:
        rewrite = draft_without_images(engine, error)
        if rewrite is None and error.kind != "overflow":
            raise
        engine.spending.steps -= 1  # the same step
        if rewrite is not None:
            engine.begin_epoch(rewrite)
            plan = engine.window_request()
        else:
            epoch = engine.conversation.epoch.id
            plan = await ensure_fits_after_overflow(engine, error)
            plan = await _resend_lost_sections(engine, epoch) or plan
        await _send(engine, plan, dispatcher.record_limits(engine))


async def _send(engine: Engine, plan: RequestPlan, limits: Limits) -> None:
    engine.control.emit(event.ContextPlan(describe_request(engine, plan, limits)))
    await call_model(engine, plan)


async def prepare_request(engine: Engine) -> RequestPlan:
    """Attach the changes to the next request and return it, which may not fit yet. Begins the epoch that is due: for
    another model or a reload, without images that the model cannot get, with stale results pruned, with sections
    planned again. Raises as `plan_request`."""
    await attach_changes(engine)
    await engine.begin_pending_epoch()
    if engine.model.info.blind and (rewrite := draft_without_images(engine)):
        engine.begin_epoch(rewrite)
    if rewrite := draft_due_pruning(engine):
        engine.begin_epoch(rewrite)
    return await plan_request(engine)


def describe_request(engine: Engine, request: RequestPlan, limits: Limits) -> PlanObject:
    """Return the request of the next step, with its `limits`, as `context.plan` of the JSON lines."""
    sections = cast("list[SectionObject]", list(request.sections))
    return {
        "step": engine.step + 1,
        "epoch": request.epoch.id,
        "basis": request.basis,
        "budget": to_json_value(request.budget),
        "sections": sections,
        "entries": len(request.window.entries),
        "drops": [drop for section in sections if (drop := section.get("drop"))],
        "facts": [dict(fact) for fact in engine.readings.preamble.facts],
        "limits": limits.to_json(),
    }


async def attach_changes(engine: Engine) -> None:
    """Attach what changed (`PromptAssembler.draft_preamble` says what) and what other processes noted for the model to
    the newest unsent message. Request a reload if a section of the system text has finished loading."""
    engine.notices.add_unsent_notes()
    readings = engine.readings
    readings.preamble = Preamble()
    preamble = await engine.prompt.draft_preamble(engine.context, engine.notices.waiting)
    if preamble.arrived and not readings.epoch_cause:
        readings.epoch_cause = "reload"
        late = f"new context finished loading: {', '.join(preamble.arrived)}"
        line = f"{late}; the next request contains this text and will miss the prompt cache"
        engine.control.emit_notice(line, warning=False)
    if preamble.text and engine.conversation.attach_preamble(preamble.text):
        preamble.settle()
        readings.preamble = preamble


async def _resend_lost_sections(engine: Engine, epoch: int) -> RequestPlan | None:
    """Attach the sections that a new epoch's window has lost, as far as there is room; the next step attaches the rest.
    Return the request with them, None if no epoch began since `epoch`."""
    plan = None
    for _ in range(TRIES):
        if engine.conversation.epoch.id == epoch:
            break
        epoch = engine.conversation.epoch.id
        await attach_changes(engine)
        plan = await ensure_fits(engine, await plan_request(engine))
    return plan


def _stop_asking(conversation: Conversation, spending: Spending, limits: Limits) -> None:
    """Raise `NexusError("limit", ...)` after `SPARE` steps beyond the limit that still requested calls."""
    started = conversation.log.was_started
    if limits.max_iterations is None and not limits.is_one_step:
        return
    batches = RunHistory.of(conversation, conversation.run).batches
    step_limit = len(batches) if limits.max_iterations is None else limits.max_iterations
    if limits.is_one_step:
        acted = (number for number, batch in enumerate(batches, 1) if any(started(call.id) for call in batch))
        step_limit = min(step_limit, next(acted, step_limit))
    if len(batches) < step_limit + SPARE:
        return
    hint = "Split the task"
    if not limits.is_one_step:
        hint = spending.raised_by("max_iterations", "Split the task, or raise limits.max_iterations")
    why = "the model keeps requesting calls that this run no longer allows"
    raise NexusError("limit", "the turn was stopped", why, hint)
