"""`/schedule`: schedule work, once or repeatedly."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from nexus_cli.commands.arguments import read_source, require_ledger, show_report, split_act
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import Plan, parse_key

if TYPE_CHECKING:
    from nexus_cli.runs.plan_service import NewPlan

Name = Annotated[str, Option("ID", "Its id, such as plan-2, or its name.", is_argument=True)]
ACTS = ("add", "remove", "pause", "resume", "run")
_WORD = re.compile(r"""--([a-z-]+)(?:\s+|=)("[^"]*"|'[^']*'|\S+)""")
OPTIONS = {"at": "at", "in": "within", "cron": "cron", "zone": "zone", "missed": "missed", "name": "name"}
TIMES = ("at", "in", "cron")
"""Options of which a plan needs exactly one."""
OF_RUNS = ("allow", "max-steps", "max-cost", "rule", "until")
"""Options of its runs. `--rule` may be given several times."""
_FLAG = re.compile(r"(?<!\S)--(ask|worktree)(?!\S)")
_QUOTED = re.compile(r'"([^"]*)"(?=\s)(.*)')


def build_plans(source: Source) -> Report:
    """List the scheduled work, its next times and who added it."""
    from nexus_cli.runs.plan_service import plans_report  # noqa: PLC0415  (few sessions schedule anything)

    return Report("plans", plans_report(source.ledger), whole=True)


def remove_plan(source: Source, name: Name) -> Report:
    """Remove scheduled work. Its runs stay, and one that is queued still runs."""
    plan = source.ledger.plans.find(name)
    source.ledger.plans.remove(plan.key)
    return _changed(source, plan, "removed")


def pause_plan(source: Source, name: Name) -> Report:
    """Pause scheduled work."""
    plans = source.ledger.plans
    return _changed(source, plans.change(plans.find(name).key, paused=True), "paused")


def resume_plan(source: Source, name: Name) -> Report:
    """Resume paused work at its next time; what passed meanwhile is not made up for."""
    from nexus_cli.runs import plan_service  # noqa: PLC0415

    return _changed(source, plan_service.resume_plan(source.ledger, source.ledger.plans.find(name)), "resumed")


def _changed(source: Source, plan: Plan, done: str, run: str = "") -> Report:
    from nexus_cli.runs.plan_service import plan_report  # noqa: PLC0415

    return Report("plan", plan_report(source.ledger, plan, done, run))


TWINS = (
    Twin(build_plans, "list"),
    Twin(remove_plan, "remove", "write"),
    Twin(pause_plan, "pause", "write"),
    Twin(resume_plan, "resume", "write"),
)


def is_schedule(context: CommandContext, rest: str) -> bool:
    """True if the arguments of `/plan` are meant for `/schedule`, which had that name: `add` with a time, another verb
    alone, with an id or with the name of an existing plan. Other words are a message."""
    if "\n" in rest:
        return False
    act, text = split_act(rest)
    if act == "list" or act not in ACTS:
        return act == "list" and not text
    if act == "add":
        return any(name in TIMES for name, _ in _WORD.findall(text))
    if not text or parse_key(text, "plan") is not None:
        return True
    try:
        return bool(require_ledger(context).plans.find(text))
    except NexusError:
        return False


async def edit_schedule(context: CommandContext, rest: str) -> None:
    """Show, add, pause or remove scheduled work.

    Without an argument it lists the plans. `add PROMPT --at TIME`, `--in '2 hours'` or `--cron '0 9 * * *'` (with
    `--zone`, `--missed`, `--name`, `--allow`, `--max-steps`, `--max-cost`, `--rule 'bash(git push *)'`, `--until 'npm
    test'`, `--ask`, `--worktree`) schedules a run in this folder with this model; `remove`, `pause`, `resume` and `run`
    take an id or a name. nexus serve, or nexus serve --once from cron, runs plans that are due.
    """
    from nexus_cli.runs.plan_service import add_plan, fire_now  # noqa: PLC0415

    source = read_source(context)
    ledger = source.ledger
    act, text = split_act(rest)
    if act in ("", "list") and not text:
        show_report(context, build_plans(source))
        return
    if act not in ACTS:
        raise usage_error("schedule", rest, f"expected one of {', '.join(ACTS)}")
    if not text:
        raise usage_error("schedule", rest, "the argument is missing")
    if not ledger.is_kept or not ledger.writes:
        raise NexusError("usage", f"/schedule {act}", "this session is not saved", "Use nexus schedule in a shell")
    if act == "add":
        plan = add_plan(ledger, _parse_plan(context, rest, text), context.settings.runs)
        report = await asyncio.to_thread(_changed, source, plan, "added")  # it asks git what is uncommitted
    elif act == "run":
        plan = ledger.plans.find(text)
        report = _changed(source, plan, "queued", f"run-{fire_now(ledger, plan)}")
    else:
        report = next(twin for twin in TWINS if twin.verb == act).build(source, text)
    show_report(context, report)


def _parse_plan(context: CommandContext, rest: str, text: str) -> NewPlan:
    """Parse `PROMPT --OPTION VALUE...` to a plan; raise `NexusError("usage", ...)` for unknown options."""
    from nexus_cli.runs.plan_service import NewPlan  # noqa: PLC0415

    quoted = _QUOTED.fullmatch(text)  # its words are no options
    prompt, text = quoted.groups() if quoted else ("", text)
    flags, text = _FLAG.findall(text), _FLAG.sub(" ", text)
    found = [(name, value[1:-1] if value[:1] in "\"'" else value) for name, value in _WORD.findall(text)]
    given = dict(found)
    known = (*OPTIONS, *OF_RUNS, "ask", "worktree")
    unknown = [name for name in given if name not in known]
    if unknown:
        why = f"there is no option --{unknown[0]}"
        raise usage_error("schedule", rest, why, f"Options: {', '.join(f'--{name}' for name in known)}")
    prompt = prompt or " ".join(_WORD.sub(" ", text).split()).strip("\"'")
    times = {OPTIONS[name]: value for name, value in given.items() if name in OPTIONS}
    try:
        limits = {"max_steps": int(given.get("max-steps", 1)), "max_cost": float(given.get("max-cost", 1.0))}
    except ValueError:
        limits = {"max_steps": 0}
    if not all(0 < value < math.inf for value in limits.values()):
        raise usage_error("schedule", rest, "--max-steps and --max-cost take a number above 0")
    options = {
        "folder": str(context.session.folder),
        "model": context.session.model,
        "allow": given.get("allow", ""),
        "until": given.get("until", ""),
        **dict.fromkeys(flags, True),
        "rules": [value for name, value in found if name == "rule"] or None,
        **{name: value for name, value in limits.items() if name.replace("_", "-") in given},
    }
    return NewPlan(prompt, options=options, **times)


def _complete_schedule(context: CommandContext) -> Sequence[str]:
    """Return the verbs, plain and with the plans."""
    try:
        plans = require_ledger(context).plans.list_plans()
    except NexusError:
        plans = []
    return [*ACTS, *(f"{act} {plan.name or plan.id}" for act in ACTS[1:] for plan in plans)]


COMMANDS = (
    Command("schedule", "work", edit_schedule, "[add|remove|pause|resume|run ...]", complete=_complete_schedule),
)
