"""`/schedule`: schedule work, once or repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.arguments import level_of
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.paths import working_folder
from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import require_level
from nexus_cli.core.option import Allow, Argument, Directory, Model, Option, Recipe
from nexus_cli.core.run import Plan
from nexus_cli.reports.runs import name_state
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import cut_line

if TYPE_CHECKING:
    from nexus_cli.config.settings import Settings


def plans_text(value: JsonObject) -> Blocks:
    """List the plans, sorted by their next time."""
    columns = {
        "id": "id",
        "next": _next,
        "when": _describe_next_time,
        "level": "level",
        "made by": lambda plan: plan["agent"] or plan["by"],
        "last run": _last,
        "work": _title,
    }
    none = "No schedules. `nexus schedule add PROMPT` with --at, --in or --cron adds a schedule."
    return [Table(columns, value["plans"], none)]


def plan_text(value: JsonObject) -> Blocks:
    """Show one plan after an action on it, in a sentence or two."""
    (plan,) = value["plans"]
    outcome = value["done"]
    if outcome == "removed":
        yield f"{plan['id']} was removed; its runs are kept."
        return
    if outcome == "queued":
        who = "`nexus serve` or `nexus serve --once` starts the run"
        yield f"{plan['id']} is due now: {value['run']} is queued. {who}."
        return
    when = f"{_describe_next_time(plan)}, next {_next(plan)}" if plan["cron"] else _next(plan)
    if outcome == "paused":
        yield f"{plan['id']} is paused ({_title(plan)})."
        return
    whose = f", as {plan['agent']}" if plan["agent"] else ""
    outcome = "was added" if outcome == "added" else "was resumed"
    yield f"{plan['id']} {outcome}{whose}: {when} ({_title(plan)})"
    if value["done"] == "added":
        if plan["ask"]:
            level = plan["level"]
            waits = f"Its runs wait for your approval of calls beyond level {level} (see `nexus runs list`)."
            yield name_commands(waits)
        if plan["until"]:
            yield f"A run is done when `{plan['until']}` exits with 0."
        if plan["worktree"]:
            yield name_commands("Each run has its own worktree; `nexus runs show ID` shows its name.")
        if value["offer"]:
            yield value["offer"]
        if plan["rules"]:
            yield f"Also allowed, outside the sandbox if the model asks: {', '.join(plan['rules'])}"
        yield "`nexus serve` starts due runs, as does `nexus serve --once` from cron or a systemd timer."


def _next(plan: JsonObject) -> str:
    if plan["state"] == "paused" and plan["folder"] and not Path(plan["folder"]).is_dir():
        return "paused: folder no longer exists"
    if plan["state"] != "active":
        return str(plan["state"])
    return f"{format_local_minute(plan['next_at'])} (in {plan['in']})"


def _describe_next_time(plan: JsonObject) -> str:
    return f"{plan['cron']} {plan['zone']}" if plan["cron"] else "once"


def _last(plan: JsonObject) -> str:
    last = plan["last_run"]
    return f"{last['id']} {name_state(last)}" if last else "-"


def _title(plan: JsonObject) -> str:
    return plan["name"] or cut_line(plan["prompt"], 200)


Name = Annotated[str, Argument("ID", "Id of the schedule, such as plan-2, or its name.")]
ChangedSchedule = Report[Annotated[Any, "runs.plan_service.ScheduleReport"]]


def build_plans(source: Source) -> Report[Annotated[Any, "runs.plan_service.SchedulesReport"]]:
    """List schedules, their next times and who added them."""
    from nexus_cli.runs.plan_service import plans_report  # noqa: PLC0415  (few sessions schedule anything)

    return Report("plans", plans_report(source.ledger), uncut=True)


def remove_plan(source: Source, name: Name) -> ChangedSchedule:
    """Remove a schedule. Its runs are kept, and a queued run still starts."""
    plan = source.ledger.plans.find(name)
    source.ledger.plans.remove(plan.key)
    return _changed(source, plan, "removed")


def pause_plan(source: Source, name: Name) -> ChangedSchedule:
    """Pause a schedule."""
    plans = source.ledger.plans
    return _changed(source, plans.change(plans.find(name).key, paused=True), "paused")


def resume_plan(source: Source, name: Name) -> ChangedSchedule:
    """Resume a paused schedule at its next time; missed times are skipped."""
    from nexus_cli.runs import plan_service  # noqa: PLC0415

    return _changed(source, plan_service.resume_plan(source.ledger, _find_plan(source, name)), "resumed")


def _find_plan(source: Source, name: str) -> Plan:
    """Return a schedule whose runs are to start; raise `NexusError` if there is none, or a server does not allow its
    level."""
    plan = source.ledger.plans.find(name)
    source.require_level(level_of(plan.options), f"schedule {plan.id}")
    return plan


def _changed(source: Source, plan: Plan, outcome: str, run: str = "") -> ChangedSchedule:
    from nexus_cli.runs.plan_service import plan_report  # noqa: PLC0415

    return Report("plan", plan_report(source.ledger, plan, outcome, run), changed=True)


def add_scheduled(
    source: Source,
    prompt: Annotated[list[str], Argument("PROMPT", "The task of the run.")],
    at: Annotated[str, Option("TIME", "Run once at this time: 2027-01-31T09:00, 9am, 'tomorrow 18:30'.")] = "",
    within: Annotated[str, Option("DURATION", "Run once after this duration: '2 hours', 90m, '1d 2h'.", "--in")] = "",
    cron: Annotated[str, Option("EXPR", "Run repeatedly: @daily, or 'minute hour day month weekday'.")] = "",
    zone: Annotated[str, Option("TZ", "Time zone, such as Europe/Berlin; default: this machine's.")] = "",
    missed: Annotated[str, Option("once|skip", "If times were missed: start one run (once), or none (skip).")] = "once",
    allow: Allow = "",
    max_cost: Annotated[float | None, Option("USD", "Maximum cost of a run in dollars.")] = None,
    max_cost_day: Annotated[float | None, Option("USD", "Maximum cost of all runs in a day, in dollars.")] = None,
    max_steps: Annotated[int | None, Option("N", "Maximum number of model requests in a run.")] = None,
    until: Annotated[str, Option("COMMAND", "Continue each run until this command exits with 0.")] = "",
    worktree: Annotated[bool, Option(None, "Let each run work in its own git worktree.")] = False,
    ask: Annotated[
        bool, Option(None, "Let a run wait for your approval of calls that the level does not allow.")
    ] = False,
    rule: Annotated[
        list[str] | None,
        Option(
            "RULE",
            "Also allow calls that match RULE, such as 'bash(git push *)', and let them run outside the sandbox if the "
            "model requests that.",
            permits=True,
        ),
    ] = None,
    name: Annotated[str, Option("N", "A name to show instead of the id.")] = "",
    agent: Annotated[str, Option("NAME", "The space agent that does the work.")] = "",
    recipe: Recipe = "",
    model: Model = "",
    directory: Directory = "",
) -> ChangedSchedule:
    """Schedule a run in this folder, once or repeatedly.

    Calls that --allow (default: ask) does not permit are refused and listed in the run's report; with --ask the run
    waits for your answer instead (nexus runs). With --until the run continues until the command exits with 0; the
    run fails if a limit stops it first. With --agent the run uses the name, spaces and model of that agent, but not its
    level. When clocks are set forward, a skipped local time runs at the next valid time; when they are set back, a
    repeated time runs once.
    """
    from nexus_cli.runs.plan_service import NewPlan, add_plan  # noqa: PLC0415

    ledger, settings, who = source.ledger, source.settings(), None
    folder = working_folder(directory) if directory else source.folder()
    if agent:
        from nexus_cli.spaces.people import find_agent  # noqa: PLC0415

        who = find_agent(ledger, settings, agent, folder)
    usual = source.live.model if source.live else ""
    _check_model(model, settings)
    options = {
        "folder": str(folder),
        "model": model or (who.options.get("model", "") if who else usual),
        "agent": who.name if who else "",
        "recipe": recipe,
        "allow": require_level(allow, "--allow") if allow else "",
        "max_cost": max_cost,
        "max_cost_day": max_cost_day,
        "max_steps": max_steps,
        "until": until,
        "ask": ask or None,
        "rules": list(rule or ()) or None,
        "worktree": worktree or None,
    }
    source.require_level(level_of(options), f"--allow {allow}")
    new = NewPlan(" ".join(prompt), at, within, cron, zone, missed, name, options)
    plan = add_plan(ledger, new, settings.runs)
    if max_cost:
        _warn_unpriced(source, str(options["model"] or settings.model))
    return _changed(source, plan, "added")


def _check_model(name: str, settings: Settings) -> None:
    """Raise `UsageError` if `name`, a model or an alias, cannot be used: each run would fail. "" is the usual one."""
    if not name:
        return
    from nexus_cli.provider.available_models import resolve_alias  # noqa: PLC0415  (few schedules name a model)
    from nexus_cli.provider.model_table import check_model  # noqa: PLC0415

    check_model(resolve_alias(name, settings))


def _warn_unpriced(source: Source, model: str) -> None:
    """Print a warning if the price of the model of runs with `max_cost` is unknown: that stops each run."""
    from nexus_cli.provider.available_models import resolve_alias  # noqa: PLC0415  (few schedules have such a limit)
    from nexus_cli.provider.model_table import price_command  # noqa: PLC0415
    from nexus_cli.provider.served_models import served_model_info  # noqa: PLC0415

    settings = source.settings()
    info = served_model_info(resolve_alias(model, settings), settings.models, saves=False)
    if model and not info.covered and None in (info.input_price, info.output_price):
        source.say(
            f"the price of {info.name} is unknown, and a run with --max-cost fails without it. Set the price: "
            f"{price_command(info.name)} (likewise output_price)"
        )


def run_plan(source: Source, name: Name) -> ChangedSchedule:
    """Queue a run of a schedule now; nexus serve starts it. In a shell, `nexus schedule run` runs it there and then."""
    from nexus_cli.runs.plan_service import fire_now  # noqa: PLC0415

    plan = _find_plan(source, name)
    return _changed(source, plan, "queued", f"run-{fire_now(source.ledger, plan)}")


def _complete_plans(source: Source) -> Sequence[str]:
    """Return the names of the plans."""
    return [plan.name or plan.id for plan in source.ledger.plans.list_plans()]


NOUN = Noun(
    "schedule",
    "run",
    (
        Verb(build_plans, "list"),
        Verb(add_scheduled, "add", Authority.OPERATES, "create"),
        Verb(remove_plan, "remove", Authority.OPERATES, "write", complete=_complete_plans),
        Verb(pause_plan, "pause", Authority.KEEPS, "write", complete=_complete_plans),
        Verb(resume_plan, "resume", Authority.OPERATES, "write", complete=_complete_plans),
        Verb(run_plan, "run", Authority.OPERATES, "write", only="slash", complete=_complete_plans),
    ),
    "Schedule work to run once or repeatedly.",
    "`nexus serve`, or `nexus serve --once` from cron, starts due runs.",
    aliases=("schedules",),
)
