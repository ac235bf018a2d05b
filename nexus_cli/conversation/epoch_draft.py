"""The header of an epoch that may begin, with the drops that its system text makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.conversation.conversation import EpochHeader
from nexus_cli.core.entry import Drop


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """The part of a section that a system text leaves out."""

    drop: Drop
    note: tuple[str, Mapping[str, Any]]
    """Kind and value of the memo beside it."""


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """The header of a possible new epoch, and the drops that its system text makes for the first time."""

    frame: EpochHeader
    left: tuple[PendingDrop, ...] = ()

    @property
    def drops(self) -> tuple[Drop, ...]:
        """The drops with their texts."""
        return tuple(one.drop for one in self.left)

    @property
    def fixed(self) -> int:
        """Counted tokens of system text and schemas."""
        return self.frame.system_tokens + self.frame.tools_tokens
