"""One lane of one session over a ledger: the `Log` that a context and a session write to, and its fellow services.

What is stored, and how, is the ledger's; what is worth recording is said by its callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from nexus_cli.config.paths import places, project_root
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.entry import Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.services import Calibration, Fixed
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger, RequestRow, SessionInfo

KEPT = 8_000_000
"""Characters of sent entries that are kept in memory."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Where a new session is written, and what is known of it from the start."""

    path: Path | None = None
    """The ledger's file; None is the person's own."""
    folder: Path = field(default_factory=Path.cwd)
    model: str = ""
    recipe: str = "chat"
    save: bool = True
    """False: in memory, nothing is written."""


class _Sent:
    """Entries that were sent, and so never change: read from the ledger once, as far as there is room for them.

    Nothing makes way: whoever reads a long history reads it from its beginning, and would find none of it again.
    """

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._room = KEPT

    def known(self, first: int, last: int) -> list[Entry]:
        """Those from `first` on, up to the first one that is not kept."""
        ids = takewhile(self._entries.__contains__, range(first, last + 1))
        return [self._entries[number] for number in ids]

    def keep(self, entries: Iterable[Entry]) -> None:
        """Keep what was read."""
        for entry in entries:
            if self._room > 0 and entry.id not in self._entries:
                self._entries[entry.id] = entry
                self._room -= len(repr(entry))


