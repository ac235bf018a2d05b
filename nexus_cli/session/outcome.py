"""The outcome of a turn, from its last step and its figures: as a value, and as the object of `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Outcome
from nexus_cli.core.usage import Usage, round_dollars
from nexus_cli.session.denials import explain_denial
from nexus_cli.session.drop_list import drop_value
from nexus_cli.session.next_request.current import next_request
from nexus_cli.session.session_state import SessionState


def outcome(state: SessionState, error: NexusError | None) -> Outcome:
    """Return the outcome of the newest turn; `error` is what stopped it. Its text is that of the last step."""
    lane_state = state.lane_state
    return Outcome(
        ok=error is None,
        exit=error.exit_status if error else 0,
        text=lane_state.said if lane_state.spending.steps else "",
        finish=error.kind if error else "stop",
        error={"kind": error.kind, "message": error.message, "hint": error.hint} if error else None,
        steps=lane_state.spending.steps,
        usage=lane_state.spending.usage,
        seconds=round(lane_state.spending.seconds, 3),
        denied=tuple(_denied(state)),
        changed=tuple(state.dispatcher.changed),
    )


def _denied(state: SessionState) -> Iterator[dict[str, str]]:
    """Yield every refused call of the turn with what lets it run."""
    for row in state.dispatcher.denied:
        tool = state.dispatcher.registry.get(row["tool"])
        yield explain_denial(row, state.bounds, state.recipe.name, str(tool.effect) if tool else "")


def result_object(state: SessionState, outcome: Outcome, drops: Iterable[Drop]) -> dict[str, Any]:
    """Return what `--json` prints at the end of a turn; `drops` are those of the turn."""
    lane_state = state.lane_state
    request = next_request(lane_state)
    return {
        "type": "result",
        "version": 1,
        "ok": outcome.ok,
        "exit": outcome.exit,
        "text": outcome.text,
        "data": None,
        "finish": outcome.finish,
        "session": state.session_id,
        "model": lane_state.model.info.name,
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "usage": _usage(outcome.usage),
        "context": {
            "window": request.budget.window,
            "budget": request.budget.available,
            "used": request.tokens,
            "basis": request.basis,
            "epoch": lane_state.lane.epoch.id,
        },
        "drops": [drop_value(drop) for drop in drops],
        "denied": list(outcome.denied),
        "files_changed": list(outcome.changed),
        "error": dict(outcome.error) if outcome.error else None,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """Return usage with the keys of interface.md section 6."""
    return asdict(usage) | {"cost_usd": None if usage.cost_usd is None else round_dollars(usage.cost_usd)}
