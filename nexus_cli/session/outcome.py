"""How a turn ended, from what its window and its figures show."""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Outcome
from nexus_cli.core.message import Role
from nexus_cli.session.parts import Parts
from nexus_cli.session.refused import explained


def outcome(parts: Parts, first: int, error: NexusError | None) -> Outcome:
    """The outcome of the turn that began after entry `first`; `error` is what stopped it short."""
    engine = parts.engine
    text, finish = "", error.kind if error else "stop"
    for slot in reversed(engine.lane.slots):
        if slot.entry <= first:
            break
        if slot.message.role is Role.ASSISTANT:
            text = slot.message.content
            break
    return Outcome(
        ok=error is None,
        exit=error.exit_status if error else 0,
        text=text,
        finish=finish,
        error={"kind": error.kind, "message": error.message, "hint": error.hint} if error else None,
        steps=engine.spending.steps,
        usage=engine.spending.usage,
        seconds=round(engine.spending.seconds, 3),
        denied=tuple(_denied(parts)),
        changed=tuple(parts.dispatcher.changed),
    )


def _denied(parts: Parts) -> Iterator[dict[str, str]]:
    """Every refused call of the turn, with what lets it run."""
    for row in parts.dispatcher.denied:
        tool = parts.dispatcher.registry.get(row["tool"])
        yield explained(row, parts.bounds, parts.recipe, str(tool.effect) if tool else "")
