"""Follow the provider's cache while the REPL waits: show that the next request is cold before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.session.cold_request import seconds_until_cold, warn_of_cold_request
from nexus_cli.session.draft import prepare_next_request
from nexus_cli.session.session import Session
from nexus_cli.ui.repl.initial_estimate import LATER, is_looping


class ColdRequestWatch:
    """Reads the cache history of a resumed session, warns of an expensive request, refreshes when the cache expires."""

    def __init__(
        self,
        start_background: Callable[[Coroutine[Any, Any, None]], object],
        refresh: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """`start_background` runs work on the loop; `refresh` reads the status line again; `warn` shows a line."""
        self._background = start_background
        self._refresh = refresh
        self._warn = warn
        self._read = ""
        """The session whose history was read."""
        self._timer: asyncio.TimerHandle | None = None

    def check(self, session: Session) -> None:
        """Look at the next request of a session in which nothing runs. Cheap."""
        state = session.state
        if not is_looping() or session.busy or not state.engine.conversation.is_recorded:
            return
        if state.engine.conversation.sent.last is None:
            if self._read != session.id and state.resumed:
                self._read = session.id
                self._background(self._load(session))
            return
        if line := warn_of_cold_request(state):
            self._warn(f"{line[:1].upper()}{line[1:]}.")
        if self._timer is not None:
            self._timer.cancel()
        seconds = seconds_until_cold(state) or 0
        self._timer = asyncio.get_running_loop().call_later(seconds + 1, self._refresh) if seconds > 0 else None

    async def _load(self, session: Session) -> None:
        try:
            await asyncio.sleep(LATER)
            if session.busy:
                return
            await asyncio.to_thread(prepare_next_request, session.state)
        except (NexusError, asyncio.CancelledError):  # the turn shows the error; the end of the REPL is no error
            return
        self._refresh()