class SessionLogger:
    """Writes one lane, and reads it back.

    Implements `Log`, `Recall`, `Seen`, `Calibrations` and `Counts` of `nexus_cli.core.services`; their contracts hold:
    what `Log` records is committed when the method returns, or `NexusError("ledger", ...)` is raised.
    """

    def __init__(
        self,
        config: LogConfig | None = None,
        *,
        ledger: Ledger | None = None,
        session: str | None = None,
        lane: int | None = None,
        clock: Clock = local_now,
    ) -> None:
        """A new session as `config` says; with `session` that one, in its main lane or in `lane`.

        A new session is held at once; holding one that exists is the caller's to ask (`Ledger.hold`). A ledger that
        is opened here is closed with the logger. Raises `NexusError` of kind `ledger` or `usage`.
        """
        config = config or LogConfig()
        self._clock = clock
        self._owned = ledger is None
        if ledger is None:
            ledger = Ledger.open((config.path or places().ledger) if config.save else None)
        self.ledger = ledger
        self._id = session or self._create(config)
        self.lane = ledger.session(self._id).main_lane if lane is None else lane
        self._sent = _Sent()

    def _create(self, config: LogConfig) -> str:
        folder = config.folder.absolute()
        made = self.ledger.create_session(
            folder=str(folder), project=str(project_root(folder)), model=config.model, recipe=config.recipe,
            at=self._now(),
        )  # fmt: skip
        self.ledger.hold(made.id)
        return made.id

    def _now(self) -> str:
        return format_utc(self._clock())

    @property
    def session(self) -> SessionInfo:
        """The session as it is now."""
        return self.ledger.session(self._id)

    def fork(self, agent: str, recipe: str, at_entry: int) -> SessionLogger:
        """A further lane of this session that shows this one up to `at_entry`, under the epoch in force there."""
        lane = self.ledger.open_lane(self._id, agent=agent, recipe=recipe, parent_lane=self.lane, parent_entry=at_entry)
        return SessionLogger(ledger=self.ledger, session=self._id, lane=lane, clock=self._clock)

    def separate(self, agent: str) -> SessionLogger:
        """A further lane of this session that begins empty."""
        lane = self.ledger.open_lane(self._id, agent=agent, recipe=agent)
        return SessionLogger(ledger=self.ledger, session=self._id, lane=lane, clock=self._clock)

    def close(self) -> None:
        """Close the ledger if it was opened here. Safe to call twice."""
        if self._owned:
            self.ledger.close()

    # Log

    def append(self, entry: Entry) -> None:
        """Record what happened."""
        self.ledger.append(self.lane, entry)

    def read(self, first: int, last: int) -> list[Entry]:
        """The entries from `first` to `last`, both included, of this lane and its ancestors."""
        sent = self.cursor()  # 0 where the session is gone: then the ledger is asked, and says so
        known = self._sent.known(first, min(last, sent))
        rest = self.ledger.read(self.lane, first + len(known), last) if first + len(known) <= last else []
        self._sent.keep(entry for entry in rest if entry.id <= sent)
        return [*known, *rest]

    def said(self, last: int) -> Iterator[tuple[int, str]]:
        """Entry and text of the person's messages up to entry `last`, newest first."""
        return (one for one in self.ledger.said(self.lane) if one[0] <= last)

    def tally(self, last: int) -> list[tuple[Kind, str, int]]:
        """How many entries up to `last` there are of each kind and actor."""
        return self.ledger.tally(self.lane, last)

    def last_id(self) -> int:
        """Id of the newest entry, 0 when there is none."""
        return self.ledger.last_id(self.lane)

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop], memos: Sequence[Memo] = ()) -> None:
        """Record a new beginning together with what it leaves out and what is noted of it."""
        self.ledger.begin_epoch(self.lane, epoch, drops, memos)

    def sending(
        self,
        manifest: Manifest,
        fixed: Sequence[Fixed],
        head_lines: Sequence[bytes],
        dressed: Sequence[Fixed] = (),
    ) -> None:
        """Record a request before its first byte goes out."""
        self.ledger.sending(self.lane, manifest, fixed, head_lines, dressed)

    def received(self, step: int, usage: Usage, finish: str, reported: bool) -> None:
        """Record how request `step` ended and what it used."""
        self.ledger.received(self.lane, step, usage, finish, reported)

    def replied(
        self, entry: Entry | None, step: int, usage: Usage, finish: str, reported: bool, sent: str = ""
    ) -> None:
        """Record a reply, and how its request ended, in one commit."""
        self.ledger.replied(self.lane, entry, step, usage, finish, reported, sent)

    def next_drop(self) -> str:
        """A new drop id, unique in the session."""
        return self.ledger.next_drop(self._id)

    def drop(self, drop: Drop) -> None:
        """Record something left out."""
        self.ledger.record_drop(self.lane, drop)

    def memo(self, memo: Memo) -> None:
        """Record something about the lane."""
        self.ledger.record_memo(self.lane, memo)

    def memos(self, kind: str) -> list[Memo]:
        """All memos of one kind, oldest first."""
        return self.ledger.memos(self.lane, kind)

    # What a lane goes on from

    def last_drop(self) -> int:
        """The number in the session's newest drop id, 0 before the first."""
        return self.ledger.last_drop(self._id)

    def cursor(self) -> int:
        """Id of the last entry that this lane's model was sent."""
        return self.ledger.cursor(self.lane)

    def step(self) -> int:
        """How many requests this lane has sent."""
        return self.ledger.step(self.lane)

    def current_epoch(self) -> Epoch | None:
        """The epoch that this lane is under, None before its first."""
        return self.ledger.current_epoch(self.lane)

    def next_epoch(self) -> int:
        """The id that the next epoch takes."""
        return self.ledger.next_epoch(self.lane)

    def epoch(self, epoch_id: int) -> Epoch:
        """An epoch of this session; `NexusError("usage", ...)` when there is none."""
        return self.ledger.epoch(self.lane, epoch_id)

    def last_request(self) -> RequestRow | None:
        """The newest request of this lane, or None."""
        return next(iter(self.ledger.manifests(self.lane, "newest")), None)

    def request_rows(self) -> list[RequestRow]:
        """Every request of this lane, oldest first."""
        return self.ledger.manifests(self.lane)

    def line_hashes(self, epoch_id: int, last: int) -> tuple[list[bytes], list[tuple[int, bytes]]]:
        """What was sent under an epoch, by the hash of each line: its slots, and the entries after them to `last`."""
        return self.ledger.line_hashes(self.lane, epoch_id, last)

    def started(self, call_id: str, name: str) -> None:
        """Record that a tool is about to run; `NexusError("ledger", ...)` when it was started before."""
        self.ledger.start_call(self.lane, call_id, name, self._now())

    def was_started(self, call_id: str) -> bool:
        """Whether the tool of this call was started."""
        return self.ledger.was_started(self.lane, call_id)

    # Recall, Seen, Calibrations, Counts

    def recall(self, drop_id: str) -> str | None:
        """The whole original of a drop, or None if this session has no such drop. Counts the recall."""
        text = self.original(drop_id)
        if text is not None:
            self.recalled(drop_id)
        return text

    def original(self, drop_id: str) -> str | None:
        """As `recall`, without counting."""
        return self.ledger.drop_text(self._id, drop_id)

    def drops(self) -> list[Drop]:
        """Everything left out in the session so far, oldest first, without texts."""
        return self.ledger.drops(self._id)

    def recalled(self, drop_id: str) -> None:
        """Count that a drop was asked for again."""
        self.ledger.recalled(self._id, drop_id)

    def digest(self, path: str) -> str | None:
        """Hash of a file when it was last read or written here, or None."""
        return self.ledger.seen(self._id, path)

    def note(self, path: str, digest: str, how: str) -> None:
        """Record that `path` was `read`, `changed` or `created` and what it holds now."""
        self.ledger.note_file(self.lane, path, digest, how, self._now())

    def calibration(self, model: str) -> Calibration:
        """What was learned of `model` so far."""
        return self.ledger.calibration(model)

    def calibrate(self, model: str, value: Calibration) -> None:
        """Store what was learned."""
        self.ledger.calibrate(model, value)

    def known(self, encoding: str, digest: bytes) -> int | None:
        """The stored token count of a text, or None."""
        return self.ledger.known_count(encoding, digest)

    def remember(self, encoding: str, digest: bytes, tokens: int) -> None:
        """Store a token count; it may be lost."""
        self.ledger.remember_count(self._id, encoding, digest, tokens)
