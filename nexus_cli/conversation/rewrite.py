"""The draft of an epoch: a rewrite of the window, with what is recorded beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.entry import Drop, Epoch, Note
from nexus_cli.core.event import Notice
from nexus_cli.core.rewrite_cost import RewritePrice


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An epoch that may begin in place of the present one, and what is recorded with it."""

    epoch: Epoch
    drops: Sequence[Drop] = ()
    notes: Sequence[Note] = ()
    price: RewritePrice | None = None
    """Recorded with it; None if it is not priced."""
    anchor: Anchor | None = None
    """The provider's report that still holds for a part of the new window; None if there is none."""
    notice: Notice | None = None
    """Tells the person about it."""
