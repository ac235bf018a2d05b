"""The report of `nexus_cli.session.reports.context` on the session that runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nexus_cli.session.next_request.current import begins_epoch
from nexus_cli.session.next_request.draft import prepare_next_request
from nexus_cli.session.next_request.request import NextRequest
from nexus_cli.session.reports.context import value
from nexus_cli.session.reports.request_view import RequestView, change_notice, first_view, last_told
from nexus_cli.session.session_state import SessionState


def live_report(parts: SessionState) -> dict[str, Any]:
    """The report of what the next request of a session would hold that runs here."""
    if parts.lane_state.lane.is_recorded or parts.options is None:
        return value(_live_view(parts, prepare_next_request(parts)))
    options = replace(parts.options, model=parts.lane_state.model.info.name, recipe=parts.recipe.name)
    return value(first_view(options, parts.lane_state.settings, tuple(parts.lane_state.control.waiting_texts())))


def _live_view(parts: SessionState, request: NextRequest) -> RequestView:
    """Return the next request of a session that runs here and has begun."""
    engine = parts.lane_state
    lane, draft = engine.lane, engine.draft
    drops, notices = list(parts.drops()), list[str]()
    if draft is not None and request.epoch is draft.epoch:
        drops += draft.drops
        notices = [*draft.notices, change_notice(lane.epoch, request.epoch)]
    elif begins_epoch(engine):
        notices = ["the next request begins a new epoch; this shows the window as it was sent"]
    bounds = [bound.to_json() for bound in request.limits[1]]
    return RequestView(
        request, parts.session_id, engine.model.info.name, parts.recipe, lane.cursor, lane.timeline.last, drops, bounds,
        engine.context.counter.count, None, last_told(lane.timeline.memos, lane.cursor), tuple(notices),
        lane.timeline.memos,
    )  # fmt: skip
