"""Facts of earlier sessions that are relevant to the newest message: of the person, of this project, of earlier work
(seed E).

A fact is a line and a section of its own, so that none is sent a second time; one section is for all those without
room. `Facts.relevant` chooses the facts; the three contributors differ in slot, place and room alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.section import DROP, Layer, Phase, Section
from nexus_cli.core.memory import LONGEST, MemorySlot

LOOKED_AT = 200
"""Facts of one slot that are asked for."""
MOST = 12
"""Lines of one slot."""
LONG = 160
"""Characters of a fact that is sent whole where room is short."""
POINTED = 24
"""Tokens of a sticky fact from which on a pointer to it is worth having."""
SHARE = 0.01
"""Of the window: more than this the lines of one slot do not take, whatever their room."""
NAMED = 8
"""Facts without a line that are named for the person; more of them are counted."""
ABOUT: Mapping[MemorySlot, str] = {
    MemorySlot.USER: "of the person",
    MemorySlot.PROJECT: "of this project",
    MemorySlot.AGENT: "of earlier work",
}


def _contributor(slot: MemorySlot, order: int, priority: float, room: int, *, sticky: bool = False) -> Contributor:
    """Return the contributor of one slot; `room` is about what its facts of one turn may take, in tokens."""
    name = f"{slot}_memory"

    def read(sources: Sources) -> Value:
        """Return one record per fact relevant to what the person just said, the best first: `id`, `text`, `date`."""
        facts = sources.facts
        if facts is None:
            return []
        found = facts.relevant(slot, sources.about(), LOOKED_AT)
        return [{"id": fact.id, "text": fact.statement, "date": fact.at[:10]} for fact in found]

    def render(value: Value, view: View) -> tuple[Section, ...]:
        """Return `- TEXT (remembered 2026-11-20, m12)`; the best one always, each of the others that there is room for,
        and one line for those that there is none for."""
        chosen, rest, left = list[Section](), list[Value](), min(room, int(view.window * SHARE))
        for fact in value:
            forms = _forms(fact)
            cost = view.count(forms[-1])
            if chosen and (cost > left or len(chosen) == MOST):
                rest.append(fact)
                continue
            left -= cost
            if sticky and cost > POINTED:
                forms += (f'[{fact["id"]} {ABOUT[slot]}: recall("{DROP}")]',)
            source = f"fact {fact['id']} of {fact['date']}"
            shown = {"id": fact["id"], "slot": str(slot), "text": fact["text"]}
            section = Section(f"{name}.{fact['id']}", order, forms, Layer.EVENT, priority, sticky=sticky, source=source)
            chosen.append(replace(section, fact=shown))
        if rest:
            forms = ("\n".join(_forms(fact)[0] for fact in rest), _pointer(slot, len(rest), len(value) >= LOOKED_AT))
            more = Section(f"{name}.more", order, forms, Layer.EVENT, priority, sticky=sticky, source=_names(rest))
            chosen.append(replace(more, least=1))
        return tuple(chosen)

    return Contributor(name, Layer.EVENT, read, render, most=2 * LOOKED_AT * LONGEST)


def _forms(fact: Mapping[str, Any]) -> tuple[str, ...]:
    text, source = fact["text"], f"remembered {fact['date']}, {fact['id']}"
    full = f"- {text} ({source})"
    if len(text) <= LONG:
        return (full,)
    return (full, f'- {text[:LONG].rstrip()} [...] ({source}; whole: recall("{DROP}"))')


def _pointer(slot: MemorySlot, count: int, capped: bool) -> str:
    """Return the pointer to `count` facts; `capped`: only so many were looked for, there may be others."""
    many = f"at least {count}" if capped else str(count)
    return f'[{many} more {"fact" if count == 1 else "facts"} {ABOUT[slot]}: recall("{DROP}")]'


def _names(facts: Sequence[Value]) -> str:
    names = [fact["id"] for fact in facts[:NAMED]]
    rest = len(facts) - len(names)
    return f"facts {', '.join(names)}" + (f" and {rest} more" if rest else "")


CONTRIBUTORS = (
    _contributor(MemorySlot.USER, Phase.CONSTRAINT + 30, priority=88, room=240, sticky=True),
    _contributor(MemorySlot.PROJECT, Phase.MEMORY + 20, priority=75, room=40),
    _contributor(MemorySlot.AGENT, Phase.MEMORY + 30, priority=70, room=40),
)
