"""`/runs`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Annotated, Any

from nexus_cli.commands.arguments import level_of
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import EXIT_STATUS, UsageError
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.run import ENDED, FAILED, STATES, UNATTENDED, WAITING, Run
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import (
    MOST,
    RunReport,
    RunsReport,
    broken_runs,
    describe_run,
    describe_runs,
    name_origin,
    run_report,
)

OFFERED = 20
"""Most runs that completion offers."""
MAX_SELECTED = 10_000
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
    """List runs, newest first: state, what they wait for, result."""
    if state and state not in STATES:
        raise UsageError(f"--state {state}", f"must be one of {', '.join(STATES)}")
    runs = source.ledger.runs.list_runs([state] if state else (), last)
    return Report("runs", {"version": 1, "runs": describe_runs(source.ledger, runs)})


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
    open_runs = runs.list_runs([state for state in STATES if state not in ENDED], MAX_SELECTED, **filters)
    return [listed_run for listed_run in reversed(open_runs) if listed_run.type in UNATTENDED]


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
    outcome = f"was cancelled ({'waiting: ' + before.waits.why if before.waits else was})"
    return Report("run", run_report(source.ledger, runs.get(before.key), outcome), changed=True)


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
    for run in paused:
        source.require_level(level_of(run.options), run.id)
    return _changed(source, [runs.set_paused(run.key, False, now) for run in paused], "resumed")


def _changed(source: Source, befores: Sequence[Run], outcome: str) -> Report[RunsReport]:
    """Return the report of several runs, and the `outcome` of a command for them: `cancelled`, `paused`, `resumed`."""
    runs = map(source.ledger.runs.get, [run.key for run in befores])
    value: RunsReport = {"version": 1, "done": outcome, "runs": describe_runs(source.ledger, runs)}
    return Report("runs", value, changed=bool(befores))


def list_and_answer(source: Source) -> Report[Annotated[Any, RunsReport]]:
    """List the runs, then ask you for the approvals that they wait for, if you can be asked; these runs then continue.

    In a session nexus asks only for the runs of this project.
    """
    report: Report[Any] = build_list(source)
    for run in _list_asking(source):
        source.show(report)
        report = resume_run(source, run.id)
        if report.status and source.ledger.runs.get(run.key).state != FAILED:  # stopped, or left for later
            break
    return report


def _list_asking(source: Source) -> list[Run]:
    """Return the runs whose questions the person can be asked now."""
    from nexus_cli.runs.missed_runs import waiting_runs  # noqa: PLC0415  (few projects have runs)
    from nexus_cli.runs.run_approvals import asks_approval  # noqa: PLC0415  (as above)

    runs = source.ledger.runs
    if source.is_json or source.approver() is None:
        return []
    waiting = waiting_runs(source.ledger, source.folder()) if source.live else runs.waiting()[::-1]
    return [run for run in waiting if asks_approval(run) and runs.is_own(run)]


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
    source.require_level(level_of(target_run.options), target_run.id)
    return target_run


def resume_run(
    source: Source,
    run: OneRun = "",
    answer: Annotated[
        str,
        Option("yes|session|no", "Answer to the run's question; session = yes for the rest of the run.", least=0),
    ] = "",
    every: Every = False,
    plan: OfPlan = "",
    space: OfSpace = "",
    agent: OfAgent = "",
) -> Report[RunReport | RunsReport]:
    """Continue a waiting or failed run now.

    If the run waits for an approval, nexus asks you; where nobody can be asked, answer with --answer. In a shell the
    run continues in that terminal. In a session the run of this session and an answered run continue there, other runs
    with the next nexus serve. A failed run continues in its session with its level, rules and model, and its limits
    start again. Exit status: 0 success, 1 if the run failed, 3 if the run waits again or a limit stopped it, 130 after
    Ctrl+C (resume it again). --all, --plan, --space and --agent only end the pause of the selected runs; nexus serve
    then continues them.
    """
    from nexus_cli.runs.run_approvals import ANSWERS, asks_approval  # noqa: PLC0415  (few sessions resume runs)

    if answer and answer not in ANSWERS:
        raise UsageError(f"--answer {answer}", f"must be one of {', '.join(ANSWERS)}")
    if not run:
        if answer:
            hint = f"Run: nexus runs resume ID --answer {answer}"
            raise UsageError(f"--answer {answer}", "the run id is missing", hint)
        return end_pause(source, every, plan, space, agent)
    ledger, target_run = source.ledger, find_resumable(source, run)
    is_answered = _signal(source, target_run, answer)
    if not is_answered and source.live:
        source.say(f"still waiting: {target_run.id}")
        return Report("", run_report(ledger, target_run), status=EXIT_STATUS["waiting"])
    if target_run.state == FAILED:
        ledger.runs.resume_failed(target_run, utc_now())
    ledger.runs.set_paused(target_run.key, False, utc_now())
    if report := source.drive(target_run):
        return report
    now = ledger.runs.get(target_run.key)
    if asks_approval(target_run) and not source.is_served:
        source.run_in_background(partial(_drive, ledger, now))
        return Report("", run_report(ledger, now), changed=True)
    is_left = target_run.state == FAILED or asks_approval(target_run)
    outcome = f"continues{' with `nexus serve`' * is_left}"
    return Report("run", run_report(ledger, now, outcome), changed=True)


def _signal(source: Source, run: Run, answer: str) -> bool:
    """Signal that a person resumes or answers the run; ask them before, since `nexus serve` takes a signalled run and
    asks nobody. Return False if they gave no answer: then there is no signal. Raises `UsageError` for a
    run that cannot be resumed so, and if nobody can be asked."""
    from nexus_cli.runs.run_approvals import asks_approval  # noqa: PLC0415  (few sessions resume runs)

    resume = f"nexus runs resume {run.id}"
    if asks_approval(run):
        return _answer(source, run, answer, resume)
    if answer:
        raise UsageError(f"--answer {answer}", f"{run.id} is not waiting for an approval", f"Run: {resume}")
    if run.state == WAITING and not (source.live and run.is_paused):
        source.ledger.runs.signal(run.key, "person", {}, utc_now())
    elif source.live and run.state != FAILED and not run.is_paused:
        hint = f"If no process executes it, run in a shell: {resume}"
        raise UsageError(run.id, f"this run is {run.state}", hint)
    return True


def _answer(source: Source, run: Run, answer: str, resume: str) -> bool:
    """Record the answer to the questions of a run, or that of the person, who is asked; return False without one."""
    from nexus_cli.runs.run_approvals import answer_run, ask_person, name_person  # noqa: PLC0415  (as above)

    assert run.waits is not None
    ledger, questions = source.ledger, run.waits.value["questions"]
    name = name_person(ledger, source.settings())
    if answer:
        answer_run(ledger, run, [answer] * len(questions), by=name)
        for question in questions:
            source.say(f"{answer}: {one_line(question['what'])[:200]}")
        return True
    approver = source.approver()
    if approver is None:
        nobody = "nobody can be asked here" if source.live else "stdin or stderr is not a terminal"
        why = f"needs an answer ({run.waits.why.removeprefix('approval: ')}), but {nobody}"
        raise UsageError(run.id, why, f"Answer with: {resume} --answer yes (or no)")
    asker = f"{run.id} ({name_origin(describe_run(ledger, run))})" if source.live else run.id
    return bool(source.wait(ask_person(ledger, run, approver, name, asker)))


async def _drive(ledger: Ledger, run: Run, say: TakeText) -> None:
    """Let a run go on in this process, unless another one has taken it; print how far it came."""
    from nexus_cli.runs.missed_runs import describe_rest  # noqa: PLC0415
    from nexus_cli.runs.runner import Runner  # noqa: PLC0415  (loads the engine)

    with closing(ledger.reconnect()) as own_ledger:
        runner = Runner(own_ledger)
        try:
            await runner.run_due(key=run.key)
        finally:
            await runner.aclose()
            say(describe_rest(own_ledger, own_ledger.runs.get(run.key)))


def _complete_runs(source: Source) -> Sequence[str]:
    """Return the ids of the newest runs."""
    return [run.id for run in source.ledger.runs.list_runs((), OFFERED)]


NOUN = Noun(
    "runs",
    "run",
    (
        Verb(list_and_answer, "", Authority.ACTS, "write", is_alone=True),
        Verb(build_list, "list"),
        Verb(build_run, "show", complete=_complete_runs),
        Verb(cancel_run, "cancel", Authority.KEEPS, "write", complete=_complete_runs),
        Verb(pause_run, "pause", Authority.KEEPS, "write", complete=_complete_runs),
        Verb(resume_run, "resume", Authority.OPERATES, "write", complete=_complete_runs),
    ),
    "List unattended runs and answer their questions.",
)
