"""One piece of text that we add to a request, and its position.

The texts come from contributors (`nexus_cli.sections.contributors`); the planner chooses the form
(`nexus_cli.sections.planner`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import ClassVar

from nexus_cli.core.elide import Count
from nexus_cli.core.json_value import JsonDict, to_json_value

STAND_IN = "d9999"
"""Counted instead of the id of a drop."""
DROP = "\0"
"""Placeholder in a form for the id of the drop of its missing part; `Section.with_drop_id` fills it in. No text that we
read can contain it."""


class Layer(StrEnum):
    """A layer of a request, by how often its text changes."""

    SYSTEM = "system"
    HISTORY = "history"
    EVENT = "event"

    @property
    def rank(self) -> int:
        """1, 2, 3: the order of the layers in a request."""
        return tuple(Layer).index(self) + 1


class Phase(IntEnum):
    """The subject of a text; the thousands of a section's `order`."""

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


LADDERS: Mapping[int, tuple[str, ...]] = {
    1: ("full",),
    2: ("full", "pointer"),
    3: ("full", "shortened", "pointer"),
    4: ("full", "shortened", "outline", "pointer"),
}
"""The names of a section's forms, by their number: from the whole text down to one line that points to it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One text in its forms, from full to pointer, with its place and its weight.

    Raises `ValueError` if there is no form or more than four, a form is blank, `least` is not one of them, or the order
    is outside the phases.
    """

    json_fields: ClassVar = "id layer phase:phase.label order priority weight sticky source unread_bytes"
    id: str
    order: int
    """Phase plus slot: `Phase.CONSTRAINT + 10`."""
    forms: tuple[str, ...]
    """From full to the shortest, named by `LADDERS`. Every form but the first may contain `DROP`."""
    layer: Layer
    priority: float
    """0 to 100."""
    weight: float = 1.0
    sticky: bool = False
    """True if it is never left out; it may be shortened."""
    source: str = ""
    """The origin of the section, for people: a file or a place."""
    least: int = 0
    """Index of the fullest form that may be sent: instructions above their cap are never sent whole."""
    unread_bytes: int = 0
    """Bytes of the file that were not read; even the full form lacks them."""
    fact: Mapping[str, str] | None = None
    """The fact that it contains: `id`, `slot` and `text`."""
    fact_ids: tuple[str, ...] = ()
    """The facts that its full form contains, however it is sent."""

    def __post_init__(self) -> None:
        if len(self.forms) not in LADDERS or not all(form.strip() for form in self.forms):
            raise ValueError(f"section {self.id}: it needs one to four forms, each with a text")
        if not 0 <= self.least < len(self.forms):
            raise ValueError(f"section {self.id}: there is no form {self.least}")
        if not 0 <= self.order <= Phase.TOOL_RESULT + 999:
            raise ValueError(f"section {self.id}: order {self.order} is outside all phases")

    @property
    def full(self) -> str:
        """The whole text."""
        return self.forms[0]

    @property
    def names(self) -> tuple[str, ...]:
        return LADDERS[len(self.forms)]

    @property
    def phase(self) -> Phase:
        return Phase(self.order // 1000 * 1000)

    @property
    def position(self) -> tuple[int, int, str]:
        """The sort key of sections: layer, order, id. The score never decides the place."""
        return (self.layer.rank, self.order, self.id)

    @property
    def digest(self) -> str:
        """SHA-256 of the whole text, which identifies it."""
        return sha256(self.full)

    def score(self, multiplier: float = 1.0) -> float:
        """Return priority x weight x the recipe's multiplier: decides admission and form."""
        return self.priority * self.weight * multiplier

    def in_form(self, form: str) -> str:
        """Return the text in the given form, or in the next fuller one that it has."""
        names = LADDERS[4][: LADDERS[4].index(form) + 1]
        return [text for name, text in zip(self.names, self.forms, strict=True) if name in names][-1]

    def sizes(self, count: Count) -> tuple[int, ...]:
        """Return the tokens of each form, with a stand-in for the id of a drop."""
        return count(self.full), *(count(form.replace(DROP, STAND_IN)) for form in self.forms[1:])

    def with_drop_id(self, drop_id: str) -> Section:
        """Return this section with the id of its recorded drop in every shortened form."""
        return replace(self, forms=(self.full, *(form.replace(DROP, drop_id) for form in self.forms[1:])))

    def to_json(self) -> JsonDict:
        """Return the keys of `nexus docs json` that do not depend on a request."""
        return dict(to_json_value(self))


Sections = tuple[Section, ...]


def unread_note(beyond: int, name: str) -> str:
    """Return the last line of a text whose file has `beyond` more bytes that were not read; "" if it has none."""
    return f"\n[... {beyond:,} more bytes of {name} are not read ...]" if beyond else ""


def sha256(text: str) -> str:
    """Return the hash of a text, hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
