"""The seams of a runner: producers that queue due runs, and hooks for the first and last step of a run by its trigger.

A plan, a service or a message to an agent becomes a run by `ledger.runs.queue`. The runner does the rest.
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


class RunProducer(Protocol):
    """Makes runs from a source that becomes due: plans, messages, calls of services."""

    async def look(self, ledger: Ledger) -> float | None:
        """Queue the runs that are due now with `ledger.runs.queue` and a `cause`, because several processes look at
        once.

        Return the latest time for the next look, in seconds since the epoch by the clock of the database
        (`ledger.runs.now()`); None: when the ledger has changed.
        """


async def use_plain_instruction(session: Session, run: Run) -> Trigger:
    """Return a trigger with the plain instruction of the run."""
    text = str(run.trigger.get("instruction") or run.trigger.get("message") or run.title)
    return Trigger(text, source=run.type, actor="nexus", facts=run.trigger)


async def _do_nothing(session: Session, run: Run, outcome: Outcome) -> None:
    """Do nothing after a run."""


@dataclass(frozen=True)
class RunHooks:
    """The hooks at the beginning and the end of runs with one type of trigger."""

    begin: Callable[[Session, Run], Awaitable[Trigger]] = use_plain_instruction
    """Records the entries before the trigger of the first turn (such as SPACE HISTORY) and returns that trigger. After
    a kill it is called again: it must find the entries that it recorded and continue after them."""
    end: Callable[[Session, Run, Outcome], Awaitable[None]] = _do_nothing
    """Called at the end of a run, before the end is recorded, with its session still open. May be called again after a
    kill."""
