"""The remembered facts that the next request tells, for the person to see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nexus_cli.session.engine import Engine

SLOT = "_memory"
_LINE = re.compile(r"- (?P<text>.*) \(remembered \S+, (?P<id>m\d+)[;)]")
"""How `nexus_cli.context.sections.memory_sections` writes one."""


def told_facts(engine: Engine) -> list[dict[str, Any]]:
    """`id`, `slot` and `text` of each fact that the next request tells anew."""
    told = {str(one["id"]) for one in engine.event}
    if not any(f"{SLOT}." in name for name in told):
        return []
    return [one for one in _written(engine) if f"{one['slot']}{SLOT}.{one['id']}" in told]


def _written(engine: Engine) -> Iterator[dict[str, Any]]:
    """Every fact in what was added to the newest message, with each slot that it may be of."""
    preamble = next((slot.preamble for slot in reversed(engine.lane.slots) if slot.preamble), "")
    slots = {str(one["id"]).partition(f"{SLOT}.")[0] for one in engine.event if f"{SLOT}." in str(one["id"])}
    for line in preamble.split("\n"):
        if found := _LINE.match(line):
            yield from ({"id": found["id"], "slot": slot, "text": found["text"]} for slot in sorted(slots))
