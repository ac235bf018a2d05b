"""Text of plans: the list, and one that was just made or changed."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.runs import name_state
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import Lines, cut_line, filled, table


def plans_text(value: JsonObject, width: int) -> Lines:
    """List the plans, sorted by their next time."""
    rows = [("id", "next", "when", "level", "made by", "last run", "work")]
    rows += [
        (
            one["id"],
            _next(one),
            _when(one),
            one["level"],
            one["agent"] or one["by"],
            _last(one),
            _title(one),
        )
        for one in value["plans"]
    ]
    none = name_commands("Nothing is scheduled. Use `nexus schedule add PROMPT` with --at, --in or --cron.")
    return table(rows, width, none)


def plan_text(value: JsonObject, width: int) -> Lines:
    """Show one plan after an action on it, in a sentence or two."""
    (one,) = value["plans"]
    done = value["done"]
    if done == "removed":
        yield from filled(f"{one['id']} was removed; its runs are kept.", width)
        return
    if done == "queued":
        who = "`nexus serve` or `nexus serve --once` starts the run"
        yield from filled(f"{one['id']} is due now: {value['run']} is queued. {who}.", width)
        return
    when = f"{_when(one)}, next {_next(one)}" if one["cron"] else _next(one)
    if done == "paused":
        yield from filled(f"{one['id']} is paused ({_title(one)}).", width)
        return
    whose = f", as {one['agent']}" if one["agent"] else ""
    done = "was added" if done == "added" else "was resumed"
    yield from filled(f"{one['id']} {done}{whose}: {when} ({_title(one)})", width)
    if value["done"] == "added":
        if one["ask"]:
            level = one["level"]
            waits = (
                f"It waits for your approval of calls that its level ({level}) does not cover (see nexus runs list)."
            )
            yield from filled(name_commands(waits), width)
        if one["until"]:
            yield from filled(f"A run is done once `{one['until']}` exits 0.", width)
        if one["worktree"]:
            yield from filled(
                name_commands("Each run works in its own worktree; `nexus runs show ID` names it."), width
            )
        if value["offer"]:
            yield from filled(value["offer"], width)
        if one["rules"]:
            yield from filled(f"Also allowed, outside the sandbox if the model asks: {', '.join(one['rules'])}", width)
        yield from filled(
            "It starts when due if `nexus serve` runs, or with `nexus serve --once` from cron or a systemd timer.",
            width,
        )


def _next(one: JsonObject) -> str:
    if one["state"] == "paused" and one["folder"] and not Path(one["folder"]).is_dir():
        return "paused: folder no longer exists"
    if one["state"] != "active":
        return str(one["state"])
    return f"{format_local_minute(one['next_at'])} (in {one['in']})"


def _when(one: JsonObject) -> str:
    return f"{one['cron']} {one['zone']}" if one["cron"] else "once"


def _last(one: JsonObject) -> str:
    last = one["last_run"]
    return f"{last['id']} {name_state(last)}" if last else "-"


def _title(one: JsonObject) -> str:
    return one["name"] or cut_line(one["prompt"], 200)
