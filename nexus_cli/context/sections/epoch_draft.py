"""The beginning of an epoch that may come, and what its system text leaves out: recorded with it, or never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.window.lane import Frame
from nexus_cli.core.entry import Drop


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """The part of a section that a system text leaves out."""

    drop: Drop
    note: tuple[str, Mapping[str, Any]]
    """Kind and value of the memo beside it."""


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """The header of an epoch that may begin, and what its system text leaves out for the first time."""

    frame: Frame
    left: tuple[PendingDrop, ...] = ()

    @property
    def drops(self) -> tuple[Drop, ...]:
        """The drops of that, with their texts."""
        return tuple(one.drop for one in self.left)

    @property
    def fixed(self) -> int:
        """Counted tokens of system text and schemas."""
        return self.frame.system_tokens + self.frame.tools_tokens
