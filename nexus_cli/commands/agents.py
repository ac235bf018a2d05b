"""`/agents`: the workers of the session. What runs them is the session's own; how it looks is `ui/reports/workers`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.commands.arguments import require_ledger
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.session.reports.transcript import transcript_of
from nexus_cli.session.reports.workers import recorded_workers
from nexus_cli.session.worker_slot import AT_WORK, RunningWorkers

STEER, STOP = "steer", "stop"


async def show_agents(context: CommandContext, rest: str) -> None:
    """List the workers; open, steer or stop one.

    ID opens what a worker has done so far, in your pager. `steer ID WORDS` says something to it: one that works hears
    it with its next step, one that has ended goes on in the background. `stop ID` stops it; what it did is kept.
    """
    word, _, more = rest.partition(" ")
    if not rest:
        context.show("workers", {"version": 1, "workers": _rows(context)})
    elif word == STEER:
        name, _, words = more.strip().partition(" ")
        await _steer(context, rest, name, words.strip())
    elif word == STOP:
        await _stop(context, rest, more.strip())
    else:
        await _open(context, rest)


def _rows(context: CommandContext) -> list[dict[str, Any]]:
    """Return all workers, those that run here as they are now."""
    recorded = recorded_workers(require_ledger(context), context.session.id)
    running = _running(context)
    now = {row["id"]: row for row in running.rows()} if running else {}
    rows = [{**row, **now.pop(row["id"], {})} for row in recorded]
    return [*rows, *now.values()]


def _running(context: CommandContext) -> RunningWorkers | None:
    slot = context.session.state.workers
    return slot.workers() if slot else None


def _find(context: CommandContext, rest: str, name: str) -> Mapping[str, Any]:
    """Return the worker of this id; raise `NexusError("usage", ...)` if there is none."""
    rows = _rows(context)
    found = next((row for row in rows if name and name in (row["id"], row["session"])), None)
    if found is None:
        named = ", ".join(row["id"] for row in rows) or "none"
        raise usage_error("agents", rest, f"there is no such worker; there are: {named}", "/agents lists them")
    return found


async def _open(context: CommandContext, rest: str) -> None:
    row = _find(context, rest, rest)
    if not row["session"]:
        context.say(f"{row['id']} has not begun yet.")
        return
    ledger = require_ledger(context)
    subjects = {tool.name: tool.subject for tool in context.session.tools()}
    try:
        info = ledger.session(row["session"])
        value = await asyncio.to_thread(transcript_of, ledger.log(info.id), info, subjects)
    except NexusError as error:
        raise usage_error("agents", rest, f"its session cannot be read: {error.message}") from error
    context.show("transcript", {**value, "name": f"worker {row['id']} ({row['state']})"})


async def _steer(context: CommandContext, rest: str, name: str, words: str) -> None:
    row, running = _find(context, rest, name), _running(context)
    if not words:
        raise usage_error("agents", rest, "there are no words for it", "/agents steer ID WORDS")
    worker = running.find(row["id"]) if running else None
    if running is None or worker is None:
        raise usage_error("agents", rest, "it works for another worker, or works no more", "/agents lists them")
    result = await running.steer(worker, words, wait=False)
    if result.error:
        raise usage_error("agents", rest, result.error.rstrip("."))
    context.say(result.output)


async def _stop(context: CommandContext, rest: str, name: str) -> None:
    row, running = _find(context, rest, name), _running(context)
    if row["state"] not in AT_WORK:
        raise usage_error("agents", rest, f"it works no more: {row['state']}", "/agents lists them")
    if running is None or running.find(row["id"]) is None:
        raise usage_error("agents", rest, "it works for another worker", "Stop that one")
    await running.manage(STOP, row["id"], "")
    context.say(f"{row['id']} is stopped; what it did is kept.")


def _complete_agents(context: CommandContext) -> Sequence[str]:
    """Return ids, and what can be done with workers that run."""
    try:
        rows = _rows(context)
    except NexusError:
        return ()
    at_work = [row["id"] for row in rows if row["state"] in AT_WORK]
    return [*(row["id"] for row in rows), *(f"{what} {id_}" for what in (STEER, STOP) for id_ in at_work)]


COMMANDS = (
    Command(
        "agents", "work", show_agents, "[ID | steer ID WORDS | stop ID]", complete=_complete_agents, aliases=("agent",)
    ),
)
