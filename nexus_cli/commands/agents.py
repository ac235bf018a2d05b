"""`/agents`: the workers of the session, which `workers/` runs, and the agents that a worker can be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.commands.arguments import SessionSource, show_report
from nexus_cli.commands.command import Choice, CommandContext, usage_error
from nexus_cli.commands.sessions import SessionReport, build_session
from nexus_cli.commands.skill import describe_guide, describe_untrusted, list_agents, name_origin
from nexus_cli.commands.undo import record_act
from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.commands.worktree import diff_value, record_apply_in_session
from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession
from nexus_cli.core.option import Argument
from nexus_cli.core.running_workers import ACTIVE_STATES, RunningWorkers, WorkerObject, describe_state
from nexus_cli.guides.skills import Skill
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import cut_line, dollars, short, worker_title
from nexus_cli.reports.workers import recorded_workers
from nexus_cli.session.session import Session

NONE = "No workers in this session."
MAX_ACTIVITY_CELLS = 200
"""Most cells of the activity of a worker."""
APPLY, DISCARD, REMOVE, LATER = "apply", "discard", "remove", "later"
WorkerId = Annotated[str, Argument("ID", "The worker's id, such as w1.")]


class WorkersReport(ReportOfSession):
    """The workers of a session."""

    workers: list[WorkerObject]
    """Each is followed by its own workers."""
    agents: list[JsonOf[Skill]]
    """The roles that a worker can have."""
    untrusted: int
    """Agents of the project that are not in effect."""


def workers_text(value: JsonObject) -> Blocks:
    """Return a line for each worker, the command that opens one, and a line for each agent."""
    columns = {
        "id": "id",
        "state": lambda worker: describe_state(worker["state"]),
        "steps": "steps",
        "tokens": lambda worker: short(worker["tokens"]),
        "cost": lambda worker: dollars(worker["cost_usd"]),
        "task": _describe_task,
    }
    yield Table(columns, value["workers"], NONE)
    if value["workers"]:
        hint = "Details: nexus agents show ID. In its session: /agents steer ID TEXT, stop ID or review ID"
        yield from ["", name_commands(hint)]
    if agents := value["agents"]:
        yield from ["", "The model can delegate work to these agents; @NAME requests an agent:"]
        yield Table({"agent": lambda agent: f"@{agent['name']}", "from": name_origin, "what": describe_guide}, agents)
    if value["untrusted"]:
        yield from ["", describe_untrusted(value["untrusted"], "agent")]


def _describe_task(worker: JsonObject) -> str:
    """Return the role and the task of a worker, and what it does now."""
    role = f"{worker['recipe']}: " if worker["recipe"] != "worker" else ""
    now = f" · {cut_line(worker['doing'], MAX_ACTIVITY_CELLS)}" if worker["doing"] else ""
    return f"{role}{worker_title(worker['task'])}{now}"


def build_worker(source: Source, worker: WorkerId) -> Report[SessionReport]:
    """Print the conversation of a worker."""
    row = _find_row(source, worker)
    if not row["session"]:
        raise UsageError(f"worker {row['id']}", "this worker has not started", "`nexus agents list` shows the workers")
    try:
        report = build_session(source, row["session"])
    except NexusError as error:
        raise UsageError(f"worker {row['id']}", f"its session cannot be read: {error.message}") from error
    report.value["name"] = f"worker {row['id']} ({describe_state(row['state'])})"
    return report


def build_list(source: Source) -> Report[WorkersReport]:
    """List the workers of a session, and the agents that the model can delegate work to."""
    folder = Path(source.ledger.session(source.session()).folder) if source.session_name else source.folder()
    agents, untrusted = list_agents(folder)
    value: WorkersReport = {"version": 1, "session": "", "workers": [], "agents": agents, "untrusted": untrusted}
    try:
        value["session"] = source.session()
        value["workers"] = _rows(source)
    except NexusError as error:
        if source.session_name or not (agents or untrusted) or error.kind != "usage":  # a new folder has agents too
            raise
    return Report("workers", value, uncut=True)


def _rows(source: Source) -> list[Any]:
    """Return all workers; those that run here with their current state."""
    recorded = recorded_workers(source.ledger, source.session())
    running = _running(source.live) if source.live else None
    now = {row["id"]: row for row in running.rows()} if running else {}
    return [*({**row, **now.pop(row["id"], {})} for row in recorded), *now.values()]


def _running(session: Session) -> RunningWorkers[Session] | None:
    return session.services.find(RunningWorkers)


def _find_row(source: Source, name: str) -> JsonObject:
    """Return the worker with this id; raise `UsageError` if it does not exist."""
    rows = _rows(source)
    worker: JsonObject | None = next((row for row in rows if name in (row["id"], row["session"])), None)
    if worker is None:
        reason = (
            f"there is no such worker; workers: {', '.join(row['id'] for row in rows)}"
            if rows
            else "no worker was started"
        )
        raise UsageError(f"worker {one_line(name)[:60]}", reason, "`nexus agents list` shows the workers")
    return worker


def _require_running(context: CommandContext, name: str) -> tuple[JsonObject, RunningWorkers[Session]]:
    """Return a worker of this session, and those that run here."""
    row, running = _find_row(SessionSource(context), name), _running(context.session)
    if running is None or running.find(row["id"]) is None:
        raise usage_error(
            "agents", name, "this worker has ended, or belongs to another worker", "/agents lists the workers"
        )
    return row, running


async def steer_worker(
    context: CommandContext,
    worker: WorkerId,
    words: Annotated[str, Argument("WORDS", "The message.", is_text=True)],
) -> Act:
    """Send a message to a worker. A running worker gets the message with its next step; an ended worker resumes."""
    row, running = _require_running(context, worker)
    result = await running.steer(row["id"], words, wait=False, source="person")
    if result.error:
        raise usage_error("agents", f"steer {worker}", result.error.rstrip("."))
    return print_act(result.output, row["id"])


async def stop_worker(context: CommandContext, worker: WorkerId) -> Act:
    """Stop a worker; completed steps are kept."""
    row, running = _require_running(context, worker)
    if row["state"] not in ACTIVE_STATES:
        raise usage_error(
            "agents",
            f"stop {worker}",
            f"this worker has ended: {describe_state(row['state'])}",
            "/agents lists the workers",
        )
    await running.manage("stop", row["id"], "")
    return print_act(f"{row['id']} was stopped. Completed steps are kept.", row["id"])


async def review_worker(context: CommandContext, worker: WorkerId) -> Act:
    """Show the changes in a worker's worktree, then ask whether to apply or discard them."""
    from nexus_cli.worktrees.worktrees import diff_worktree, find_worktree_of, read_state  # noqa: PLC0415

    source, arguments = SessionSource(context), f"review {worker}"
    row = _find_row(source, worker)
    if first := _find_first_worktree(source, row["id"]):
        merge = f"/worktree apply {row['worktree']} merges them there, then u" if row["to_review"] else "U"
        why = f"its changes belong in the worktree of {first}"
        raise usage_error("agents", arguments, why, f"{merge}se /agents review {first}")
    if not row["worktree"]:
        raise usage_error(
            "agents",
            arguments,
            "this worker has no worktree; its changes, if any, are in your folder",
            "/diff shows the changes",
        )
    if row["state"] in ACTIVE_STATES:
        raise usage_error("agents", arguments, "this worker is still running", f"/agents stop {row['id']} stops it")
    if not row["to_review"]:
        return print_act(row["left"] or f"{row['id']} has no worktree.")
    record = find_worktree_of(context.session.dispatcher.project_root, row["worktree"])
    state = await asyncio.to_thread(read_state, record)
    context.show("diff", diff_value(await asyncio.to_thread(diff_worktree, record, tree=state.tree)))
    choices = [
        Choice(APPLY, "apply", "merge, marking conflicts"),
        Choice(DISCARD, "discard", "delete the worktree"),
        Choice(LATER, "later", f"apply later: /worktree apply {record.name}"),
    ]
    question = f"{row['id']}: {state.describe()}"
    if state.counts.files and state.is_applied(record):
        question += "; already applied to the project"
        choices = [Choice(LATER, "keep", "keep the worktree"), Choice(REMOVE, "remove", "delete the worktree")]
    chosen = await context.choose(question, choices)
    if chosen == APPLY:
        return print_act(await _apply(context, row, record, state.tree), record.name)
    if chosen not in (REMOVE, DISCARD):
        return report_act("")
    discards = chosen == DISCARD
    if discards and await asyncio.to_thread(read_state, record) != state:
        raise usage_error("agents", arguments, "the worktree has changed since the review", "Review the worktree again")
    return print_act(await _remove(context.session, row, record, discards=discards), record.name)


