"""One piece of text that we add to a request, and where it stands (seeds D and E, design.md section 1).

The texts come from contributors (`nexus_cli.context.contributors`); which form is sent is the manager's choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any

DROP = "\0"
"""Stands in a form for the id of the drop that says what the form leaves out; `Section.naming` puts the id there.
No text that we read can contain it."""


class Layer(StrEnum):
    """How often a text changes, and so where it is sent (seed B)."""

    SYSTEM = "system"
    HISTORY = "history"
    EVENT = "event"

    @property
    def rank(self) -> int:
        """1, 2, 3: the order of the layers in a request."""
        return tuple(Layer).index(self) + 1


class Phase(IntEnum):
    """What a text is about; the thousands of a section's `order`."""

    CONSTRAINT = 0
    PERSONA = 1000
    TASK = 2000
    MEMORY = 3000
    TOOLS = 4000
    HISTORY = 5000
    EVENT = 6000
    TOOL_RESULT = 7000

    @property
    def label(self) -> str:
        """The name in JSON: `constraint`, ..., `tool_result`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Cut:
    """What the shortened form of a section leaves out: recorded as a drop when that form is sent."""

    text: str
    """The whole original, of which ranges are recalled."""
    start: int
    """First character left out."""
    end: int
    """One past the last character left out."""
    tokens: int
    """Tokens left out."""


@dataclass(frozen=True, slots=True)
class Section:
    """One text in its forms, from full to pointer, with its place and its weight.

    `ValueError` when there is no form, a form is blank, or the order lies outside the phases.
    """

    id: str
    order: int
    """Phase plus slot: `Phase.CONSTRAINT + 10`."""
    forms: tuple[str, ...]
    """From full to the shortest. With a `cut` the later forms contain `DROP`."""
    layer: Layer
    priority: float
    """0 to 100, seed E's table."""
    weight: float = 1.0
    sticky: bool = False
    """Never left out; may be shortened."""
    source: str = ""
    """The file or place that it comes from, for a person."""
    cut: Cut | None = None
    """What the second form leaves out of the first; None when nothing has to be recorded."""

    def __post_init__(self) -> None:
        if not self.forms or not all(form.strip() for form in self.forms):
            raise ValueError(f"section {self.id}: every form needs a text")
        if not 0 <= self.order <= Phase.TOOL_RESULT + 999:
            raise ValueError(f"section {self.id}: order {self.order} lies in no phase")

    @property
    def full(self) -> str:
        """The whole text."""
        return self.forms[0]

    @property
    def phase(self) -> Phase:
        """The phase that `order` lies in."""
        return Phase(self.order // 1000 * 1000)

    @property
    def position(self) -> tuple[int, int, str]:
        """The sort key of sections: layer, order, id. Score never decides the place."""
        return (self.layer.rank, self.order, self.id)

    def score(self, multiplier: float = 1.0) -> float:
        """Priority x weight x the recipe's multiplier: decides admission and form (seed E)."""
        return self.priority * self.weight * multiplier

    def naming(self, drop_id: str) -> Section:
        """This section with the id of its recorded drop in every form that leaves something out."""
        return replace(self, forms=tuple(form.replace(DROP, drop_id) for form in self.forms))

    def described(self) -> dict[str, Any]:
        """The keys of interface.md section 8 that do not depend on a request."""
        return {
            "id": self.id,
            "layer": str(self.layer),
            "phase": self.phase.label,
            "order": self.order,
            "priority": self.priority,
            "weight": self.weight,
            "sticky": self.sticky,
            "source": self.source,
        }
