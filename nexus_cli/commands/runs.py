"""`/runs`: runs that wait, are queued, or ran unattended."""

from __future__ import annotations

from nexus_cli.commands.arguments import require_ledger
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import WAITING
from nexus_cli.reports.runs import run_report, runs_report

ACTS = ("list", "show", "cancel", "resume")


async def edit_runs(context: CommandContext, rest: str) -> None:
    """List runs; show, cancel or resume one.

    `resume` continues a waiting run: the run of this session here, any other one with the next nexus serve. To answer
    its question, use nexus runs resume ID in a shell.
    """
    ledger = require_ledger(context)
    word, _, text = rest.partition(" ")
    act, text = word.casefold(), text.strip()
    if act in ("", "list") and not text:
        context.show("runs", runs_report(ledger))
        return
    if act not in ACTS or not text:
        act, text = ("show", rest.strip()) if not text else (act, text)
    if act not in ACTS:
        raise usage_error("runs", rest, f"expected one of {', '.join(ACTS)}, and the id of a run")
    run, done, at = ledger.runs.find(text), "", format_utc(local_now())
    if act in ("cancel", "resume") and run.has_ended:
        raise NexusError("usage", run.id, f"it is {run.state} already", f"/runs show {run.id}")
    if act == "cancel":
        before = ledger.runs.cancel(run.key, at)
        done = f"is cancelled (it {'waited: ' + before.waits.why if before.waits else 'was ' + before.state})"
    elif act == "resume":
        if run.state != WAITING or (run.waits and run.waits.kind == "approval"):
            raise NexusError("usage", run.id, f"it is {run.state}", f"Use nexus runs resume {run.id} in a shell")
        ledger.runs.signal(run.key, "person", {}, at)
        done = "goes on"
    context.show("run", run_report(ledger, ledger.runs.get(run.key), done))


COMMANDS = (Command("runs", "work", edit_runs, "[show|cancel|resume] [ID]"),)