def _find_first_worktree(source: Source, worker: str) -> str:
    """Return the nearest of the workers that a worker works for and that has a worktree, "" if there is none."""
    while worker := worker.rpartition(".")[0]:
        if _find_row(source, worker)["worktree"]:
            break
    return worker


async def _apply(context: CommandContext, row: JsonObject, record: WorktreeRecord, reviewed: str) -> str:
    """Merge the reviewed state of a worktree into the project. If all of it was applied, remove the worktree, and
    return a sentence about that."""
    from nexus_cli.worktrees.worktrees import find_worktree_of  # noqa: PLC0415

    report = await record_apply_in_session(context.session, record, row["id"], reviewed)
    show_report(context, report)
    if report.value["conflicts"]:
        return ""
    try:
        return await _remove(context.session, row, find_worktree_of(record.source, record.name))
    except NexusError as error:
        return error.line


async def _remove(session: Session, row: JsonObject, record: WorktreeRecord, *, discards: bool = False) -> str:
    """Remove a worktree whose changes are in the project, or which the person discards; return a sentence about that.
    Raises `NexusError` if it has anything else, or a session works in it."""
    from nexus_cli.worktrees.worktrees import is_in_use, remove_worktree  # noqa: PLC0415

    if discards and is_in_use(record):
        why = "a session is working in its worktree"
        raise usage_error("agents", f"review {row['id']}", why, "End that session first")
    note = await asyncio.to_thread(remove_worktree, record, force=discards)
    if running := _running(session):
        running.close_review(row["id"], "discarded" if discards else "applied")
    if discards:
        turn = session.dispatcher.call_changes.turn_number()
        record_act(session.conversation.log, f"discarded the changes of worker {row['id']}", turn)
    verb = "discarded" if discards else "removed"
    return f"Worktree {record.name} was {verb}{f'; {note}' if note else ''}."


def _complete_workers(source: Source, *, at_work: bool = False, to_review: bool = False) -> Sequence[str]:
    """Return the ids of the workers, or of those that run, or of those whose changes wait for a review."""
    rows = _rows(source)
    return [
        row["id"]
        for row in rows
        if (not at_work or row["state"] in ACTIVE_STATES) and (not to_review or row["to_review"])
    ]


_AT_WORK = partial(_complete_workers, at_work=True)
NOUN = Noun(
    "agents",
    "run",
    (
        Verb(build_list, "list", of_session=True),
        Verb(build_worker, "show", of_session=True, complete=_complete_workers),
        Verb(steer_worker, "steer", Authority.KEEPS, complete=_AT_WORK),
        Verb(stop_worker, "stop", complete=_AT_WORK),
        Verb(review_worker, "review", complete=partial(_complete_workers, to_review=True)),
    ),
    "List, steer, stop and review workers; list agents.",
    aliases=("agent", "workers", "worker"),
)
