"""Estimates the size of the next request for the status line, where the session does not know it yet: before its first
request, or when the system text has changed. Looked up once, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.reports.live import live_report
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status

Key = tuple[str, str, str, int, int]
LATER = 0.4
"""Seconds until it is looked up: first the prompt stands."""


class InitialEstimate:
    """Fills in the figure that a session knows only once somebody has looked."""

    def __init__(
        self, start_background: Callable[[Coroutine[Any, Any, None]], None], found: Callable[[], None]
    ) -> None:
        """`start_background` lets work run on the loop; `found` is called when a figure has come."""
        self._background = start_background
        self._found = found
        self._tokens: dict[Key, int] = {}

    def of(self, session: Session) -> Status:
        """Return the status of `session`, with what system text, tools and the like will take, once known."""
        status = session.status()
        if status.settled:
            return status
        key = (status.session, status.model, status.effort, status.used, status.waiting)
        if key not in self._tokens and _looping():
            self._tokens[key] = 0
            self._background(self._look(session, key))
        return replace(status, used=self._tokens.get(key, 0) or status.used)

    async def _look(self, session: Session, key: Key) -> None:
        try:
            await asyncio.sleep(LATER)
            if session.busy or session.status().settled:
                return
            value = await asyncio.to_thread(live_report, session.state)
        except (NexusError, asyncio.CancelledError):  # /context says why; the end of the REPL is no news
            return
        self._tokens[key] = int(value["budget"]["used"]["total"]) if value else 0
        self._found()


def _looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
