"""Which calls began to run: after a kill none of them is run again unseen.

The ledger's `LaneLog` is one across processes.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class StartLog(Protocol):
    """Records which calls began to run, across processes."""

    def record_start(self, call_id: str, name: str) -> None:
        """Record, before the tool runs."""

    def was_started(self, call_id: str) -> bool:
        """True if the call ever began to run."""
        ...


class MemoryStartLog:
    """A `StartLog` in memory: the calls that began in this process."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def record_start(self, call_id: str, name: str) -> None:
        """See `StartLog`."""
        self._ids.add(call_id)

    def was_started(self, call_id: str) -> bool:
        """See `StartLog`."""
        return call_id in self._ids
