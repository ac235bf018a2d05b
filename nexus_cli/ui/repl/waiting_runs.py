"""Follow the unattended runs of the project that wait for the person, and tell of new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nexus_cli.core.errors import NexusError
from nexus_cli.session.session import Session
from nexus_cli.ui.repl.repl import Repl

LOOK_SECONDS = 30.0
"""Seconds between two looks; the end of a turn or command is one too."""


class WaitingRuns:
    """The runs that wait for the person while a REPL is open."""

    def __init__(self, session: Callable[[], Session], repl: Repl) -> None:
        self._session, self._repl = session, repl
        self._lines: dict[int, str] | None = None
        """A line for each, by the key of the run; None before the first look, whose lines the greeting has."""
        self._again = asyncio.Event()

    @property
    def count(self) -> int:
        return len(self._lines or ())

    def look_again(self) -> None:
        """Look at once."""
        self._again.set()

    async def follow(self, *, at_once: bool) -> None:
        """Look for such runs as long as the REPL runs; begin `at_once`, unless none waits yet."""
        if at_once:
            self._again.set()
        else:
            self._lines = {}
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), LOOK_SECONDS)
            self._again.clear()
            lines = await asyncio.to_thread(self._look)
            new = lines.keys() - self._lines.keys() if self._lines is not None else ()
            if self._lines is None or lines.keys() != self._lines.keys():
                self._lines = lines
                self._repl.view.invalidate()
            for key in new:
                self._repl.show_note(f"nexus: {lines[key]}")

    def _look(self) -> dict[int, str]:
        session = self._session()
        ledger = session.ledger
        with suppress(NexusError):  # the session reports a failed ledger
            if ledger.is_kept and ledger.has_runs():
                from nexus_cli.runs.missed_runs import describe_rest, waiting_runs  # noqa: PLC0415  (few have runs)

                return {run.key: describe_rest(ledger, run) for run in waiting_runs(ledger, session.folder)}
        return {}
