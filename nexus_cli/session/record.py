"""What a session has recorded, as reports read it: from its ledger, and from memory where the ledger has failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nexus_cli.core.entry import Drop, Entry


class Record(Protocol):
    """The reading side of a session's main lane."""

    def last_id(self) -> int:
        """Id of the newest entry, 0 when there is none."""

    def read(self, first: int, last: int) -> Sequence[Entry]:
        """The entries from `first` to `last`, both included."""

    def drops(self) -> Sequence[Drop]:
        """Everything left out so far, oldest first, without texts."""

    def original(self, drop_id: str) -> str | None:
        """The whole original of a drop, or None; not counted as a recall."""

    def was_started(self, call_id: str) -> bool:
        """Whether a call began to run at some time."""
