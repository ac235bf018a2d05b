"""`/agents`: the workers of the session. `workers/` runs them; `reports/` formats them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nexus_cli.commands.arguments import require_ledger
from nexus_cli.commands.command import Choice, Command, CommandContext, usage_error
from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.transcript import transcript_of
from nexus_cli.reports.workers import recorded_workers
from nexus_cli.session.running_workers import AT_WORK, RunningWorkers
from nexus_cli.session.session import Session

STEER, STOP, REVIEW = "steer", "stop", "review"
APPLY, DISCARD, REMOVE, LATER = "apply", "discard", "remove", "later"
MOST = 512 * 1024
"""Most bytes of a diff."""


async def show_agents(context: CommandContext, rest: str) -> None:
    """List the workers; open, steer or stop one.

    ID opens a worker's transcript in your pager. `steer ID WORDS` sends it a message: a running worker gets it with its
    next step, one that has ended resumes in the background. `stop ID` stops it; completed steps are kept. `review ID`
    shows the changes in its worktree, then asks if you want to apply or discard them.
    """
    word, _, more = rest.partition(" ")
    if not rest:
        context.show("workers", {"version": 1, "workers": _rows(context)})
    elif word == STEER:
        name, _, words = more.strip().partition(" ")
        await _steer(context, rest, name, words.strip())
    elif word == STOP:
        await _stop(context, rest, more.strip())
    elif word == REVIEW:
        await _review(context, rest, more.strip())
    else:
        await _open(context, rest)


def _rows(context: CommandContext) -> list[dict[str, Any]]:
    """Return all workers; those that run here with their current state."""
    recorded = recorded_workers(require_ledger(context), context.session.id)
    running = _running(context)
    now = {row["id"]: row for row in running.rows()} if running else {}
    rows = [{**row, **now.pop(row["id"], {})} for row in recorded]
    return [*rows, *now.values()]


def _running(context: CommandContext) -> RunningWorkers[Session] | None:
    return context.session.state.services.find(RunningWorkers)


def _find(context: CommandContext, rest: str, name: str) -> Mapping[str, Any]:
    """Return the worker with this id; raise `NexusError("usage", ...)` if it does not exist."""
    rows = _rows(context)
    found = next((row for row in rows if name and name in (row["id"], row["session"])), None)
    if found is None:
        named = f"no such worker; there are {', '.join(row['id'] for row in rows)}" if rows else "no worker was started"
        raise usage_error("agents", rest, named, "/agents lists them")
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
        raise usage_error("agents", rest, "the message is missing", "/agents steer ID WORDS")
    if running is None or running.find(row["id"]) is None:
        raise usage_error("agents", rest, "it belongs to another worker, or has ended", "/agents lists them")
    result = await running.steer(row["id"], words, wait=False, source="person")
    if result.error:
        raise usage_error("agents", rest, result.error.rstrip("."))
    context.say(result.output)


async def _stop(context: CommandContext, rest: str, name: str) -> None:
    row, running = _find(context, rest, name), _running(context)
    if row["state"] not in AT_WORK:
        raise usage_error("agents", rest, f"it has ended: {row['state']}", "/agents lists them")
    if running is None or running.find(row["id"]) is None:
        raise usage_error("agents", rest, "it belongs to another worker", "Stop that one")
    await running.manage(STOP, row["id"], "")
    context.say(f"{row['id']} is stopped. Completed steps are kept.")


async def _review(context: CommandContext, rest: str, name: str) -> None:
    from nexus_cli.worktrees.inspect_worktree import inspect_worktree  # noqa: PLC0415
    from nexus_cli.worktrees.worktrees import diff_worktree, find_worktree_of  # noqa: PLC0415

    row = _find(context, rest, name)
    if not row["worktree"]:
        raise usage_error("agents", rest, "it works in your folder, not in a worktree", "/diff shows what changed")
    if "." in row["id"]:
        first = row["id"].partition(".")[0]
        raise usage_error("agents", rest, f"its changes are in the folder of {first}", f"/agents review {first}")
    if row["state"] in AT_WORK:
        raise usage_error("agents", rest, "it is still running", f"/agents stop {row['id']} stops it")
    if not row["to_review"]:
        context.say(row["left"] or f"{row['id']} made no worktree.")
        return
    record = find_worktree_of(context.session.dispatcher.project, row["worktree"])
    state = await asyncio.to_thread(inspect_worktree, record)
    diff = await asyncio.to_thread(diff_worktree, record, tree=state.tree)
    text = diff[:MOST].decode("utf-8", "replace")
    more = f"{len(diff) - MOST:,} more bytes" if len(diff) > MOST else ""
    context.show(
        "diff", {"source": "git", "text": text, "cut": more, "unread": [], "untracked": [], "untracked_count": 0}
    )
    choices = [
        Choice(APPLY, "apply", "merge it into the project; conflicts are marked"),
        Choice(DISCARD, "discard", "delete the worktree and its contents"),
        Choice(LATER, "later", f"keep it; nexus worktree apply {record.name} applies it later"),
    ]
    question = f"{row['id']} made {state.describe()}"
    if state.counts.files and state.is_applied(record):
        question += "; all of it is in the project"
        choices = [Choice(LATER, "keep", "keep the worktree"), Choice(REMOVE, "remove", "delete the worktree")]
    chosen = await context.choose(question, choices)
    if chosen == APPLY:
        await _apply(context, row, record, state.tree)
    elif chosen == REMOVE:
        await _remove(context, row, record)
    elif chosen == DISCARD:
        if await asyncio.to_thread(inspect_worktree, record) != state:
            raise usage_error("agents", rest, "its worktree has changed since it was shown", "Review it again")
        await _discard(context, row, record)


async def _apply(context: CommandContext, row: Mapping[str, Any], record: WorktreeRecord, reviewed: str) -> None:
    """Merge the reviewed state of a worktree into the project and notify the model. If all of it was applied, remove
    the worktree."""
    from nexus_cli.worktrees.apply_worktree import apply_worktree  # noqa: PLC0415
    from nexus_cli.worktrees.worktrees import find_worktree_of  # noqa: PLC0415

    changes = context.session.dispatcher.call_changes
    work = partial(asyncio.to_thread, apply_worktree, record, reviewed=reviewed)
    result, _ = await changes.follow(f"apply {row['id']}", "", record.source, work)
    context.show("applied", result.to_json(record))
    names = ", ".join(one.path for one in result.conflicts)
    conflicts = f"; conflicts are left in {names}" if names else ""
    _tell_model(context, f"the person applied the changes of worker {row['id']} to the project{conflicts}")
    if result.conflicts:
        context.say(f"{plural(len(result.conflicts), 'conflict')} left to you. Nothing of yours was overwritten.")
        return
    try:
        await _remove(context, row, find_worktree_of(record.source, record.name))
    except NexusError as error:
        context.say(error.line)


async def _remove(context: CommandContext, row: Mapping[str, Any], record: WorktreeRecord) -> None:
    """Remove a worktree whose changes are in the project. Raises `NexusError` if it has anything else."""
    from nexus_cli.worktrees.worktrees import remove_worktree  # noqa: PLC0415

    more = await asyncio.to_thread(remove_worktree, record)
    _close_review(context, row, "applied")
    context.say(f"Worktree {record.name} is removed{f'; {more}' if more else ''}.")


async def _discard(context: CommandContext, row: Mapping[str, Any], record: WorktreeRecord) -> None:
    from nexus_cli.worktrees.worktrees import is_in_use, remove_worktree  # noqa: PLC0415

    if is_in_use(record):
        raise usage_error("agents", f"review {row['id']}", "a session is working in its worktree", "End that one first")
    more = await asyncio.to_thread(remove_worktree, record, force=True)
    _close_review(context, row, "discarded")
    _tell_model(context, f"the person discarded the changes of worker {row['id']}")
    context.say(f"Worktree {record.name} is discarded{f'; {more}' if more else ''}.")


def _close_review(context: CommandContext, row: Mapping[str, Any], outcome: str) -> None:
    """Tell the worker of this session that its worktree was removed."""
    running = _running(context)
    if worker := running.find(row["id"]) if running else None:
        worker.close_review(outcome)


def _tell_model(context: CommandContext, line: str) -> None:
    """Add a line for the model to the next request."""
    context.session.engine.tell_model(line)


def _complete_agents(context: CommandContext) -> Sequence[str]:
    """Return ids, and the actions on running workers."""
    try:
        rows = _rows(context)
    except NexusError:
        return ()
    at_work = [row["id"] for row in rows if row["state"] in AT_WORK]
    made = [f"{REVIEW} {row['id']}" for row in rows if row["to_review"]]
    return [*(row["id"] for row in rows), *(f"{what} {id_}" for what in (STEER, STOP) for id_ in at_work), *made]


COMMANDS = (
    Command(
        "agents",
        "work",
        show_agents,
        "[ID | steer ID WORDS | stop ID | review ID]",
        complete=_complete_agents,
        aliases=("agent",),
        served=lambda context, rest: rest.partition(" ")[0] != STEER,  # those are the person's words
    ),
)
