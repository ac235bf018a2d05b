"""Facts of earlier sessions that are relevant to the newest message: of the person, of this project, of earlier work.

Each fact is a line in its own section, so that none is sent twice; one section is for all facts without room.
`Facts.relevant` chooses the facts; the three contributors differ only in slot, place and room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memory import LONGEST, MemorySlot
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

LOOKED_AT = 200
"""Most facts of one slot that are requested."""
MOST = 12
"""Most lines of one slot."""
LONG = 160
"""Most characters of a fact that is sent whole if room is short."""
POINTED = 24
"""Least tokens of a sticky fact for which a pointer is worthwhile."""
SHARE = 0.01
"""Largest share of the window for the lines of one slot, whatever their room."""
MAX_NAMED = 8
"""Most facts without a line that are named for the person; the others are counted."""
ABOUT: Mapping[MemorySlot, str] = {
    MemorySlot.USER: "of the person",
    MemorySlot.PROJECT: "of this project",
    MemorySlot.AGENT: "of earlier work",
}


def _contributor(slot: MemorySlot, order: int, priority: float, room: int, *, sticky: bool = False) -> Contributor:
    """Return the contributor of one slot; `room` is the approximate number of tokens for its facts in one turn."""
    name = f"{slot}_memory"

    def read(sources: Sources) -> Value:
        """Return one record per fact relevant to what the person just said, the best first: `id`, `text`, `date`."""
        facts = sources.facts
        if facts is None:
            return []
        relevant = facts.relevant(slot, sources.about(), LOOKED_AT)
        return [{"id": fact.id, "text": fact.statement, "date": fact.at[:10]} for fact in relevant]

    def render(value: Value, view: View) -> Sections:
        """Render `- TEXT (remembered 2026-11-20, m12)`: always the best fact, others as far as there is room, and one
        line for the rest."""
        chosen, unlisted, remaining = list[Section](), list[Value](), min(room, int(view.window * SHARE))
        for fact in value:
            forms = _forms(fact)
            cost = view.count(forms[-1])
            if chosen and (cost > remaining or len(chosen) == MOST):
                unlisted.append(fact)
                continue
            remaining -= cost
            if sticky and cost > POINTED:
                forms += (f'[{fact["id"]} {ABOUT[slot]}: recall("{DROP}")]',)
            source = f"fact {fact['id']} of {fact['date']}"
            fact_row = {"id": fact["id"], "slot": str(slot), "text": fact["text"]}
            section = Section(f"{name}.{fact['id']}", order, forms, Layer.EVENT, priority, sticky=sticky, source=source)
            chosen.append(replace(section, fact=fact_row, fact_ids=(fact["id"],)))
        if unlisted:
            forms = (
                "\n".join(_forms(fact)[0] for fact in unlisted),
                _pointer(slot, len(unlisted), len(value) >= LOOKED_AT),
            )
            rest_section = Section(
                f"{name}.more", order, forms, Layer.EVENT, priority, sticky=sticky, source=_names(unlisted)
            )
            chosen.append(replace(rest_section, least=1, fact_ids=tuple(fact["id"] for fact in unlisted)))
        return tuple(chosen)

    return Contributor(name, Layer.EVENT, read, render, most=2 * LOOKED_AT * LONGEST)


def _forms(fact: JsonObject) -> tuple[str, ...]:
    text, source = fact["text"], f"remembered {fact['date']}, {fact['id']}"
    full = f"- {text} ({source})"
    if len(text) <= LONG:
        return (full,)
    return (full, f'- {text[:LONG].rstrip()} [...] ({source}; whole: recall("{DROP}"))')


def _pointer(slot: MemorySlot, count: int, capped: bool) -> str:
    """Return the pointer to `count` facts; `capped`: the search was limited to so many."""
    number = f"{'at least ' * capped}{plural(count, 'more fact')}"
    return f'[{number} {ABOUT[slot]}: recall("{DROP}")]'


def _names(facts: Sequence[Value]) -> str:
    return f"facts {name_first([fact['id'] for fact in facts], MAX_NAMED)}"


CONTRIBUTORS = (
    _contributor(MemorySlot.USER, Phase.CONSTRAINT + 30, priority=88, room=240, sticky=True),
    _contributor(MemorySlot.PROJECT, Phase.MEMORY + 20, priority=75, room=40),
    _contributor(MemorySlot.AGENT, Phase.MEMORY + 30, priority=70, room=40),
)
