"""A log for drafts: it reads another one, and records in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.entry import Entry, Epoch, Kind, Memo
from nexus_cli.core.services import Log, SeenFile
from nexus_cli.ledger import SessionLog


class DraftLog(MemoryLog):
    """Continues the numbers and memos of a log without changing it. No entry is appended to it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.last_id(), log.last_drop() if isinstance(log, SessionLog) else 0, log.next_epoch())
        self._log = log

    def read(self, first: int, last: int) -> Sequence[Entry]:
        return self._log.read(first, last)

    def user_messages(self, last: int, *, members: bool = True) -> Iterator[tuple[int, str]]:
        return self._log.user_messages(last, members=members)

    def count_entries(self, last: int) -> Sequence[tuple[Kind, str, int]]:
        return self._log.count_entries(last)

    def epoch(self, epoch_id: int) -> Epoch:
        return self._log.epoch(epoch_id)

    def seen_files(self) -> Sequence[SeenFile]:
        return self._log.seen_files()

    def memos(self, kind: str) -> Sequence[Memo]:
        return [*self._log.memos(kind), *super().memos(kind)]
