"""Report on the next request of the running session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus_cli.lane.current_request import begins_epoch
from nexus_cli.lane.next_request import NextRequest
from nexus_cli.reports.context import request_value
from nexus_cli.reports.request_view import RequestView, change_notice, first_view, last_told
from nexus_cli.session.draft import prepare_next_request
from nexus_cli.session.session_state import SessionState

if TYPE_CHECKING:
    from nexus_cli.core.json_types.context_report import ContextReport


def live_report(state: SessionState) -> ContextReport:
    """Return the report of the next request of a session that runs here (`nexus docs json`).

    Raises `NexusError` if the ledger fails.
    """
    if state.lane_state.lane.is_recorded or state.options is None:
        return request_value(_live_view(state, prepare_next_request(state)))
    return request_value(first_view(state))


def _live_view(state: SessionState, request: NextRequest) -> RequestView:
    """Return the next request of a running session that has begun."""
    lane_state = state.lane_state
    lane, draft = lane_state.lane, lane_state.upcoming.draft
    drops, notices = list(state.drops()), list[str]()
    if draft is not None and request.epoch is draft.epoch:
        drops += draft.drops
        notices = [*draft.notices, change_notice(lane.epoch, request.epoch)]
    elif begins_epoch(lane_state.window, lane_state.upcoming):
        notices = ["the next request rewrites the window; this shows it as it was sent"]
    bounds = [bound.to_json() for bound in request.limits[1]]
    return RequestView(
        request,
        state.session_id,
        lane_state.model.info.name,
        state.recipe,
        lane.cursor,
        lane.timeline.last,
        drops,
        bounds,
        lane_state.window.context.counter.count,
        None,
        last_told(lane.timeline.memos, lane.cursor),
        tuple(notices),
        lane.timeline.memos,
    )
