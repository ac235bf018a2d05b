"""`/runs`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

from nexus_cli.commands.arguments import read_source, show_report
from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Argument, Authority, Noun, Option, Report, Source, Verb
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.run import APPROVAL, ENDED, FAILED, STATES, UNATTENDED, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import (
    MOST,
    RunReport,
    RunsReport,
    broken_runs,
    changed_runs,
    describe_run,
    name_origin,
    run_report,
    runs_report,
)

OFFERED = 20
"""Most runs that completion offers."""
MOST_SELECTED = 10_000
"""Most runs that are cancelled or paused together."""
RunId = Annotated[str, Argument("ID", "The run's id, such as run-12.", least=0)]

OneRun = Annotated[str, Argument("[ID]", "The run's id, such as run-12.", least=0)]
Every = Annotated[bool, Option(None, "Select all unattended runs.", "--all")]
OfPlan = Annotated[str, Option("ID", "Select the runs of a schedule.")]
OfSpace = Annotated[str, Option("NAME", "Select the runs of a space.")]
OfAgent = Annotated[str, Option("NAME", "Select the runs of an agent.")]


def build_list(
    source: Source,
    state: Annotated[str, Option("STATE", f"Show only runs in this state: {', '.join(STATES)}.", least=0)] = "",
    last: Annotated[int, Option("N", "List the newest N.")] = MOST,
) -> Report[RunsReport]:
    """List runs, newest first, with state, open wait and result."""
    if state and state not in STATES:
        raise UsageError(f"--state {state}", f"must be one of {', '.join(STATES)}")
    return Report("runs", runs_report(source.ledger, [state] if state else (), last))


def build_run(source: Source, run: RunId) -> Report[RunReport]:
    """Show a run: its trigger, waits, events and report."""
    return Report("run", run_report(source.ledger, source.ledger.runs.find(run)))


def select_runs(source: Source, run: str, every: bool, plan: str, space: str, agent: str) -> list[Run]:
    """Return the run `key`, or the open ones of a selection, oldest first; raise `NexusError` unless one is given."""
    ledger, runs = source.ledger, source.ledger.runs
    if sum(map(bool, (run, every, plan, space, agent))) != 1:
        why = "expected exactly one of a run id, --all, --plan, --space or --agent"
        raise UsageError("runs", why, "`nexus runs list` lists the runs")
    if run:
        return [runs.find(run)]
    filters: JsonDict = {}
    if plan:
        filters["plan"] = ledger.plans.find(plan).key
    elif space:
        filters["space"] = ledger.spaces.find(space).key
    elif agent:
        entity = ledger.spaces.find_entity(agent)
        if entity is None:
            raise UsageError(f"--agent {agent[:80]!r}", "there is no such agent", "See `nexus space list`")
        filters["entity"] = entity.key
    elif role := ledger.spaces.own_role():
        filters["principal"] = role  # not those of colleagues
    there = runs.list_runs([state for state in STATES if state not in ENDED], MOST_SELECTED, **filters)
    return [listed_run for listed_run in reversed(there) if listed_run.type in UNATTENDED]


def cancel_run(
    source: Source,
    run: OneRun = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report[RunReport | RunsReport]:
    """Cancel a run, all open runs, or those of a schedule, space or agent. A process that executes such a run stops.

    Completed steps are kept. A schedule still starts new runs: see nexus schedule pause.
    """
    runs, now = source.ledger.runs, utc_now()
    befores = [
        runs.cancel(selected_run.key, now) for selected_run in select_runs(source, run, every, plan, space, agent)
    ]
    if not run:
        return _changed(source, befores, "cancelled")
    (before,) = befores
    if before.has_ended:
        raise UsageError(before.id, f"already {before.state}", f"See `nexus runs show {before.id}`")
    was = "it was interrupted" if broken_runs(source.ledger, [before]) else f"it was {before.state}"
    done = f"was cancelled ({'waiting: ' + before.waits.why if before.waits else was})"
    return Report("run", run_report(source.ledger, runs.get(before.key), done))


def pause_run(
    source: Source,
    run: OneRun = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report[RunsReport]:
    """Pause a run, all open runs, or those of a schedule, space or agent. An active run stops after its step.

    `nexus runs resume` continues the run. A schedule still starts new runs: see nexus schedule pause.
    """
    runs, now = source.ledger.runs, utc_now()
    selected = select_runs(source, run, every, plan, space, agent)
    befores = [
        runs.set_paused(selected_run.key, True, now) for selected_run in selected if run or runs.is_own(selected_run)
    ]
    if run and befores[0].has_ended:
        raise UsageError(befores[0].id, f"already {befores[0].state}", f"See `nexus runs show {run}`")
    return _changed(source, befores, "paused")


def end_pause(source: Source, every: bool, plan: str, space: str, agent: str) -> Report[RunsReport]:
    """End the pause of the selected runs. They continue with the next nexus serve."""
    runs, now = source.ledger.runs, utc_now()
    selected = select_runs(source, "", every, plan, space, agent)
    paused = [run for run in selected if run.is_paused and runs.is_own(run)]
    return _changed(source, [runs.set_paused(run.key, False, now) for run in paused], "resumed")


def _changed(source: Source, befores: Sequence[Run], done: str) -> Report[RunsReport]:
    return Report("runs", changed_runs(source.ledger, [run.key for run in befores], done))


async def list_and_answer(context: CommandContext) -> Report[RunsReport]:
    """List runs and answer the questions of this project's runs, which then continue here. With ID, show that run."""
    source = read_source(context)
    report = build_list(source)
    if context.options.served:
        return report
    show_report(context, report)
    await _answer_waiting(context, source)
    return report._replace(form="")


