"""The wait of a session that a person has open: this process watches it and resumes natively, without a recap.

This process has the lock of the session, so no runner claims the run. If the process dies, the next runner does.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import closing

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import WAITING as WAITING_ERROR
from nexus_cli.core.event import Outcome
from nexus_cli.core.run import APPROVAL, DONE, FAILED, PROVIDER, WAITING, Run
from nexus_cli.runs.resume_trigger import claim_signals, keep_conversation, resume_trigger
from nexus_cli.runs.watch_waits import WaitWatch
from nexus_cli.session.session import Session

LOOK_SECONDS = 1.0
"""Seconds between two checks."""
Turn = Callable[[Run, Trigger], Awaitable[Outcome | None]]
"""Runs the turn of a claimed run, and returns its outcome."""
LEASE_SECONDS = 1e9
"""Seconds of the lease: as long as this process lives and has the lock of the run."""


def waiting_run(session: Session) -> Run | None:
    """Return the run of the session if it is one's own and waits, but not for an answer to a question, nor for the
    provider, which the person's next message asks."""
    ledger = session.ledger
    run = ledger.runs.of_session(session.id)
    if run is None or run.state != WAITING or not ledger.runs.is_own(run):
        return None
    return run if run.waits and run.waits.kind not in (APPROVAL, PROVIDER) else None


async def wait_until_over(session: Session) -> bool:
    """Return True once the wait is over, False if it has ended or another process resumed the session."""
    ledger = session.ledger
    with closing(WaitWatch()) as watch:
        while (run := waiting_run(session)) is not None:
            if ledger.runs.signals(run.key):
                return True
            await watch.look(ledger, run.key)
            if not ledger.runs.signals(run.key):
                await asyncio.sleep(LOOK_SECONDS)
        return False


async def resume_run(session: Session, turn: Turn) -> None:
    """Claim the run of the session, and record the outcome of its `turn`, which is cancelled if the run is cancelled
    elsewhere; nothing if there is none to resume, or if it waits again."""
    ledger, waiting = session.ledger, waiting_run(session)
    if waiting is None or not ledger.lock(waiting.id):
        return
    try:
        run = ledger.runs.claim(waiting.key, f"{socket.gethostname()}:{os.getpid()}", LEASE_SECONDS, utc_now())
        if run is not None:
            await _run_turn(session, run, turn)
    finally:
        ledger.unlock(waiting.id)


async def _run_turn(session: Session, run: Run, turn: Turn) -> None:
    runs = session.ledger.runs
    signals = runs.signals(run.key)
    trigger = keep_conversation(await resume_trigger(session, run, signals))
    watch = asyncio.create_task(_stop_if_cancelled(session, run))
    try:
        outcome = await turn(run, claim_signals(trigger, run, signals))
    finally:
        watch.cancel()
    if outcome is not None and not (outcome.error and outcome.error["kind"] == WAITING_ERROR):
        error = outcome.error["message"] if outcome.error else ""
        state, cost = FAILED if error else DONE, session.costs()[0]
        runs.finish(run, state, utc_now(), report=outcome.text, error=error, cost=cost)


async def _stop_if_cancelled(session: Session, run: Run) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if session.ledger.runs.lost({run.key: run.fence}):
            session.cancel("person")
            return
