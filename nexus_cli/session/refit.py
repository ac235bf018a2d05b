"""A window that became smaller: the sections of the epoch are planned anew for the budget that there is now.

The forms of the static sections are chosen once per epoch. Where the window is another one afterwards (a resume with
other settings, a switch of model, a provider that names a smaller one), they may take more than their share, or all.
"""

from __future__ import annotations

import json

from nexus_cli.context.sections.planner import JOINT, section_budget
from nexus_cli.context.window.groups import flatten
from nexus_cli.core.entry import Epoch
from nexus_cli.core.event import Notice
from nexus_cli.session.cache import rewritten
from nexus_cli.session.engine import Engine

WINDOW = "window"
"""Cause of the epoch; also the memo that says for which `window` an `epoch` that fits was looked at without gain."""
WORTH = 0.1
"""Share of system text and tools that has to become free, where they fit as they are: the cache goes cold for it."""


async def refit(engine: Engine) -> bool:
    """Begin an epoch with sections for the present budget, where those of the lane's epoch are too large for it and
    would become smaller; True when one began. Sends nothing."""
    lane = engine.lane
    epoch = lane.epoch
    fixed = epoch.system_tokens + epoch.tools_tokens
    hopeless = fixed > engine.meter.countable(engine.room)
    outgrown = _taken(epoch) > section_budget(engine.budget.available)
    if not hopeless and not (outgrown and not _looked_at(engine)):
        return False
    planned = await engine.frame()
    saved = fixed - planned.fixed
    if saved <= (0 if hopeless else int(WORTH * fixed)):
        if not hopeless:
            lane.timeline.memo(WINDOW, {"epoch": epoch.id, "window": engine.budget.window})
        return False
    before = round(engine.meter.unanchored(lane.counted))
    head, cause = flatten(lane.groups()), engine.pending or WINDOW
    engine.begin(head, cause, planned, notes=lambda _: [rewritten(engine, before)])
    engine.pending = ""
    engine.emit(Notice(f"the sections were planned anew for a window of {engine.budget.window:,} tokens"))
    return True


def _taken(epoch: Epoch) -> int:
    """Tokens of the sections in the system text, with what joins them."""
    rows = json.loads(epoch.sections)
    return sum(int(one["tokens"]) + JOINT for one in rows if one.get("form") != "dropped")


def _looked_at(engine: Engine) -> bool:
    """Whether a plan for this window was no better than the epoch's own."""
    seen = {"epoch": engine.lane.epoch.id, "window": engine.budget.window}
    return any(memo.value == seen for memo in engine.lane.timeline.memos(WINDOW))
