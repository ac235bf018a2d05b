"""The log of a session that goes on when the ledger does not (interface.md section 4).

The first commit that fails in any lane is told once; from then on what happens in all lanes is kept in memory, and what
was recorded before is still read from the ledger as far as it answers. With `require_save` the failure is raised
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nexus_cli.context.timeline import MemoryLog
from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo, format_transcript
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Calibration, Fixed, Log
from nexus_cli.core.usage import Usage
from nexus_cli.session.logger import SessionLogger

T = TypeVar("T")


@dataclass
class _Shared:
    """What the lanes of a session have in common."""

    drops: int
    """Number of the newest drop id."""
    epochs: int
    """The id that the next epoch takes."""
    memory: MemoryLog | None = None
    """That of the lane that failed first; the others number their drops and epochs with it."""


class SteadyLog:
    """Implements `Log`, `Recall`, `Seen`, `Calibrations`, `Counts` and `Starts` over a `SessionLogger`."""

    def __init__(
        self, logger: SessionLogger, *, require_save: bool, warn: Callable[[str], None], shared: _Shared | None = None
    ) -> None:
        """`shared` is given by the lane that this one is a side lane of. Over a ledger that is only read all is kept in
        memory from the start, without a word."""
        self.logger = logger
        self._require_save = require_save
        self._warn = warn
        self._shared = shared or _Shared(logger.last_drop(), logger.next_epoch())
        self._own: MemoryLog | None = None
        self._split = logger.last_id()
        self._started: set[str] = set()
        self._digests: dict[str, str] = {}
        if not logger.ledger.writes:
            self._go_on_without()

    @property
    def saving(self) -> bool:
        """False once the ledger has failed, and where it is only read."""
        return self._shared.memory is None

    def side(self, agent: str, at_entry: int | None) -> Log:
        """The log of a side lane: a fork at that entry, or a lane of its own."""
        return self._try(lambda: self._side(agent, at_entry), lambda memory: memory.side(at_entry or 0))

    def _side(self, agent: str, at_entry: int | None) -> Log:
        logger = self.logger.fork(agent, agent, at_entry) if at_entry is not None else self.logger.separate(agent)
        return SteadyLog(logger, require_save=self._require_save, warn=self._warn, shared=self._shared)

    @property
    def _memory(self) -> MemoryLog | None:
        """Where this lane goes on, once the ledger has failed."""
        if self._own is None and self._shared.memory is not None:
            self._own = self._shared.memory.side(self._split)
        return self._own

    def _try(self, saved: Callable[[], T], kept: Callable[[MemoryLog], T]) -> T:
        if self._memory is None:
            try:
                return saved()
            except NexusError as error:
                problem = self._plain(error)
                if self._require_save or problem.kind != "ledger":
                    raise problem from error
                what = "what follows" if problem is not error else "the session"
                self._warn(f"{problem.message}; {what} goes on in memory and is lost when it ends")
                self._go_on_without()
        assert self._memory is not None, "the ledger has failed"
        return kept(self._memory)

    def _go_on_without(self) -> None:
        self._own = self._shared.memory = MemoryLog(self._split, self._shared.drops, self._shared.epochs)

    def _plain(self, error: NexusError) -> NexusError:
        """`error`, or that the session is no longer there, which shows in many ways."""
        try:
            gone = not self.logger.session
        except NexusError as missing:
            gone = missing.kind == "usage"
        if not gone:
            return error
        return NexusError("ledger", "the saved session is gone", "it was deleted by another process", "Start a new one")

    # Log

    def append(self, entry: Entry) -> None:
        """See `Log`."""
        self._try(lambda: self.logger.append(entry), lambda memory: memory.append(entry))
        if self._memory is None:
            self._split = entry.id

    def read(self, first: int, last: int) -> Sequence[Entry]:
        """See `Log`."""
        if self._memory is None:
            return self.logger.read(first, last)
        old = self.logger.read(first, min(last, self._split)) if first <= self._split else []
        return [*old, *self._memory.read(max(first, self._split + 1), last)]

    def said(self, last: int) -> Iterator[tuple[int, str]]:
        """See `Log`."""
        if self._memory is not None:
            yield from self._memory.said(last)
            last = min(last, self._split)
        yield from self.logger.said(last)

    def tally(self, last: int) -> list[tuple[Kind, str, int]]:
        """See `Log`."""
        kept = self._memory.tally(last) if self._memory is not None else ()
        until = last if self._memory is None else min(last, self._split)
        known: list[tuple[Kind, str, int]] = self._asked(lambda: self.logger.tally(until), [])
        return [*known, *kept]

    def last_id(self) -> int:
        """See `Log`."""
        return self._split if self._memory is None else self._memory.last_id()

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        """See `Log`."""
        self._try(
            lambda: self.logger.begin_epoch(epoch, drops, memos),
            lambda memory: memory.begin_epoch(epoch, drops, memos),
        )
        self._shared.epochs = epoch.id + 1

    def next_epoch(self) -> int:
        """See `Log`."""
        return self._try(self.logger.next_epoch, lambda memory: memory.next_epoch())

    def epoch(self, epoch_id: int) -> Epoch:
        """See `Log`."""
        memory = self._memory
        return memory.epoch(epoch_id) if memory and memory.has(epoch_id) else self.logger.epoch(epoch_id)

    def sending(
        self,
        manifest: Manifest,
        fixed: Sequence[Fixed],
        head_lines: Sequence[bytes],
        dressed: Sequence[Fixed] = (),
    ) -> None:
        """See `Log`."""
        self._try(
            lambda: self.logger.sending(manifest, fixed, head_lines, dressed),
            lambda memory: memory.sending(manifest, fixed, head_lines, dressed),
        )

    def received(self, step: int, usage: Usage, finish: str, reported: bool) -> None:
        """See `Log`."""
        self._try(
            lambda: self.logger.received(step, usage, finish, reported),
            lambda memory: memory.received(step, usage, finish, reported),
        )

    def replied(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent: str = ""
    ) -> None:
        """See `Log`."""
        self._try(
            lambda: self.logger.replied(entry, step, usage, finish, reported, sent),
            lambda memory: memory.replied(entry, step, usage, finish, reported, sent),
        )
        if entry is not None and self._memory is None:
            self._split = entry.id

    def next_drop(self) -> str:
        """See `Log`."""
        name = self._try(self.logger.next_drop, lambda memory: memory.next_drop())
        self._shared.drops = int(name[1:])
        return name

    def drop(self, drop: Drop) -> None:
        """See `Log`."""
        self._try(lambda: self.logger.drop(drop), lambda memory: memory.drop(drop))

    def memo(self, memo: Memo) -> None:
        """See `Log`."""
        self._try(lambda: self.logger.memo(memo), lambda memory: memory.memo(memo))

    def memos(self, kind: str) -> Sequence[Memo]:
        """See `Log`."""
        kept = self._memory.memos(kind) if self._memory else ()
        found: list[Memo] = self._asked(lambda: self.logger.memos(kind), [])
        return [*found, *kept]

    def drops(self) -> list[Drop]:
        """Everything left out in the session so far, oldest first."""
        kept = self._memory.drops if self._memory else []
        try:
            return [*self.logger.ledger.drops(self.logger.session.id), *kept]
        except NexusError:
            return kept

    # Recall, Seen, Calibrations, Counts, Starts

    def recall(self, drop_id: str) -> str | None:
        """See `Recall`."""
        text = self.original(drop_id)
        if text is not None:
            self.recalled(drop_id)
        return text

    def original(self, drop_id: str) -> str | None:
        """As `recall`, without counting."""
        kept = next((drop for drop in (self._memory.drops if self._memory else ()) if drop.id == drop_id), None)
        if kept is not None:
            span = kept.entries
            return kept.text if span is None else self._asked(lambda: format_transcript(self.read(*span)), None)
        return self._asked(lambda: self.logger.original(drop_id), None)

    def recalled(self, drop_id: str) -> None:
        """Count that a drop was asked for again."""
        self._quiet(lambda: self.logger.recalled(drop_id))

    def digest(self, path: str) -> str | None:
        """See `Seen`."""
        return self._digests.get(path) or self._asked(lambda: self.logger.digest(path), None)

    def note(self, path: str, digest: str, how: str) -> None:
        """See `Seen`."""
        self._digests[path] = digest
        self._quiet(lambda: self.logger.note(path, digest, how))

    def calibration(self, model: str) -> Calibration:
        """See `Calibrations`."""
        return self._asked(lambda: self.logger.calibration(model), Calibration())

    def calibrate(self, model: str, value: Calibration) -> None:
        """See `Calibrations`."""
        self._quiet(lambda: self.logger.calibrate(model, value))

    def known(self, encoding: str, digest: bytes) -> int | None:
        """See `Counts`."""
        return self._asked(lambda: self.logger.known(encoding, digest), None)

    def remember(self, encoding: str, digest: bytes, tokens: int) -> None:
        """See `Counts`."""
        self._quiet(lambda: self.logger.remember(encoding, digest, tokens))

    def started(self, call_id: str, name: str) -> None:
        """Record that a call begins to run, before it does."""
        self._try(lambda: self.logger.started(call_id, name), lambda memory: None)
        self._started.add(call_id)

    def was_started(self, call_id: str) -> bool:
        """Whether the call began to run at some time."""
        return call_id in self._started or self._asked(lambda: self.logger.was_started(call_id), False)

    def _quiet(self, note: Callable[[], None]) -> None:
        """Note what is only a convenience: without the ledger there is none."""
        if self._memory is None:
            self._asked(note, None)

    def _asked(self, found: Callable[[], T], otherwise: T) -> T:
        """What the ledger answers, also after a commit failed; `otherwise` when it does not."""
        try:
            return found()
        except NexusError:
            return otherwise


