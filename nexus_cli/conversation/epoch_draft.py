"""Drafts of the next epoch: its header with the drops of its system text, and the whole rewrite of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.conversation.conversation import EpochHeader
from nexus_cli.conversation.rewrite_cost import RewritePrice
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.entry import Drop, Epoch, Note
from nexus_cli.core.event import Notice


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """The part of a section that a system text leaves out."""

    drop: Drop
    note: Note
    """Kind and value of the memo beside it."""


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """The header of a possible new epoch, and the drops that its system text makes for the first time."""

    frame: EpochHeader
    left: tuple[PendingDrop, ...] = ()

    @property
    def drops(self) -> tuple[Drop, ...]:
        """The drops with their texts."""
        return tuple(pending_drop.drop for pending_drop in self.left)

    @property
    def notes(self) -> tuple[Note, ...]:
        """The memos beside them."""
        return tuple(drop.note for drop in self.left)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An epoch that may begin in place of the present one, and what is recorded with it."""

    epoch: Epoch
    drops: Sequence[Drop]
    notes: Sequence[Note] = ()
    price: RewritePrice | None = None
    """Recorded with it; None if it is not priced."""
    anchor: Anchor | None = None
    """The provider's report that still holds for a part of the new window; None if there is none."""
    notice: Notice | None = None
    """Tells the person about it."""
