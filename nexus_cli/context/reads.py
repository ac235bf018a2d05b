"""What contributors read: in a thread of each one's own, checked to be plain data, and kept where a request needs it.

How long is waited for it, and what is said where nothing comes, is `nexus_cli.context.contributed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nexus_cli.context.aside import Aside
from nexus_cli.context.contributors import Contributor, Sources, Value
from nexus_cli.context.neutral import neutral

NEEDED = ("contract", "identity", "instructions", "environment", "tool_guide")
"""Ours, and what a conversation rests on: read with more patience, and what was read of them before is kept."""

Read: TypeAlias = tuple[Value, tuple[str, ...]]
"""What was read, and the lines for the person about it."""


@dataclass
class Held:
    """What earlier rounds leave of the contributors in `NEEDED`."""

    values: dict[str, Value] = field(default_factory=dict)
    """As they were read last."""
    late: dict[str, Aside[Read]] = field(default_factory=dict)
    """Reads that took too long, and still go on or have ended since."""

    @property
    def arrived(self) -> bool:
        """Whether something was read meanwhile that the last round had to do without."""
        return any(read.done and read.error is None for read in self.late.values())

    def begin(self, contributor: Contributor, sources: Sources) -> None:
        """Read one that an earlier process had to do without; nobody waits for it."""
        if contributor.id not in self.late:
            self.late[contributor.id] = reading(contributor, sources)

    def earlier(self, contributor: str) -> Value:
        """What it said before; `KeyError` when nobody knows."""
        late = self.late.get(contributor)
        if late is not None and late.done and late.error is None:
            self.values[contributor] = late.value[0]
            del self.late[contributor]
        return self.values[contributor]


def reading(contributor: Contributor, sources: Sources) -> Aside[Read]:
    """The read of a contributor, begun; what it gives is plain and no larger than it may be."""

    def work(here: Aside[Read]) -> Read:
        value = here.drive(contributor.read(sources))
        if _size(value, contributor.most) > contributor.most:
            raise ValueError(f"it read more than {contributor.most:,} characters")
        return value if contributor.verbatim else foreign(value), tuple(contributor.notices(value))

    return Aside(work)


def foreign(value: Value) -> Value:
    """`value` with every text in it made neutral; keys stay."""
    if isinstance(value, str):
        return neutral(value)
    if isinstance(value, Mapping):
        return {key: foreign(one) for key, one in value.items()}
    return [foreign(one) for one in value] if isinstance(value, Sequence) else value


def _size(value: Value, most: int) -> int:
    """Characters of the texts in `value`, counted until there are more than `most`; `ValueError` when it is not plain
    JSON data."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        one = waiting.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, Mapping):
            total += 1
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            total += len(one)
            waiting += one
        elif not (one is None or isinstance(one, int) or (isinstance(one, float) and math.isfinite(one))):
            what = f"the number {one}" if isinstance(one, float) else type(one).__name__
            raise ValueError(f"it read what is no plain data: {what}")
    return total
