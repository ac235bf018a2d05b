"""Show the pins: quotations that stay in the window word for word through every compaction and cut (law 6). Pure.

`nexus_cli.conversation.compaction.pins` stores pins, `compaction_plan` beside it plans which of them fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nexus_cli.conversation.compaction.own_words import Quote, list_labelled
from nexus_cli.core.elide import Count, name_first
from nexus_cli.core.entry import Cause, Drop

PINNED = "Pinned by the person, word for word:"
NAMED = 24
"""Most pins without room that are named, each with the drop that has its text."""
_WAY = re.compile(r"\b(p\d+): recall\(\"(d\d+)\"\)")


def split_fitting_pins(pins: Sequence[Quote], room: int, count: Count) -> tuple[tuple[Quote, ...], tuple[Quote, ...]]:
    """Return the pins that fit `room` (the newest get room first) and the others, both in their order."""
    fitting = set()
    for pin in reversed(pins):
        if (cost := pin.labelled_tokens(count)) <= room:
            room -= cost
            fitting.add(pin.pin)
    return tuple(p for p in pins if p.pin in fitting), tuple(p for p in pins if p.pin not in fitting)


def pin_texts(pins: Sequence[Quote], ways: Sequence[tuple[str, str]], recalls: bool) -> list[str]:
    """Return the quotations of `pins`, and the line that names the pins of `ways`, as far as there are any."""
    return list(filter(None, [list_labelled(PINNED, pins), crowded_line(ways, recalls) if ways else ""]))


def crowded_line(ways: Sequence[tuple[str, str]], recalls: bool) -> str:
    """Return the line that names pins without room by their id; with their drops if the model `recalls` drops."""
    entries = [f'{name}: recall("{drop}")' if recalls else name for name, drop in ways]
    return f"[Pinned too, and left out here for room: {name_first(entries, NAMED)}]"


def named_ways(texts: Iterable[str]) -> dict[str, str]:
    """Return the drop of each pin that a line in `texts` names. A pin's text never changes: one drop is enough."""
    lines = (line for text in texts for line in text.splitlines() if line.startswith("[Pinned too"))
    return {name: drop for line in lines for name, drop in _WAY.findall(line)}


def pin_drop(pin: Quote, drop_id: str, cause: Cause, at: str, count: Count) -> Drop:
    """Return the drop of a pin without room."""
    what = f"pin {pin.pin}, which exceeded the limit for pins"
    return Drop(drop_id, what, count(pin.text), cause, at, text=pin.text)
