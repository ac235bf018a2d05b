"""What a session has done in the part that its model does not see any more (seed E's footprint)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Footprint:
    """Counts over entries that are not in the window."""

    turns: int = 0
    """Messages of the person, those given to a running turn included."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Results of tools by the name of the tool, the most frequent first."""
