"""The seams of a runner: duties that queue what is due, and the first and the last step of runs by their trigger.

A plan, a service or a message to an agent becomes a run by `ledger.runs.queue`. From then on the runner does the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.event import Outcome
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger
from nexus_cli.session.session import Session


class Duty(Protocol):
    """Something that makes runs of what is due: plans, messages, calls of services."""

    async def look(self, ledger: Ledger) -> float | None:
        """Queue what is due now (`ledger.runs.queue`, with a `cause`: several processes look at the same time).

        Return when to look again at the latest, in seconds since the epoch by the clock of the database
        (`ledger.runs.now()`); None: when the ledger has changed.
        """
        ...


async def begin_plainly(session: Session, run: Run) -> Trigger:
    """Return the instruction of the run; nothing is before it."""
    text = str(run.trigger.get("instruction") or run.trigger.get("message") or run.title)
    return Trigger(text, source=run.type, actor="nexus", facts=run.trigger)


async def _do_nothing(session: Session, run: Run, outcome: Outcome) -> None:
    """Do nothing more after a run."""


@dataclass(frozen=True)
class RunKind:
    """The steps by which runs of one type of trigger begin and end."""

    begin: Callable[[Session, Run], Awaitable[Trigger]] = begin_plainly
    """Records what is before the trigger of the first turn (such as SPACE HISTORY) and returns that trigger. After a
    kill it is called again: then it finds what it recorded before, and goes on there."""
    end: Callable[[Session, Run, Outcome], Awaitable[None]] = _do_nothing
    """Called when a run has ended, before that is recorded: after a kill perhaps again. Its session is still open."""