async def _answer_waiting(context: CommandContext, source: Source) -> None:
    """Ask the person what the runs of this project wait for."""
    from nexus_cli.runs.away_report import waiting_runs  # noqa: PLC0415  (few projects have runs)

    for run in waiting_runs(source.ledger, source.folder()):
        asks = run.waits and run.waits.kind == APPROVAL and source.ledger.runs.is_own(run)
        if asks and not await _answer(context, source, run):
            return


async def _answer(context: CommandContext, source: Source, run: Run) -> bool:
    """Ask the person the questions of a run, and let it go on; return False without an answer."""
    from nexus_cli.runs.run_approvals import ask_person, name_person  # noqa: PLC0415

    approver = context.session.dispatcher.approver
    asker = f"{run.id} ({name_origin(describe_run(source.ledger, run))})"
    name = name_person(source.ledger, context.settings)
    if approver is None or not await ask_person(source.ledger, run, approver, name, asker):
        context.say(f"{run.id} is still waiting.")
        return False
    context.work_beside(_drive(context, source.ledger, run))
    return True


async def _drive(context: CommandContext, ledger: Ledger, run: Run) -> None:
    """Let a run go on in this process, unless another one has taken it; print how far it came."""
    from nexus_cli.runs.away_report import describe_rest  # noqa: PLC0415
    from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)

    with closing(ledger.connect_again()) as own_ledger:
        runner = Runner(own_ledger)
        try:
            await runner.run_due(key=run.key)
        finally:
            await runner.aclose()
            context.say(describe_rest(own_ledger, own_ledger.runs.get(run.key)))


def find_resumable(source: Source, run: str) -> Run:
    """Return a run of the person that can go on; raise `NexusError` for another one."""
    from nexus_cli.runs.run_approvals import require_own  # noqa: PLC0415  (few sessions resume runs)

    target_run = source.ledger.runs.find(run)
    if target_run.has_ended and target_run.state != FAILED:
        hint = (
            f"`nexus ask -r {target_run.session}` continues its session"
            if target_run.session
            else "See `nexus runs list`"
        )
        raise UsageError(target_run.id, f"already {target_run.state}", hint)
    require_own(source.ledger, target_run)
    return target_run


async def resume_run(
    context: CommandContext,
    run: OneRun = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report[RunReport | RunsReport]:
    """Continue a waiting or failed run: the run of this session here, other runs with the next nexus serve.

    --all, --plan, --space and --agent end the pause of the selected runs.
    """
    source = read_source(context)
    if not run:
        return end_pause(source, every, plan, space, agent)
    runs, target_run = source.ledger.runs, find_resumable(source, run)
    if target_run.state == FAILED:
        runs.resume_failed(target_run, utc_now())
        return Report("run", run_report(source.ledger, runs.get(target_run.key), "continues with `nexus serve`"))
    was_paused = runs.set_paused(target_run.key, False, utc_now()).is_paused
    if target_run.waits and target_run.waits.kind == APPROVAL:
        await _answer(context, source, target_run)
        return Report("", run_report(source.ledger, runs.get(target_run.key)))
    if target_run.state != WAITING and not was_paused:
        raise UsageError(
            target_run.id,
            f"this run is {target_run.state}",
            f"If no process executes it, run in a shell: nexus runs resume {target_run.id}",
        )
    if target_run.state == WAITING and not was_paused:
        runs.signal(target_run.key, "person", {}, utc_now())
    return Report("run", run_report(source.ledger, runs.get(target_run.key), "continues"))


def _complete_runs(source: Source) -> Sequence[str]:
    """Return the ids of the newest runs."""
    return [run.id for run in source.ledger.runs.list_runs((), OFFERED)]


NOUN = Noun(
    "runs",
    "run",
    (
        Verb(list_and_answer, is_alone=True),
        Verb(build_list, "list"),
        Verb(build_run, "show", complete=_complete_runs),
        Verb(cancel_run, "cancel", Authority.KEEPS, "write", complete=_complete_runs),
        Verb(pause_run, "pause", Authority.KEEPS, "write", complete=_complete_runs),
        Verb(resume_run, "resume", Authority.OPERATES, complete=_complete_runs),
    ),
    "List unattended runs and answer their questions.",
)
