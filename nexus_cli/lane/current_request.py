"""Build the next request of the running session: on demand, and again only after its inputs have changed.

The tests allow few other files to ask the token estimator for the size of a request (see `lane/README.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from nexus_cli.context.tokens.estimator import Anchor
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role
from nexus_cli.lane.cache.sent_request import cache_life_of
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.lane.next_request import EarlierRequests, LimitsInForce, NextRequest, unreported_estimator
from nexus_cli.lane.spending import left_over
from nexus_cli.lane.upcoming import Upcoming

if TYPE_CHECKING:
    from nexus_cli.core.json_types.context_report import SectionObject
    from nexus_cli.core.json_types.stream_lines import PlanObject


def window_request(lane_state: LaneState) -> NextRequest:
    """Return the request of the present window, which a turn would send now."""
    lane, model = lane_state.lane, lane_state.model
    state = (
        lane,
        lane.epoch.id,
        lane.changes,
        lane_state.window.estimator,
        lane_state.window.estimator.state,
        lane_state.window.budget,
        model.info,
        lane_state.cache.last,
        lane_state.upcoming.event,
    )
    if lane_state.upcoming.window_request is None or lane_state.upcoming.window_request[0] != state:
        made = NextRequest.of(
            lane_state.window.estimator,
            lane.epoch,
            lane.items,
            lane_state.window.budget,
            sent=lane.last_sent,
            told=lane_state.upcoming.event,
            room=lane_state.window.room,
            earlier=EarlierRequests(
                tuple(lane_state.cache.candidates()), cache_life_of(lane_state.model.info), lane_state.clock
            ),
            in_force=lambda: _in_force(lane_state),
        )
        lane_state.upcoming.window_request = state, made
    return lane_state.upcoming.window_request[1]


def next_request(lane_state: LaneState) -> NextRequest:
    """Return the next request: the window, with the texts waiting for the person's next message, under the drafted
    epoch if it begins one."""
    now, texts = window_request(lane_state), tuple(lane_state.control.waiting_texts())
    draft = lane_state.upcoming.draft if is_drafted(lane_state.window, lane_state.upcoming) else None
    if draft is None and not texts:
        return now
    state = (now, draft, texts)
    if lane_state.upcoming.next_request is None or lane_state.upcoming.next_request[0] != state:
        count, number = lane_state.window.context.counter.count, lane_state.lane.timeline.last + 1
        waiting = [WindowItem(number, ItemForm.FULL, Message(Role.USER, text), tokens=count(text)) for text in texts]
        estimator = (
            lane_state.window.estimator
            if draft is None
            else unreported_estimator(lane_state.window.estimator, draft.epoch, now.items)
        )
        made = NextRequest.of(
            estimator,
            draft.epoch if draft else now.epoch,
            now.items,
            lane_state.window.budget,
            waiting=waiting,
            sent=-1 if draft else now.sent,
            told=() if draft else now.told,
            room=now.room,
            earlier=now.earlier,
            in_force=lambda: _in_force(lane_state),
        )
        lane_state.upcoming.next_request = state, made
    return lane_state.upcoming.next_request[1]


def _in_force(lane_state: LaneState) -> LimitsInForce:
    return lane_state.limits.in_force(lane_state) if lane_state.limits else (lane_state.spending.limits, ())


def begins_epoch(window: LaneWindow, upcoming: Upcoming) -> bool:
    """True if the next request begins a new epoch, for another model or effort or a reload."""
    epoch, model = window.lane.epoch, window.model
    return bool(upcoming.pending) or (epoch.model, epoch.effort) != (
        model.info.name,
        model.effort or epoch.effort,
    )


def is_drafted(window: LaneWindow, upcoming: Upcoming) -> bool:
    """True if the next request begins an epoch that is already drafted."""
    draft = upcoming.draft
    return draft is not None and draft.epoch.parent == window.lane.epoch.id and begins_epoch(window, upcoming)


def begins_undrafted(window: LaneWindow, upcoming: Upcoming) -> bool:
    """True if the next request begins an epoch of which the system text is not read yet."""
    return begins_epoch(window, upcoming) and not is_drafted(window, upcoming)


def rewritten_request(
    window: LaneWindow, epoch: Epoch, items: Sequence[WindowItem], anchor: Anchor | None = None
) -> NextRequest:
    """Return the request of another window: `items` under `epoch`; `anchor` is the last report on it."""
    estimator = unreported_estimator(window.estimator, epoch, items, anchor)
    return NextRequest.of(estimator, epoch, items, window.budget, room=window.room)


def unreported_tokens(window: LaneWindow) -> int:
    """Estimate the window's tokens without any report on it, to compare it with one that was just rewritten."""
    return round(window.estimator.estimate_without_anchor(window.lane.counted))


def most_with(window: LaneWindow, added: int) -> int:
    """Return the upper bound for the window's tokens with one more message of `added` counted tokens."""
    return window.estimator.upper(window.lane.counted + added)


def answer_cap(lane_state: LaneState) -> int:
    """Return the output cap of the next request in tokens. Raises as `Spending.output_cap` does.

    Before the first report of an epoch, the known error is that of other contents. A tenth more is then reserved for
    the request, as far as the least answer allows.
    """
    request, info = window_request(lane_state), lane_state.model.info
    expected = request.most
    if request.basis == "estimate":
        expected = max(expected, min(round(request.tokens * 1.1), left_over(info, lane_state.window.least_output)))
    return lane_state.spending.output_cap(info, expected)


def context_plan(request: NextRequest, step: int, facts: Sequence[Mapping[str, Any]]) -> PlanObject:
    """Return the request of step `step`, with the remembered `facts` in it, as `context.plan` of the JSON lines."""
    sections = cast("list[SectionObject]", list(request.sections))
    return {
        "step": step,
        "epoch": request.epoch.id,
        "basis": request.basis,
        "budget": request.budget.to_json(),
        "sections": sections,
        "entries": len(request.items),
        "drops": [drop for one in sections if (drop := one.get("drop"))],
        "facts": [dict(fact) for fact in facts],
        "limits": request.limits[0].to_json(),
    }
