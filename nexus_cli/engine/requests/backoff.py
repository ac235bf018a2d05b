"""Record compactions of a conversation that were made, failed or undone, as memos that survive a restart.

The memos decide when the next compaction may be paid for. They also hold the usage reported for the replaced window and
the drops that an undo restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.tokens.content_kinds import WindowCounts
from nexus_cli.conversation.tokens.estimate import Anchor, Estimate
from nexus_cli.core.entry import UNDO, Epoch, Memo, Note
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import COMPACTION, UNDONE_COMPACTION
from nexus_cli.ledger import LaneLog

BACKOFF_STEPS = 10
"""Steps to wait after a compaction, a paid failure or an undo. The wait doubles with each further paid failure in a
row. If the window overflows, only paid failures count, and only those made in an overflow double the wait."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The compactions of a conversation, as they count at one step."""

    memos: Callable[[str], Sequence[Memo]]
    """Reads the memos of one kind, oldest first."""
    step: int = 0

    # -- notes -------------------------------------------------------------------------------------------------

    def make_note(
        self,
        epoch: int,
        why: str,
        drops: Iterable[str],
        anchor: Anchor | None,
        rules: Sequence[Sequence[object]] = (),
    ) -> Note:
        """Make the note of a compaction that begins `epoch`, recorded with it; `anchor` is of the epoch before."""
        anchor_row = None if anchor is None else [anchor.last, anchor.reported, anchor.counted]
        return self._note({"epoch": epoch, "why": why, "drops": list(drops), "anchor": anchor_row, "rules": rules})

    def failed(self, why: str, *, paid: bool, over: bool = False) -> Note:
        """Make the note of a failed compaction; `paid`: a summary was requested, `over`: the window did not fit."""
        return self._note({"epoch": None, "why": why, "paid": paid, "over": over})

    def undone(self, epoch: int, undone: int) -> list[Note]:
        """Make the notes of `epoch`, which undoes the compaction that began `undone`; to be recorded with the epoch."""
        drops = self._find(undone).get("drops", [])
        return [self._note({"epoch": epoch, "why": UNDO}), (UNDONE_COMPACTION, {"epoch": undone, "drops": drops})]

    def _note(self, value: JsonObject) -> Note:
        return COMPACTION, {"step": self.step, **value}

    # -- reading -----------------------------------------------------------------------------------------------

    def anchor_before(self, epoch: int) -> Anchor | None:
        """Return the last report on the window that the compaction of `epoch` replaced, which is for the rest of that
        window alone; None if it had none."""
        anchor_row = self._find(epoch).get("anchor")
        if not anchor_row:
            return None
        last, reported, counted = map(int, anchor_row)
        return Anchor(last, reported, counted, exact=False)

    def anchor_on_newest(self, estimate: Estimate, log: LaneLog, epoch: Epoch, window: WindowCounts) -> Estimate:
        """Anchor `estimate` on the newest plausible report of a request in the epoch of the window. After an undo
        without one, anchor it on the last report before the compaction, if it is of the same model."""
        rows = log.requests("reported")
        is_current = bool(rows) and rows[-1].manifest.epoch == epoch.id
        newest = ((row.manifest.last, row.reported_tokens) for row in (reversed(rows) if is_current else ()))
        anchored = estimate.anchored_on_newest(newest, window)
        undone = self.memos(UNDONE_COMPACTION) if anchored.anchor is None and epoch.cause == UNDO else ()
        former = int(undone[-1].value["epoch"]) if undone else None
        parent = None if former is None else log.epoch(former).parent
        if former is None or parent is None or log.epoch(parent).model != epoch.model:
            return anchored
        return estimate.anchored(self.anchor_before(former), window)

    def may_compact(self, *, fits: bool) -> bool:
        """True if a summary may be requested now; `fits`: the next request fits without one."""
        tried = self._tried()
        if fits and any(map(self._is_recent, (value for value in tried if not _was_free(value)))):
            return False
        failed = _find_failed_tries(tried)
        alike = failed if fits else [value for value in failed if value.get("over")]
        return not any(map(self._is_recent, failed)) and not (
            alike and self._is_recent(alike[0], BACKOFF_STEPS << (len(alike) - 1))
        )

    @property
    def was_undone(self) -> bool:
        """True if a compaction was undone so lately that nothing which came back is taken out again."""
        return any(value.get("why") == UNDO and self._is_recent(value) for value in self._tried())

    @property
    def has_free_refusal(self) -> bool:
        """True if a recent try found too little to summarize. It cost nothing, so that it is reported once."""
        tried = self._tried()
        return bool(tried) and _was_free(tried[-1]) and self._is_recent(tried[-1])

    @property
    def last_refusal(self) -> tuple[int, str] | None:
        """The age in steps and the reason of the newest paid summary that failed; None if there is no recent one."""
        failed = _find_failed_tries(self._tried())
        if not failed or not self._is_recent(failed[0]):
            return None
        return self.step - int(failed[0]["step"]), str(failed[0]["why"])

    def _tried(self) -> list[JsonObject]:
        return [memo.value for memo in self.memos(COMPACTION)]

    def _find(self, epoch: int) -> JsonObject:
        """Return the memo of the compaction that began `epoch`; empty if there is none."""
        return next((value for value in reversed(self._tried()) if value["epoch"] == epoch), {})

    def _is_recent(self, value: JsonObject, steps: int = BACKOFF_STEPS) -> bool:
        return 0 <= self.step - int(value["step"]) < steps


def _was_free(value: JsonObject) -> bool:
    return value["epoch"] is None and not value.get("paid")


def _find_failed_tries(tried: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the paid tries that failed since the last compaction, newest first."""
    failures = []
    for value in reversed(tried):
        if value["epoch"] is not None and value.get("why") != UNDO:
            break
        if value.get("paid"):
            failures.append(value)
    return failures
