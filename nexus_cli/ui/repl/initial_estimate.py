"""Estimate the size of the next request for the status line while the session does not know it: before its first
request, or after a change of the system text. Computed once, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.reports.context import live_report
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status

Key = tuple[str, str, str, int, int]
LATER = 0.4
"""Seconds before the estimate, so that the prompt appears first."""


class InitialEstimate:
    """Completes a session's status with an estimate."""

    def __init__(
        self, start_background: Callable[[Coroutine[Any, Any, None]], object], found: Callable[[], None]
    ) -> None:
        """`start_background` runs work on the loop; `found` is called when an estimate is ready."""
        self._background = start_background
        self._found = found
        self._tokens: dict[Key, int] = {}

    def of(self, session: Session) -> Status:
        """Return the status of `session`, with the tokens of system text, tools and the like once they are known."""
        status = session.status()
        if status.settled:
            return status
        key = (status.session, status.model, status.effort, status.used, status.waiting)
        if key not in self._tokens and is_looping():
            self._tokens[key] = 0
            self._background(self._look(session, key))
        return replace(status, used=self._tokens.get(key, 0) or status.used)

    async def _look(self, session: Session, key: Key) -> None:
        try:
            await asyncio.sleep(LATER)
            if session.busy or session.status().settled:
                return
            value = await asyncio.to_thread(live_report, session.state)
        except (NexusError, asyncio.CancelledError):  # /context shows the error; the end of the REPL is no error
            return
        self._tokens[key] = int(value["budget"]["used"]["total"]) if value else 0
        self._found()


def is_looping() -> bool:
    """Return True in a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
