"""Anchor a token estimate on the last reported request in the ledger, so that every process gets the same estimate."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.conversation.compaction.backoff import UNDONE, anchor_before
from nexus_cli.conversation.tokens.estimator import DISTRUST, TokenEstimator
from nexus_cli.conversation.undo import UNDO
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.ledger import LaneLog, RequestRow


def take_anchor(estimator: TokenEstimator, log: LaneLog, epoch: Epoch, items: Sequence[WindowItem]) -> None:
    """Anchor `estimator` on the newest plausible report of a request in `epoch` with the window `items`. After an undo
    without one, anchor it on the last report before the compaction."""
    newest = log.last_request()
    if newest is not None and newest.manifest.epoch == epoch.id:
        if anchor_on(estimator, newest, epoch, items):
            return
        rows = log.requests("reported")[-DISTRUST:]
        if any(anchor_on(estimator, row, epoch, items) for row in reversed(rows)):
            return
    if epoch.cause == UNDO:
        _anchor_on_former(estimator, log, epoch)


def anchor_on(estimator: TokenEstimator, row: RequestRow, epoch: Epoch, items: Sequence[WindowItem]) -> bool:
    """Anchor `estimator` on a request in `epoch`; False if its usage was not reported or is implausible."""
    if row.usage is None or not row.reported:
        return False
    sent = sum(item.tokens for item in items if item.entry <= row.manifest.last)
    return estimator.set_anchor(row.manifest.last, epoch.system_tokens + epoch.tools_tokens + sent, row.usage.input)


def _anchor_on_former(estimator: TokenEstimator, log: LaneLog, epoch: Epoch) -> None:
    """Anchor `estimator` on the last report on the window before the undone compaction."""
    undone = next((int(memo.value["epoch"]) for memo in reversed(list(log.memos(UNDONE)))), None)
    parent = None if undone is None else log.epoch(undone).parent
    if undone is None or parent is None or log.epoch(parent).model != epoch.model:
        return
    if found := anchor_before(log.memos, undone):
        estimator.set_anchor(found.last, found.counted, found.reported, exact=False)
