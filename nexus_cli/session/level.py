"""The permission level of an open session, changed while it runs."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.core.limits import compose_limits
from nexus_cli.session.limits_record import CHANGED, LIMITS, SessionLimits, describe_changed_limits
from nexus_cli.session.options import limit_layers
from nexus_cli.session.session_state import SessionState

LAYER = "/permissions"
"""Layer of the limits that names a level chosen during the session."""


def at_level(state: SessionState, level: str) -> SessionState:
    """Return the state with `level` in force for its next call, as far as the other layers allow.

    The model is told with its next request if that changes what it was told last.
    """
    lane_state, dispatcher = state.lane_state, state.dispatcher
    if state.options is None:  # a bare session has one layer
        dispatcher.limits = replace(state.limits, allow=level)
        return replace(state, limits=dispatcher.limits)
    options = replace(state.options, allow=level, allow_from=LAYER)
    layers = limit_layers(lane_state.settings, state.recipe, options, state.resumed)
    dispatcher.limits, bounds = compose_limits(layers)
    lane_state.limits = SessionLimits(dispatcher, bounds, state.recipe)
    lane_state.made = lane_state.foreseen = None
    lane_state.notices[:] = [line for line in lane_state.notices if not line.startswith(CHANGED)]
    if changed := describe_changed_limits(lane_state.lane.timeline.memos(LIMITS), bounds):
        lane_state.notices.append(changed)
    return replace(state, limits=dispatcher.limits, bounds=bounds, options=options)
