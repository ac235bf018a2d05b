"""`/runs`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nexus_cli.commands.arguments import read_source, show_report, split_act
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, usage_error
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import APPROVAL, ENDED, FAILED, STATES, UNATTENDED, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import MOST, changed_runs, describe_run, name_origin, run_report, runs_report

ACTS = ("list", "show", "cancel", "pause", "resume")
MOST_SELECTED = 10_000
"""Most runs that are cancelled or paused together."""
RunId = Annotated[str, Option("ID", "The run's id, such as run-12.", is_argument=True, least=0)]

OneRun = Annotated[str, Option("[ID]", "The run's id, such as run-12.", is_argument=True, least=0)]
Every = Annotated[bool, Option(None, "All runs that nobody watches.", "--all")]
OfPlan = Annotated[str, Option("ID", "Those of scheduled work.")]
OfSpace = Annotated[str, Option("NAME", "Those of a space.")]
OfAgent = Annotated[str, Option("NAME", "Those of an agent.")]


def build_list(
    source: Source,
    state: Annotated[str, Option("STATE", f"Only one of {', '.join(STATES)}.", least=0)] = "",
    last: Annotated[int, Option("N", "List the newest N.")] = MOST,
) -> Report:
    """List runs, the newest first: their state, what they wait for, how they ended."""
    if state and state not in STATES:
        raise NexusError("usage", f"--state {state}", f"expected one of {', '.join(STATES)}")
    return Report("runs", runs_report(source.ledger, [state] if state else (), last))


def build_run(source: Source, run: RunId) -> Report:
    """Show one run: what started it, what it waits for, what came, its report."""
    return Report("run", run_report(source.ledger, source.ledger.runs.find(run)))


def select_runs(source: Source, run: str, every: bool, plan: str, space: str, agent: str) -> list[Run]:
    """Return the run `key`, or the open ones of a selection, oldest first; raise `NexusError` unless one is given."""
    ledger, runs = source.ledger, source.ledger.runs
    if sum(map(bool, (run, every, plan, space, agent))) != 1:
        why = "name one run, or one of --all, --plan, --space and --agent"
        raise NexusError("usage", "which runs", why, f"{source.prefix}runs list shows them")
    if run:
        return [runs.find(run)]
    where: dict[str, Any] = {}
    if plan:
        where["plan"] = ledger.plans.find(plan).key
    elif space:
        where["space"] = ledger.spaces.find(space).key
    elif agent:
        found = ledger.spaces.find_entity(agent)
        if found is None:
            raise NexusError("usage", f"--agent {agent[:80]!r}", "there is no such agent", "nexus space list")
        where["entity"] = found.key
    elif role := ledger.spaces.own_role():
        where["principal"] = role  # not those of colleagues
    there = runs.list_runs([state for state in STATES if state not in ENDED], MOST_SELECTED, **where)
    return [one for one in reversed(there) if one.type in UNATTENDED]


def cancel_run(
    source: Source,
    run: OneRun = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report:
    """End a run, or all open ones of a schedule, space or agent; a process that works on it stops. What is done stays.

    New ones still start: see nexus schedule pause.
    """
    runs, at = source.ledger.runs, format_utc(local_now())
    befores = [runs.cancel(one.key, at) for one in select_runs(source, run, every, plan, space, agent)]
    if not run:
        return _changed(source, befores, "cancelled")
    (before,) = befores
    if before.has_ended:
        raise NexusError("usage", before.id, f"it is {before.state} already", f"{source.prefix}runs show {before.id}")
    done = f"is cancelled (it {'waited: ' + before.waits.why if before.waits else 'was ' + before.state})"
    return Report("run", run_report(source.ledger, runs.get(before.key), done))


def pause_run(
    source: Source,
    run: OneRun = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report:
    """Pause a run, or all open ones of a schedule, space or agent: one that works ends after its step.

    `nexus runs resume` lets it go on. New ones still start: see nexus schedule pause.
    """
    runs, at = source.ledger.runs, format_utc(local_now())
    selected = select_runs(source, run, every, plan, space, agent)
    befores = [runs.set_paused(one.key, True, at) for one in selected if run or runs.is_own(one)]
    if run and befores[0].has_ended:
        raise NexusError("usage", befores[0].id, f"it is {befores[0].state}", f"{source.prefix}runs show {run}")
    return _changed(source, befores, "paused")


def end_pause(source: Source, every: bool, plan: str, space: str, agent: str) -> Report:
    """Let the paused runs of a selection go on, with the next nexus serve."""
    runs, at = source.ledger.runs, format_utc(local_now())
    selected = select_runs(source, "", every, plan, space, agent)
    paused = [one for one in selected if one.is_paused and runs.is_own(one)]
    return _changed(source, [runs.set_paused(one.key, False, at) for one in paused], "resumed")


def _changed(source: Source, befores: Sequence[Run], done: str) -> Report:
    return Report("runs", changed_runs(source.ledger, [one.key for one in befores], done))


async def edit_runs(context: CommandContext, rest: str) -> None:
    """List runs and answer what they ask.

    Without an argument it also asks what the runs of this project wait for; one that is answered goes on here. `resume`
    continues a waiting or failed run: the run of this session here, any other one with the next nexus serve. `cancel`
    and `pause` also take `--all`, `--plan ID`, `--space NAME` and `--agent NAME`, `resume` ends such a pause.
    """
    source = read_source(context)
    act, text = split_act(rest)
    if act in ("", "list") and not text:
        show_report(context, build_list(source))
        if not act:
            await _answer_waiting(context, source)
        return
    if act not in ACTS or not text:
        act, text = ("show", rest.strip()) if not text else (act, text)
    match act:
        case "show":
            show_report(context, build_run(source, text))
        case "cancel" | "pause":
            show_report(context, (cancel_run if act == "cancel" else pause_run)(source, **_parse_selection(rest, text)))
        case "resume":
            await _resume(context, source, text)
        case _:
            raise usage_error("runs", rest, f"expected one of {', '.join(ACTS)}, and the id of a run")


def _parse_selection(rest: str, text: str) -> dict[str, Any]:
    """Parse an id, `--all`, or `--plan`, `--space`, `--agent` with a value."""
    name, _, value = text.partition(" ")
    if not name.startswith("--"):
        return {"run": text}
    if name == "--all" and not value:
        return {"every": True}
    if name in ("--plan", "--space", "--agent") and value.strip():
        return {name[2:]: value.strip()}
    raise usage_error("runs", rest, f"{name} is not one of --all, --plan ID, --space NAME and --agent NAME")


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
        context.say(f"{run.id} still waits.")
        return False
    context.work_beside(_drive(context, source.ledger, run))
    return True


async def _drive(context: CommandContext, ledger: Ledger, run: Run) -> None:
    """Let a run go on in this process, unless another one has taken it; print how far it came."""
    from nexus_cli.runs.away_report import describe_rest  # noqa: PLC0415
    from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)

    own = ledger.connect_again()
    runner = Runner(own)
    try:
        await runner.run_due(key=run.key)
    finally:
        await runner.aclose()
        context.say(describe_rest(own, own.runs.get(run.key)))
        own.close()


async def _resume(context: CommandContext, source: Source, text: str) -> None:
    from nexus_cli.runs.run_approvals import require_own  # noqa: PLC0415  (few sessions resume runs)

    if text.startswith("--"):
        selected = {"every": False, "plan": "", "space": "", "agent": "", **_parse_selection(text, text)}
        show_report(context, end_pause(source, **selected))
        return
    runs, run = source.ledger.runs, source.ledger.runs.find(text)
    if run.has_ended and run.state != FAILED:
        raise NexusError("usage", run.id, f"it is {run.state} already", f"/runs show {run.id}")
    require_own(source.ledger, run)
    if run.state == FAILED:
        runs.resume_failed(run, format_utc(local_now()))
        show_report(context, Report("run", run_report(source.ledger, runs.get(run.key), "continues with nexus serve")))
        return
    was_paused = runs.set_paused(run.key, False, format_utc(local_now())).is_paused
    if run.waits and run.waits.kind == APPROVAL:
        await _answer(context, source, run)
        return
    if run.state != WAITING and not was_paused:
        raise NexusError("usage", run.id, f"it is {run.state}", f"Use nexus runs resume {run.id} in a shell")
    if run.state == WAITING and not was_paused:
        runs.signal(run.key, "person", {}, format_utc(local_now()))
    show_report(context, Report("run", run_report(source.ledger, runs.get(run.key), "goes on")))


COMMANDS = (Command("runs", "work", edit_runs, "[show|cancel|pause|resume] [ID]"),)
TWINS = (
    Twin(build_list, "list"),
    Twin(build_run, "show"),
    Twin(cancel_run, "cancel", "write"),
    Twin(pause_run, "pause", "write"),
)
