"""How a turn ended, from what its last step said and its figures show."""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Outcome
from nexus_cli.session.parts import Parts
from nexus_cli.session.refused import explained


def outcome(parts: Parts, error: NexusError | None) -> Outcome:
    """The outcome of the newest turn; `error` is what stopped it short. Its text is what the last step said, as far as
    it came."""
    engine = parts.engine
    return Outcome(
        ok=error is None,
        exit=error.exit_status if error else 0,
        text=engine.said if engine.spending.steps else "",
        finish=error.kind if error else "stop",
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
        yield explained(row, parts.bounds, parts.recipe.name, str(tool.effect) if tool else "")
