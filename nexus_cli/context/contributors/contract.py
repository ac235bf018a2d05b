"""The operating rules (seed E's contract): our own first text of every system prompt, `defaults/prompts/system.md`.

They are not in NEXUS.md, so that a person's own file of two lines does not switch them off (design section 1).
"""

from __future__ import annotations

import asyncio

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.prompts import prompt
from nexus_cli.context.section import Layer, Phase, Section

SOURCE = "defaults/prompts/system.md"


async def read(sources: Sources) -> Value:
    """The text of the rules."""
    return await asyncio.to_thread(prompt, "system")


def render(value: Value, view: View) -> tuple[Section, ...]:
    """One section, first of all."""
    return (Section("contract", Phase.CONSTRAINT, (value,), Layer.SYSTEM, priority=99, sticky=True, source=SOURCE),)


CONTRIBUTOR = Contributor("contract", Layer.SYSTEM, read, render)
