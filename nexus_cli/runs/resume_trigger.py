"""The trigger of a run that goes on: what it waited for, what came, how long that took."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.run import Run, Signal
from nexus_cli.session.session import Session


async def resume_trigger(session: Session, run: Run, signals: Sequence[Signal]) -> Trigger:
    """Return the trigger of `run` after `signals`, the oldest first, have come."""
    return Trigger("The wait is over. Continue from here.", source="resume", actor="nexus", fresh=True)
