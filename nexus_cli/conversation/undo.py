"""Undo a compaction: the epoch that it replaced, and the window without it. Pure.

A summary links to the epoch that it replaced (`Epoch.parent`), and the log has everything since. So no extra data is
needed, and undo works after a restart and repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nexus_cli.conversation.groups import is_placeholder
from nexus_cli.core.entry import Entry, Epoch, ItemForm, WindowItem

COMPACTED = ("compaction", "overflow")
UNDO = "undo"


def compaction_in_force(epoch: Epoch, find: Callable[[int], Epoch]) -> Epoch | None:
    """Return the epoch of the newest compaction that no undo has reverted, or None; `find` looks one up by id."""
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
    """Return the head of an epoch with the cause `undo`: `old` and all items `since`, or as `window` has them."""
    shown = {item.entry: item for item in window if item.form is ItemForm.FULL and not is_placeholder(item)}
    return (*old.head, *(shown.get(entry.id) or WindowItem.of(entry) for entry in since))
