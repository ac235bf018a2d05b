"""Drafts of the next epoch: its header with the drops of its system text, and the whole rewrite of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.entry import Drop, Epoch, Note, PendingDrop
from nexus_cli.core.event import Notice
from nexus_cli.core.rewrite_cost import RewritePrice


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """The header of a possible new epoch, and the drops that its system text makes for the first time."""

    frame: Epoch
    """An epoch whose header the new one takes: model, system text, tools, rules and effort."""
    pending: Sequence[PendingDrop] = ()
    """Each drop with kind and value of the memo beside it."""

    @property
    def drops(self) -> list[Drop]:
        """The drops with their texts."""
        return [drop for drop, _ in self.pending]

    @property
    def notes(self) -> list[Note]:
        """The memos beside them."""
        return [note for _, note in self.pending]


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
