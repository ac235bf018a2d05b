"""Services that the rooms above give a session: its workers, its plans, its part in spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.clock import Clock
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Plans, Spaces
from nexus_cli.lane.options import Options
from nexus_cli.ledger import FailoverLog, Ledger, SessionInfo
from nexus_cli.session.worker_slot import RunningWorkers

OpenSpaces = Callable[[Ledger, FailoverLog, SessionInfo, Options, Clock], Spaces | None]
"""Makes the spaces of a session; None where it acts for no agent of a space."""


@dataclass(frozen=True, slots=True)
class SessionServices:
    """Makers of the services of a session that lie above this room; it has no tool for those left out."""

    workers: Callable[[Any], RunningWorkers] | None = None
    """Makes what runs the workers of a `Session`, at the first call."""
    plans: Callable[[Any], Plans] | None = None
    """Makes what plans work for later, at the first call."""
    spaces: OpenSpaces | None = None


class PlanSlot:
    """Implements `Plans` for one session; the service is made at the first call."""

    def __init__(self, make: Callable[[Any], Plans]) -> None:
        self._make = make
        self.session: Any = None
        """The `Session`, set when it is made."""

    def change(self, call_id: str, action: str, words: Mapping[str, str]) -> ToolResult:
        """See `Plans`."""
        return self._make(self.session).change(call_id, action, words)

    def recover(self, call_id: str) -> ToolResult | None:
        """See `Plans`."""
        return self._make(self.session).recover(call_id)

    def describe(self, words: Mapping[str, str]) -> str:
        """See `Plans`."""
        return self._make(self.session).describe(words)
