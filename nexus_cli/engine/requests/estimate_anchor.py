"""Anchor a token estimate on the last reported request in the ledger, so that every process gets the same estimate."""

from __future__ import annotations

from nexus_cli.conversation.tokens.content_kinds import WindowCounts
from nexus_cli.conversation.tokens.estimate import Anchor, Estimate
from nexus_cli.core.entry import UNDO, Epoch
from nexus_cli.core.memo_kinds import UNDONE_COMPACTION
from nexus_cli.engine.requests.backoff import Backoff
from nexus_cli.ledger import LaneLog


def anchor_on_newest(estimate: Estimate, log: LaneLog, epoch: Epoch, window: WindowCounts) -> Estimate:
    """Anchor `estimate` on the newest plausible report of a request in the epoch of the window. After an undo without
    one, anchor it on the last report before the compaction."""
    rows = log.requests("reported")
    is_current = bool(rows) and rows[-1].manifest.epoch == epoch.id
    newest = ((row.manifest.last, row.reported_tokens) for row in (reversed(rows) if is_current else ()))
    anchored = estimate.anchored_on_newest(newest, window)
    if anchored.anchor is None and epoch.cause == UNDO:
        return estimate.anchored(_former_report(log, epoch), window)
    return anchored


def _former_report(log: LaneLog, epoch: Epoch) -> Anchor | None:
    """Return the last report on the window before the undone compaction, if it is of the same model."""
    undone = next((int(memo.value["epoch"]) for memo in reversed(list(log.memos(UNDONE_COMPACTION)))), None)
    parent = None if undone is None else log.epoch(undone).parent
    if undone is None or parent is None or log.epoch(parent).model != epoch.model:
        return None
    return Backoff(log.memos).anchor_before(undone)
