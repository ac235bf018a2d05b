"""How remembered facts stand in a request: a line and a section for each, so that none is sent a second time.

Which facts matter is said by `Facts.relevant`; the three contributors differ in slot, place and room alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.section import DROP, Layer, Section
from nexus_cli.core.memory import MemorySlot

MOST = 5
"""Facts of one slot."""
LONG = 160
"""Characters of a fact that is sent whole where room is short."""


def contributor(slot: MemorySlot, order: int, priority: float, room: int, *, sticky: bool = False) -> Contributor:
    """The contributor of one slot; `room` is about what its facts of one turn may take, in tokens."""
    name = f"{slot}_memory"

    async def read(sources: Sources) -> Value:
        """One record per fact that matters for what the person just said, the best first: `id`, `text`, `date`."""
        facts = sources.facts
        if facts is None:
            return []
        found = await asyncio.to_thread(facts.relevant, slot, sources.about(), MOST)
        return [{"id": fact.id, "text": fact.text, "date": fact.at[:10]} for fact in found]

    def render(value: Value, view: View) -> tuple[Section, ...]:
        """`- TEXT (remembered 2026-11-20, m12)`; the best one always, others as far as the room goes."""
        sections: list[Section] = []
        left = room
        for fact in value[:MOST]:
            forms = _forms(fact)
            left -= view.count(forms[-1])
            if left < 0 and sections:
                break
            source = f"fact {fact['id']} of {fact['date']}"
            sections.append(
                Section(f"{name}.{fact['id']}", order, forms, Layer.EVENT, priority, sticky=sticky, source=source)
            )
        return tuple(sections)

    return Contributor(name, Layer.EVENT, read, render)


def _forms(fact: Mapping[str, Any]) -> tuple[str, ...]:
    text, told = fact["text"], f"remembered {fact['date']}, {fact['id']}"
    full = f"- {text} ({told})"
    if len(text) <= LONG:
        return (full,)
    return (full, f'- {text[:LONG].rstrip()} [...] ({told}; whole: recall("{DROP}"))')
