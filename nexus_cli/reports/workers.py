"""Report the workers of a session from its ledger, including those of earlier processes and nested workers."""

from __future__ import annotations

from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger
from nexus_cli.session.running_workers import AT_WORK, UNKNOWN, WORKER

SHOWN = tuple(
    """
    id session task recipe state doing steps seconds tokens cost_usd changed worktree left to_review error
    """.split()
)
"""Keys of a worker in a report."""


def recorded_workers(ledger: Ledger, session: str) -> list[dict[str, Any]]:
    """Return the last records of a session's workers, each followed by its own workers.

    Dollars come from the worker's session in the ledger. The state is `unknown` if the process ended while the worker
    ran.
    """
    newest = {str(memo.value["id"]): memo.value for memo in ledger.log(session).memos(WORKER, own=True)}
    rows = []
    for value in newest.values():
        row = {key: value[key] for key in SHOWN}
        if row["state"] in AT_WORK and not ledger.is_locked(session):
            row["state"] = UNKNOWN
        try:
            row["cost_usd"] = ledger.session(row["session"]).cost_usd if row["session"] else row["cost_usd"]
            below = recorded_workers(ledger, row["session"]) if row["session"] else []
        except NexusError:  # its session was deleted
            below = []
        rows += [row, *below]
    return rows
