"""`nexus schedule add | list | remove | pause | resume | run`: schedule work, once or repeatedly."""

from __future__ import annotations

from typing import Annotated

import typer

from nexus_cli.cli.command_options import (
    Allow,
    Directory,
    Json,
    Model,
    RecipeName,
    SharedOptions,
    refuse_empty,
    text_option,
    working_folder,
)
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.serve_once import run_plan
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.cli.twins import add_twins
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import own_settings
from nexus_cli.ledger import Ledger
from nexus_cli.reports.schedule import plan_text
from nexus_cli.runs.plan_service import NewPlan, add_plan, plan_report
from nexus_cli.spaces.people import find_agent

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Work at a time, or again and again.")
Name = Annotated[str, typer.Argument(metavar="ID", help="Its id, such as plan-2, or its name.", callback=refuse_empty)]


@app.command("add")
def add(
    prompt: Annotated[list[str], typer.Argument(metavar="PROMPT", help="What is to be done.")],
    at: Annotated[str, text_option("--at", metavar="TIME", help="Once: 2027-01-31T09:00, 9am, 'tomorrow 18:30'.")] = "",
    within: Annotated[str, text_option("--in", metavar="DURATION", help="Once: after '2 hours', 90m, '1d 2h'.")] = "",
    cron: Annotated[
        str, text_option("--cron", metavar="EXPR", help="Again and again: @daily, or minute hour day month weekday.")
    ] = "",
    zone: Annotated[
        str, text_option("--zone", metavar="TZ", help="Time zone, such as Europe/Berlin; default: this machine's.")
    ] = "",
    missed: Annotated[
        str, text_option("--missed", metavar="once|skip", help="Of missed times: one run for all of them, or none.")
    ] = "once",
    allow: Allow = "",
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", min=0.0001, help="Dollars that a run may cost.")
    ] = None,
    max_cost_day: Annotated[
        float | None, typer.Option(metavar="USD", min=0.0001, help="Dollars that its runs may cost in a day.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Requests to the model that a run may make.")
    ] = None,
    until: Annotated[str, text_option("--until", metavar="COMMAND", help="A run is done once this exits 0.")] = "",
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Let each run work in a git worktree of its own, a copy of the project.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Let a run wait for you where the level does not cover a call.")
    ] = False,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", metavar="RULE", help="Also run what RULE names, outside the sandbox if asked: 'bash(git push *)'."
        ),
    ] = None,
    name: Annotated[str, text_option("--name", metavar="N", help="A name, shown in its place.")] = "",
    agent: Annotated[str, text_option("--agent", metavar="NAME", help="The agent of a space whose work it is.")] = "",
    recipe: RecipeName = "",
    model: Model = "",
    directory: Directory = "",
    json: Json = False,
) -> int:
    """Schedule work: a run of its own, at a time or again and again, in this folder.

    What --allow (default ask) does not cover is refused, and named in the run's report; with --ask the run waits for
    you instead (nexus runs list). With --until a run works on until the command exits 0, within its limits, else it
    has failed. With --agent the run has the name, the spaces and the model of that agent, not its
    level. A local time that does not exist when clocks are set forward is the next moment that does; one that comes
    twice runs once.
    """
    SharedOptions(allow=allow).check()
    settings, folder = own_settings(), working_folder(directory)
    ledger = Ledger.open(ledger_place())
    who = find_agent(ledger, settings, agent, folder) if agent else None
    model = model or (who.options.get("model", "") if who else "")
    whose = {"folder": str(folder), "model": model, "agent": who.name if who else "", "recipe": recipe}
    limits = {
        "allow": allow,
        "max_cost": max_cost,
        "max_cost_day": max_cost_day,
        "max_steps": max_steps,
        "until": until,
    }
    options = {**whose, **limits, "ask": ask or None, "rules": list(rule or ()) or None, "worktree": worktree or None}
    new = NewPlan(" ".join(prompt), at, within, cron, zone, missed, name, options)
    value = plan_report(ledger, add_plan(ledger, new, settings.runs), "added")
    ledger.close()
    return print_report(value, plan_text, json=json)


add_twins(app, "schedule")


@app.command("run")
def run(name: Name, json: Json = False) -> int:
    """Run scheduled work now, and print how that ended. Exit status 1 if it failed, 3 if a limit stopped it."""
    ledger = open_ledger(writes=True)
    return run_plan(ledger, ledger.plans.find(name), json=json)
