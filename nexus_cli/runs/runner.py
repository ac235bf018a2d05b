"""`Runner`: looks at what runs wait for, takes up what is due, and drives it, several runs at once.

Several runners may work over one ledger, on this machine or on others: each run is driven by one of them at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Event
from nexus_cli.core.request import Provider
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger
from nexus_cli.runs.run_kind import Duty, RunKind

AT_ONCE = 4
"""Runs that a runner drives at the same time."""


def _always(ledger: Ledger, run: Run) -> str:
    return ""


def _show_nothing(run: Run, event: Event) -> None:
    """Show nothing of a run."""


class Runner:
    """Does what is due in one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        duties: Sequence[Duty] = (),
        kinds: Mapping[str, RunKind] | None = None,
        holds_back: Callable[[Ledger, Run], str] = _always,
        provider: Provider | None = None,
        settings: Settings | None = None,
        at_once: int = AT_ONCE,
        show: Callable[[Run, Event], None] = _show_nothing,
    ) -> None:
        """Look at `ledger`, which stays open; each run that is driven has a connection of its own.

        `duties` queue what is due before each look. `kinds` are by type of trigger; the others begin plainly.
        `holds_back` returns why a due run is not taken up now, "" if it is (the spending cap of a day). Without
        `provider` there is one of all models, closed by `aclose`; without `settings` each run has those of its folder.
        `show` gets the events of every run.
        """
        self._ledger = ledger
        self._duties, self._kinds = tuple(duties), dict(kinds or {})
        self._holds_back, self._provider, self._settings = holds_back, provider, settings
        self._at_once, self._show = at_once, show

    async def run_due(self, **where: Any) -> list[Run]:
        """Do what is due, until nothing is, and return the runs that were driven, as they are then.

        `where` limits it to runs with `key`, `entity`, `space`, `plan` or `session` as given.
        """
        return []

    async def serve(self, stop: asyncio.Event, **where: Any) -> None:
        """Do what is due until `stop` is set; then let the running turns finish their step. `where` as `run_due`."""

    async def aclose(self) -> None:
        """Stop what runs: another runner goes on with it. Close what this one opened. Safe to call twice."""
