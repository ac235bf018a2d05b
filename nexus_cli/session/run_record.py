"""Describe a session that begins to wait and has no run yet, so that another process can resume it."""

from __future__ import annotations

from nexus_cli.core.front_ends import RUN
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import ASK, LEVELS
from nexus_cli.session.session_state import SessionState

LONGEST = 1000
"""Most characters of the person's request in the record."""


def describe_run(state: SessionState) -> JsonDict:
    """Return `type`, `title`, `trigger` and `options` of the run, see the memo `ledger.WAIT`."""
    options, limits = state.options, state.dispatcher.limits
    assert options is not None and state.record is not None, "only a session of the factory can wait"
    front = "ask" if options.front == RUN else "repl"
    message = next(iter(state.record.user_messages()), (0, ""))[1][:LONGEST]
    opened = {
        "folder": str(options.cwd),
        "worktree": options.worktree,
        "model": state.engine.model.info.name,
        "effort": state.engine.model.effort,
        "recipe": state.dispatcher.recipe.name,
        "allow": limits.allow if limits.allow in LEVELS else ASK,
        "max_cost": limits.max_cost,
        "max_steps": limits.max_steps,
        "max_total_tokens": limits.max_total_tokens,
        "timeout": limits.timeout,
    }
    return {
        "type": front,
        "title": message,
        "trigger": {"type": front, "message": message},
        "options": {name: value for name, value in opened.items() if value not in (None, "")},
    }
