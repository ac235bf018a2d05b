"""Read the workers of a session from its ledger, including those of earlier processes and nested workers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypedDict, cast

from nexus_cli.config.worktree_record import is_removed
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import WORKER
from nexus_cli.core.running_workers import ACTIVE_STATES, UNKNOWN, WorkerObject, describe_state
from nexus_cli.ledger import Ledger
from nexus_cli.reports.event_texts import worker_figures
from nexus_cli.reports.text.blocks import Blocks, OneLine


class WorkerList(TypedDict):
    """`list_workers`."""

    workers: list[WorkerObject]
    """Each followed by its own workers."""


def recorded_workers(ledger: Ledger, session: str) -> list[WorkerObject]:
    """Return the last records of a session's workers, each followed by its own workers.

    Dollars come from the worker's session in the ledger, and so do steps and tokens if the process ended while the
    worker ran: its state is `unknown` then.
    """
    newest = {memo.value["id"]: memo.value for memo in ledger.log(session).memos(WORKER, own=True)}
    rows: list[WorkerObject] = []
    for value in newest.values():
        row = {key: value[key] for key in WorkerObject.__annotations__}
        holder = row["session"] or session  # who resumes a session has its lock, but not those of its workers
        if row["state"] in ACTIVE_STATES and not (ledger.is_locked(holder) or ledger.find_locked([holder])):
            row |= {"state": UNKNOWN, "to_review": bool(row["worktree"])}
        row["to_review"] = row["to_review"] and not is_removed(Path(value["folder"]))
        below: list[WorkerObject] = []
        with suppress(NexusError):  # its session was deleted
            if worker_session := row["session"]:
                row["cost_usd"], below = (
                    ledger.session(worker_session).cost_usd,
                    recorded_workers(ledger, worker_session),
                )
            if worker_session and row["state"] == UNKNOWN:
                row |= {"steps": ledger.log(worker_session).step(), "tokens": ledger.usage(worker_session).tokens}
        rows += [cast("WorkerObject", row), *below]
    return rows


def worker_lines(value: JsonObject) -> Blocks:
    """Return a line for each worker of a session that is shown in full."""
    for worker in value.get("workers", ()):
        facts = [
            f"{worker['id']} {describe_state(worker['state'])}",
            *worker_figures(worker),
            f"session {worker['session'] or '-'}",
            worker["task"],
        ]
        yield OneLine(f"worker {' · '.join(facts)}")
