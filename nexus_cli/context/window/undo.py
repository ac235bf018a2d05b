"""Undo a compaction: the epoch that it replaced, and the window without it. Pure.

A summary links to the epoch that it replaced (`Epoch.parent`), and the log has everything since: so nothing has to be
kept for it, and it works after a restart and several times over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nexus_cli.context.window.groups import is_placeholder
from nexus_cli.context.window.lane import item_of
from nexus_cli.core.entry import Entry, Epoch, ItemForm, WindowItem

COMPACTED = ("compaction", "overflow")
UNDO = "undo"


def compaction_in_force(epoch: Epoch, find: Callable[[int], Epoch]) -> Epoch | None:
    """Return the epoch that the newest compaction in force began; None where there is none.

    `find` gives an epoch by its id. Every undo takes back the newest compaction before it that was not taken back yet.
    """
    undone = 0
    while epoch.parent is not None:
        if epoch.cause == UNDO:
            undone += 1
        elif epoch.cause in COMPACTED:
            if not undone:
                return epoch
            undone -= 1
        epoch = find(epoch.parent)
    return None


def restored_head(old: Epoch, window: Iterable[WindowItem], since: Sequence[Entry]) -> tuple[WindowItem, ...]:
    """Return the head of `old` and everything that happened `since`: a head for the epoch of cause `undo`.

    What the present `window` shows whole stays as it is there, with what we added to it.
    """
    shown = {item.entry: item for item in window if item.form is ItemForm.FULL and not is_placeholder(item)}
    return (*old.head, *(shown.get(entry.id) or item_of(entry) for entry in since))
