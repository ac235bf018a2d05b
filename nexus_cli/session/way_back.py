"""Whether the model of a lane can read back what was left out of its window."""

from __future__ import annotations

from nexus_cli.context.window.lane_truncation import RECALL
from nexus_cli.session.lane_state import LaneState


def can_recall(engine: LaneState) -> bool:
    """The tool is offered, and its calls are not refused. The person can read every drop in any case."""
    allowed = engine.spending.limits.tools
    offered = (tool.get("function", {}).get("name") for tool in engine.lane.epoch.tools)
    return RECALL in offered and (allowed is None or RECALL in allowed)
