"""`/runs`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.arguments import read_source, show_report
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, usage_error
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import STATES, WAITING
from nexus_cli.reports.runs import MOST, run_report, runs_report

ACTS = ("list", "show", "cancel", "resume")
RunId = Annotated[str, Option("ID", "The run's id, such as run-12.", is_argument=True, least=0)]


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


def cancel_run(source: Source, run: RunId) -> Report:
    """End a run; a process that works on it stops. What is done stays done."""
    runs = source.ledger.runs
    before = runs.cancel(runs.find(run).key, format_utc(local_now()))
    if before.has_ended:
        raise NexusError("usage", before.id, f"it is {before.state} already", f"{source.prefix}runs show {before.id}")
    done = f"is cancelled (it {'waited: ' + before.waits.why if before.waits else 'was ' + before.state})"
    return Report("run", run_report(source.ledger, runs.get(before.key), done))


async def edit_runs(context: CommandContext, rest: str) -> None:
    """List runs; show, cancel or resume one.

    `resume` continues a waiting run: the run of this session here, any other one with the next nexus serve. To answer
    its question, use nexus runs resume ID in a shell.
    """
    source = read_source(context)
    word, _, text = rest.partition(" ")
    act, text = word.casefold(), text.strip()
    if act in ("", "list") and not text:
        show_report(context, build_list(source))
        return
    if act not in ACTS or not text:
        act, text = ("show", rest.strip()) if not text else (act, text)
    match act:
        case "show":
            show_report(context, build_run(source, text))
        case "cancel":
            show_report(context, cancel_run(source, text))
        case "resume":
            show_report(context, _resume(source, text))
        case _:
            raise usage_error("runs", rest, f"expected one of {', '.join(ACTS)}, and the id of a run")


def _resume(source: Source, named: str) -> Report:
    runs = source.ledger.runs
    run = runs.find(named)
    if run.has_ended:
        raise NexusError("usage", run.id, f"it is {run.state} already", f"/runs show {run.id}")
    if run.state != WAITING or (run.waits and run.waits.kind == "approval"):
        raise NexusError("usage", run.id, f"it is {run.state}", f"Use nexus runs resume {run.id} in a shell")
    runs.signal(run.key, "person", {}, format_utc(local_now()))
    return Report("run", run_report(source.ledger, runs.get(run.key), "goes on"))


COMMANDS = (Command("runs", "work", edit_runs, "[show|cancel|resume] [ID]"),)
TWINS = (Twin(build_list, "list"), Twin(build_run, "show"), Twin(cancel_run, "cancel", "write"))
