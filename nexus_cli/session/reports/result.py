"""The result object of a turn (interface.md section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nexus_cli.core.entry import Drop
from nexus_cli.core.usage import Usage, round_dollars

if TYPE_CHECKING:
    from nexus_cli.core.event import Outcome
    from nexus_cli.session.parts import Parts


def result(parts: Parts, outcome: Outcome, drops: Iterable[Drop]) -> dict[str, Any]:
    """What `--json` prints at the end of a turn; `drops` are those of the turn."""
    engine = parts.engine
    budget = engine.budget
    return {
        "type": "result",
        "version": 1,
        "ok": outcome.ok,
        "exit": outcome.exit,
        "text": outcome.text,
        "data": None,
        "finish": outcome.finish,
        "session": parts.session_id,
        "model": engine.model.info.name,
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "usage": usage_value(outcome.usage),
        "context": {
            "window": budget.window,
            "budget": budget.available,
            "used": engine.coming(),
            "basis": engine.basis,
            "epoch": engine.lane.epoch.id,
        },
        "drops": [drop_value(drop) for drop in drops],
        "denied": list(outcome.denied),
        "files_changed": list(outcome.changed),
        "error": dict(outcome.error) if outcome.error else None,
    }


def usage_value(usage: Usage) -> dict[str, Any]:
    """Usage with the keys of interface.md section 6."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
        "cost_usd": None if usage.cost_usd is None else round_dollars(usage.cost_usd),
    }


def drop_value(drop: Drop) -> dict[str, Any]:
    """A drop with the keys of interface.md section 8, and its time and recalls."""
    return {
        "id": drop.id,
        "what": drop.what,
        "tokens": drop.tokens,
        "cause": str(drop.cause),
        "recall": drop.id,
        "at": drop.at,
        "uncounted_bytes": drop.uncounted,
        "recalls": drop.recalls,
    }
