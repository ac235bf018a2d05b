"""Everything that was left out of a session's requests, and what of it is back in the window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from nexus_cli.context.lane import slot_of
from nexus_cli.core.entry import Drop, Form, Memo, Slot
from nexus_cli.ledger import Ledger
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.reports.result import drop_value
from nexus_cli.session.tries import UNDONE, undone

UNIT = "counted"
"""What the tokens of drops are: our own count, recorded when it was left out, as the lines for the model have it. In
reports with tokens of the budget it is the unit of the figures called `counted` and `full_counted`."""


def listing(session: str, drops: Sequence[Drop], returned: Collection[str] = ()) -> dict[str, Any]:
    """The drops of a session, oldest first; how many are still left out, and of these asked for again. `returned` are
    the ids of those that are back in the window."""
    out = [drop for drop in drops if drop.id not in returned]
    return {
        "version": 1,
        "session": session,
        "drops": [drop_value(drop) | {"back": drop.id in returned, "unit": UNIT} for drop in drops],
        "left_out": len(out),
        "recalled": sum(1 for drop in out if drop.recalls),
    }


def of_session(ledger: Ledger, session: str) -> dict[str, Any]:
    """The listing of a session that is not open here."""
    drops = ledger.drops(session)
    log = SessionLogger(ledger=ledger, session=session)
    epoch = log.current_epoch() if drops else None
    slots = [*epoch.head, *map(slot_of, log.read(epoch.base + 1, log.last_id()))] if epoch else []
    return listing(session, drops, back(drops, slots, log.memos(UNDONE)))


def back(drops: Iterable[Drop], slots: Iterable[Slot], memos: Iterable[Memo]) -> frozenset[str]:
    """The ids of the drops that are left out no more: their compaction was undone (`memos`), or every message of
    theirs stands whole among `slots`, the window."""
    whole = {slot.entry for slot in slots if slot.form is Form.FULL}
    spans = ((drop.id, drop.entries) for drop in drops)
    shown = (name for name, span in spans if span and all(entry in whole for entry in range(span[0], span[1] + 1)))
    return undone(memos).union(shown)


def text(ledger: Ledger, session: str, drop_id: str) -> str | None:
    """The whole original of a drop, or None when the session has no such drop."""
    return ledger.drop_text(session, drop_id)
