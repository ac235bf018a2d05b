"""A waiting session that a person has open: it resumes when its wait is over, after messages of the person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import WAIT
from nexus_cli.core.run import Run
from nexus_cli.session.session import Session
from nexus_cli.ui.repl.repl import Repl


class SleepingRun:
    """Watches the wait of the session that a REPL shows."""

    def __init__(
        self, session: Callable[[], Session], repl: Repl, run_turn: Callable[[Trigger], Awaitable[None]]
    ) -> None:
        self._session, self._repl, self._run_turn = session, repl, run_turn
        self._waits = ""
        self._watched = ""
        """The session whose wait is watched."""

    @property
    def waits(self) -> str:
        """Describe the wait of the session, "" if it does not wait."""
        return self._waits if self._watched == self._session().id else ""

    def watch(self) -> None:
        """Start watching if the session waits, according to its newest turn or an earlier process."""
        session, outcome = self._session(), self._repl.outcome
        is_waiting = outcome is not None and not outcome.ok and not outcome.has_failed
        if self._watched == session.id or not (is_waiting or _may_wait(session)):
            return
        self._watched = session.id
        self._repl.jobs.start_background(self._watch(session))

    async def _watch(self, session: Session) -> None:
        from nexus_cli.runs.live_wait import wait_until_over, waiting_run  # noqa: PLC0415  (few sessions wait)

        run = waiting_run(session)
        self._waits = run.waits.why if run and run.waits else ""
        self._repl.view.invalidate()
        try:
            if not await wait_until_over(session):
                return
            jobs = self._repl.jobs
            while (job := jobs.current) is not None:  # the person's messages come first
                await asyncio.wait([job.task])
        finally:
            self._watched = self._waits = ""
            self._repl.view.invalidate()
        if self._session() is session:
            self._repl.jobs.start("turn", "", self._go_on(session))

    async def _go_on(self, session: Session) -> None:
        from nexus_cli.runs.live_wait import resume_run  # noqa: PLC0415

        async def turn(run: Run, trigger: Trigger) -> e.Outcome | None:
            self._repl.show_note(f"{run.id} resumed: {trigger.facts['came']}")
            await self._run_turn(trigger)
            return self._repl.outcome

        await resume_run(session, turn)


def describe_wait(session: Session) -> str:
    """Describe the wait of a resumed session, "" if it does not wait."""
    if not _may_wait(session):
        return ""
    from nexus_cli.runs.live_wait import waiting_run  # noqa: PLC0415

    run = waiting_run(session)
    return (
        f"{run.id} is waiting: {run.waits.why}. The run will continue here automatically." if run and run.waits else ""
    )


def _may_wait(session: Session) -> bool:
    """True if an earlier process may have left the session waiting."""
    try:
        return session.resumed and bool(session.record.memos(WAIT))
    except NexusError:
        return False
