"""A waiting session that a person has open: it resumes when its wait is over, after messages of the person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import WAIT
from nexus_cli.core.run import Run
from nexus_cli.core.shared_types import TakeText
from nexus_cli.session.session import Session
from nexus_cli.ui.repl.job_runner import JobRunner


class SleepingRun:
    """Watches the wait of the session that a REPL shows."""

    def __init__(
        self,
        session: Callable[[], Session],
        jobs: JobRunner,
        run_turn: Callable[[Trigger], Awaitable[None]],
        outcome: Callable[[], e.Outcome | None],
        show_note: TakeText,
        changed: Callable[[], None],
    ) -> None:
        """`outcome` returns that of the newest turn; `changed` is called when `waits` changes."""
        self._session, self._jobs, self._run_turn, self._outcome = session, jobs, run_turn, outcome
        self._show_note, self._changed = show_note, changed
        self._waits = ""
        self._watched = ""
        """The session whose wait is watched."""

    @property
    def waits(self) -> str:
        """Describe the wait of the session, "" if it does not wait."""
        return self._waits if self._watched == self._session().id else ""

    def watch(self) -> None:
        """Start watching if the session waits, according to its newest turn or an earlier process."""
        session, outcome = self._session(), self._outcome()
        said = outcome is not None and not outcome.ok and not outcome.has_failed
        if self._watched == session.id or not (said or _may_wait(session)):
            return
        self._watched = session.id
        self._jobs.start_background(self._watch(session))

    async def _watch(self, session: Session) -> None:
        from nexus_cli.runs.live_wait import wait_until_over, waiting_run  # noqa: PLC0415  (few sessions wait)

        run = waiting_run(session)
        self._waits = run.waits.why if run and run.waits else ""
        self._changed()
        try:
            if not await wait_until_over(session):
                return
            while (job := self._jobs.current) is not None and job.task is not None:  # the person's messages come first
                await asyncio.wait([job.task])
        finally:
            self._watched = self._waits = ""
            self._changed()
        if self._session() is session:
            self._jobs.start("turn", "", self._go_on(session))

    async def _go_on(self, session: Session) -> None:
        from nexus_cli.runs.live_wait import resume_run  # noqa: PLC0415

        async def turn(run: Run, trigger: Trigger) -> e.Outcome | None:
            self._show_note(f"{run.id} resumed: {trigger.facts['came']}")
            await self._run_turn(trigger)
            return self._outcome()

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
        return session.state.resumed and bool(session.record.memos(WAIT))
    except NexusError:
        return False
