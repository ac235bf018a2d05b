"""The next request of the running session, made once per change of its inputs, when it is read.

No other file asks the token estimator for the size of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.context.tokens.estimator import Anchor
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role
from nexus_cli.session.cache.last_request import cache_life_of
from nexus_cli.session.lane_state import LaneState
from nexus_cli.session.next_request.request import Earlier, LimitsInForce, NextRequest, unreported_meter
from nexus_cli.session.spending import left_over


def window_request(engine: LaneState) -> NextRequest:
    """Return the request that the present window makes: a turn sends this now."""
    lane, model = engine.lane, engine.model
    state = (
        lane, lane.epoch.id, lane.changes, engine.meter, engine.meter.state, engine.budget, model.info,
        engine.cache.last, engine.event,
    )  # fmt: skip
    if engine.made is None or engine.made[0] != state:
        made = NextRequest.of(
            engine.meter, lane.epoch, lane.items, engine.budget, sent=lane.last_sent, told=engine.event,
            room=engine.room, earlier=_earlier(engine), in_force=lambda: _in_force(engine),
        )  # fmt: skip
        engine.made = state, made
    return engine.made[1]


def next_request(engine: LaneState) -> NextRequest:
    """Return the next request: that of the window, with what waits for the person's next message, under the epoch that
    it begins where that is drafted."""
    now, texts = window_request(engine), tuple(engine.control.waiting_texts())
    draft = engine.draft if is_drafted(engine) else None
    if draft is None and not texts:
        return now
    state = (now, draft, texts)
    if engine.foreseen is None or engine.foreseen[0] != state:
        count, number = engine.context.counter.count, engine.lane.timeline.last + 1
        waiting = [WindowItem(number, ItemForm.FULL, Message(Role.USER, text), tokens=count(text)) for text in texts]
        meter = engine.meter if draft is None else unreported_meter(engine.meter, draft.epoch, now.items)
        made = NextRequest.of(
            meter, draft.epoch if draft else now.epoch, now.items, engine.budget, waiting=waiting,
            sent=-1 if draft else now.sent, told=() if draft else now.told, room=now.room, earlier=now.earlier,
            in_force=lambda: _in_force(engine),
        )  # fmt: skip
        engine.foreseen = state, made
    return engine.foreseen[1]


def _earlier(engine: LaneState) -> Earlier:
    return Earlier(tuple(engine.cache.candidates()), cache_life_of(engine.model.info), engine.clock)


def _in_force(engine: LaneState) -> LimitsInForce:
    return engine.limits.in_force(engine) if engine.limits else (engine.spending.limits, ())


def begins_epoch(engine: LaneState) -> bool:
    """True if the next request begins a new epoch: another model or effort, or a reload."""
    epoch, model = engine.lane.epoch, engine.model
    return bool(engine.pending) or (epoch.model, epoch.effort) != (model.info.name, model.effort or epoch.effort)


def is_drafted(engine: LaneState) -> bool:
    """True if the epoch that the next request begins is known."""
    draft = engine.draft
    return draft is not None and draft.epoch.parent == engine.lane.epoch.id and begins_epoch(engine)


def rewritten_request(
    engine: LaneState, epoch: Epoch, items: Sequence[WindowItem], anchor: Anchor | None = None
) -> NextRequest:
    """Return the request that another window would make: `items` under `epoch`, with what was reported of them."""
    meter = unreported_meter(engine.meter, epoch, items, anchor)
    return NextRequest.of(meter, epoch, items, engine.budget, room=engine.room)


def unreported_tokens(engine: LaneState) -> int:
    """Return what the window takes by the estimate that is made where nothing of it was reported: by it a window is
    compared with one that was just rewritten."""
    return round(engine.meter.estimate_without_anchor(engine.lane.counted))


def most_with(engine: LaneState, added: int) -> int:
    """Return what the window takes at most with one more message of `added` tokens by our count."""
    return engine.meter.upper(engine.lane.counted + added)


def answer_cap(engine: LaneState) -> int:
    """Return the tokens that the model may answer the window with; raises as `Spending.output_cap`.

    In an epoch of which nothing was reported yet the known error is that of other contents: a tenth more is left to the
    request, as far as the least answer allows.
    """
    request, info = window_request(engine), engine.model.info
    expected = request.most
    if request.basis == "estimate":
        expected = max(expected, min(round(request.tokens * 1.1), left_over(info, engine.least_output)))
    return engine.spending.output_cap(info, expected)


def context_plan(engine: LaneState) -> dict[str, Any]:
    """Return what is about to be sent: the `context.plan` of interface.md section 7."""
    request = window_request(engine)
    sections = list(request.sections)
    return {
        "step": engine.step + 1,
        "epoch": request.epoch.id,
        "basis": request.basis,
        "budget": request.budget.described(),
        "sections": sections,
        "entries": len(request.items),
        "drops": [one["drop"] for one in sections if one.get("drop")],
        "facts": list(engine.facts),
        "limits": request.limits[0].described(),
    }
