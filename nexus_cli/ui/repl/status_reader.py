"""Read the figures of a session for the status line, and in the background what takes longer: the tokens of the next
request while the session does not know them, the cache history of a resumed session, the time when the cache expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.reports.context import estimate_next_tokens
from nexus_cli.reports.git_branch import read_branch
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status
from nexus_cli.ui.repl.repl import Repl

FIRST_READ_SECONDS = 0.4
"""Seconds before the status is read for the first time, so that the prompt appears first."""


class StatusReader:
    """Reads the status of a session, and tells when it is worth reading again."""

    def __init__(self, repl: Repl) -> None:
        self._repl = repl
        self._results: dict[Hashable, Any] = {}
        """What a look has found, None while it runs or if it failed."""
        self._timer: asyncio.TimerHandle | None = None

    def read(self, session: Session) -> Status:
        """Return the status. A warning of a next request that misses the cache at some cost follows."""
        status = replace(session.status(), branch=read_branch(session.folder))
        conversation = session.conversation
        if not status.settled:
            key = (status.session, status.model, status.effort, status.used, status.waiting)
            return replace(status, used=self._look(session, key, estimate_next_tokens) or status.used)
        if session.busy:
            return status
        if conversation.sent.last is None:
            if session.resumed:
                self._look(session, session.id, Session.prepare_next_request)
            return status
        self._repl.jobs.start_background(self._warn_of_cold_request(session))
        if self._timer is not None:
            self._timer.cancel()
        seconds = conversation.sent.seconds_until_cold(conversation.clock())
        self._timer = (
            asyncio.get_running_loop().call_later(seconds + 1, self._repl.refresh_status) if seconds > 0 else None
        )
        return status

    def _look(self, session: Session, key: Hashable, work: Callable[[Session], Any]) -> Any:
        """Return the finding of `work` in the session, None until there is one: it runs once, in the background."""
        if key not in self._results:
            self._results[key] = None
            self._repl.jobs.start_background(self._find(session, key, work))
        return self._results.get(key)

    async def _warn_of_cold_request(self, session: Session) -> None:
        with suppress(NexusError, asyncio.CancelledError):  # as in `_find`
            if not session.busy and (line := await session.warn_of_cold_request()):
                self._repl.show_note(f"{line[:1].upper()}{line[1:]}.", "warn")

    async def _find(self, session: Session, key: Hashable, work: Callable[[Session], Any]) -> None:
        with suppress(NexusError, asyncio.CancelledError):  # the turn shows the error; the REPL may end
            await asyncio.sleep(FIRST_READ_SECONDS)
            if not session.busy:
                self._results[key] = await asyncio.to_thread(work, session)
                self._repl.refresh_status()
