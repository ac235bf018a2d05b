"""A log of entries in this process, for a `ContextManager` without a session, and for what is not saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nexus_cli.core.entry import PERSON, Drop, Entry, Epoch, Kind, Manifest, Memo, is_person
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.services import COMPLETE, FixedValues, SeenFile
from nexus_cli.core.usage import Usage


class MemoryLog:
    """A `Log` in lists, without the records that only a ledger needs."""

    def __init__(self, start: int = 0, drops: int = 0, epochs: int = 0) -> None:
        """Continue after the given numbers of entries, drops and epochs of another log."""
        self._entries: list[Entry] = []
        self._start = start
        self._last_drop, self._next_epoch = drops, epochs
        self._drops: list[Drop] = []
        self._memos: list[Memo] = []
        self._finishes: dict[int, str] = {}
        self._epochs: dict[int, Epoch] = {}
        self._started: set[str] = set()

    def append(self, entry: Entry, memos: Sequence[Memo] = ()) -> None:
        self._entries.append(entry)
        self._memos.extend(memos)

    async def save(self, error: NexusError | None = None, *, waits: bool = True) -> bool:
        if error is not None:
            raise error
        return False

    def read(self, first: int, last: int) -> Sequence[Entry]:
        return self._entries[max(0, first - 1 - self._start) : max(0, last - self._start)]

    def user_messages(self, last: int, *, members: bool = True) -> Iterator[tuple[int, str]]:
        mine = reversed(self.read(self._start + 1, last))
        people = (entry for entry in mine if is_person(entry.actor) and (members or entry.actor == PERSON))
        return ((entry.id, entry.message.content) for entry in people)

    def count_entries(self, last: int) -> Sequence[tuple[Kind, str, int]]:
        return [(entry.kind, entry.actor, 1) for entry in self.read(self._start + 1, last)]

    def last_id(self) -> int:
        return self._start + len(self._entries)

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        self._drops.extend(drops)
        self._memos.extend(memos)
        self._epochs[epoch.id] = epoch
        self._next_epoch = epoch.id + 1

    def next_epoch(self) -> int:
        return self._next_epoch

    def epoch(self, epoch_id: int) -> Epoch:
        if epoch_id not in self._epochs:
            raise UsageError(f"epoch {epoch_id}", "the session has no such epoch")
        return self._epochs[epoch_id]

    def record_request(
        self,
        manifest: Manifest,
        fixed: Sequence[FixedValues],
        head_lines: Sequence[bytes],
        with_preambles: Sequence[FixedValues] = (),
    ) -> None:
        """See `Log`."""

    def record_reply(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent_body: str = ""
    ) -> None:
        if entry is not None:
            self.append(entry)
            self._finishes[entry.id] = finish

    def ends_unfinished(self) -> bool:
        newest = self._entries[-1] if self._entries else None
        return newest is not None and self._finishes.get(newest.id, "") not in COMPLETE

    def seen_files(self) -> Sequence[SeenFile]:
        return ()

    def next_drop(self) -> str:
        self._last_drop += 1
        return f"d{self._last_drop}"

    def record_drop(self, drop: Drop) -> None:
        self._drops.append(drop)

    def drops(self) -> list[Drop]:
        return list(self._drops)

    def record_memo(self, memo: Memo) -> None:
        self._memos.append(memo)

    def memos(self, kind: str) -> Sequence[Memo]:
        return [memo for memo in self._memos if memo.kind == kind]

    def record_start(self, call_id: str, name: str, memos: Sequence[Memo] = ()) -> None:
        self._started.add(call_id)
        for memo in memos:
            self.record_memo(memo)

    def was_started(self, call_id: str) -> bool:
        return call_id in self._started

    def open_lane(self, agent: str, at_entry: int | None = None) -> MemoryLog:
        return MemoryLog(at_entry or 0, epochs=self._next_epoch)
