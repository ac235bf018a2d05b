"""Text of plans: the list, and one that was just made or changed."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.runs import name_state
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import cut_line


def plans_text(value: JsonObject) -> Blocks:
    """List the plans, sorted by their next time."""
    columns = {
        "id": "id",
        "next": _next,
        "when": _when,
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
    done = value["done"]
    if done == "removed":
        yield f"{plan['id']} was removed; its runs are kept."
        return
    if done == "queued":
        who = "`nexus serve` or `nexus serve --once` starts the run"
        yield f"{plan['id']} is due now: {value['run']} is queued. {who}."
        return
    when = f"{_when(plan)}, next {_next(plan)}" if plan["cron"] else _next(plan)
    if done == "paused":
        yield f"{plan['id']} is paused ({_title(plan)})."
        return
    whose = f", as {plan['agent']}" if plan["agent"] else ""
    done = "was added" if done == "added" else "was resumed"
    yield f"{plan['id']} {done}{whose}: {when} ({_title(plan)})"
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


def _when(plan: JsonObject) -> str:
    return f"{plan['cron']} {plan['zone']}" if plan["cron"] else "once"


def _last(plan: JsonObject) -> str:
    last = plan["last_run"]
    return f"{last['id']} {name_state(last)}" if last else "-"


def _title(plan: JsonObject) -> str:
    return plan["name"] or cut_line(plan["prompt"], 200)
