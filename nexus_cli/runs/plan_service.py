"""Plans for people and agents: checking, storing, listing, and the service behind the tool `plan`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import RunSettings
from nexus_cli.config.worktree_record import find_source
from nexus_cli.core.clock import format_moment, utc_now
from nexus_cli.core.duration import format_duration
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.limits import ASK, LEVELS, UNASKED, Limits, level_fields, require_level
from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import UNATTENDED, WAITING, Plan, Run, check_name, parse_key
from nexus_cli.core.services import PlanRequest, Plans
from nexus_cli.ledger import Ledger
from nexus_cli.permission.folder_rules import check_rules
from nexus_cli.reports.runs import describe_runs
from nexus_cli.runs.fire_plans import instruction_facts
from nexus_cli.runs.plan_times import CronTimes, first_time
from nexus_cli.sections.find_recipe import recipe_for
from nexus_cli.session.session import Session
from nexus_cli.worktrees.repository_state import look_at_repository

RECIPE = "tick_autonomous"
"""Recipe of a plan's runs unless it names one (work without being asked)."""
MISSED = ("once", "skip")
LONGEST_PROMPT = 100_000
"""Most characters of a prompt."""
MAX_OF_AGENTS = 20
"""Most open plans made by agents. The person has to remove some before agents can make more."""
MIN_SECONDS = 300.0
"""Least seconds between two times of an agent's plan."""
PERSON, AGENT = "person", "agent"
"""The maker of a plan."""


ScheduleState = Literal["active", "paused", "done"]


class LastRun(TypedDict):
    """The newest run of a schedule."""

    id: str
    state: str
    at: str
    paused: bool
    broken_off: bool
    came: str | None
    """This and the two before it are as in `RunObject`."""


ScheduleObject = TypedDict(
    "ScheduleObject",
    {
        "id": str,
        "name": str,
        "prompt": str,
        "state": ScheduleState,
        "cron": str,
        "zone": str,
        "next_at": str | None,
        "in": str | None,
        "last_at": str | None,
        "missed": str,
        "folder": str,
        "model": str,
        "recipe": str,
        "allow": str,
        "level": str,
        "max_cost": float | None,
        "until": str,
        "worktree": bool,
        "max_cost_day": float | None,
        "max_steps": int | None,
        "ask": bool,
        "rules": list[str],
        "agent": str,
        "by": str,
        "session": str,
        "created": str,
        "last_run": LastRun | None,
    },
)


class SchedulesReport(VersionedReport):
    """All schedules."""

    plans: list[ScheduleObject]


class ScheduleReport(SchedulesReport):
    """One schedule, and what the command did."""

    done: str
    run: str
    offer: str
    """With `add`: how to keep the runs from changing the person's files; "" if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A plan as it was requested, not checked yet."""

    prompt: str
    at: str = ""
    within: str = ""
    cron: str = ""
    zone: str = ""
    missed: str = "once"
    name: str = ""
    options: JsonObject = field(default_factory=dict)
    """`folder`, `model`, `recipe`, `allow`, `max_cost`, `max_cost_day`, `max_steps`, `until` (a command that has to
    exit 0 before a run is done), `worktree` (True: each run works in one of its own), `ask`, `rules`, `limits`, and the
    name of the `agent` whose work it is; for an agent's plan also `session` and `call`."""
    by: str = PERSON
    after: float = 0.0
    """Least seconds from now until the first time of a recurring plan."""


def add_plan(ledger: Ledger, new: NewPlan, settings: RunSettings) -> Plan:
    """Store a plan; raise `UsageError` if it is invalid."""
    prompt = new.prompt.strip()
    if not prompt or len(prompt) > LONGEST_PROMPT:
        why = (
            f"the prompt has {len(prompt):,} characters (maximum {LONGEST_PROMPT:,})"
            if prompt
            else "the prompt is missing"
        )
        raise UsageError("schedule", why, "Describe the task briefly")
    if new.missed not in MISSED:
        raise UsageError(f"--missed {new.missed[:40]!r}", "must be once or skip")
    now = ledger.runs.now() + (new.after if new.cron else 0.0)
    time = first_time(now, at=new.at, within=new.within, cron=new.cron, zone=new.zone)
    options = {**new.options, "recipe": new.options.get("recipe") or RECIPE, "by": new.by, "run_after": new.within}
    check_rules(options.get("rules") or ())
    if options.get("worktree"):
        from nexus_cli.worktrees.make_worktree import read_source  # noqa: PLC0415  (little work has worktrees)

        read_source(find_source(project_root(Path(options["folder"]))))
    options["allow"] = check_level(str(options.get("allow") or ASK), settings)
    if options.get("until") and options["allow"] not in UNASKED and not options.get("rules"):
        why = f"unattended runs at level {options['allow']} can only execute read-only commands"
        raise UsageError(f"--until {options['until'][:80]!r}", why, "Add --allow auto, or --rule")
    recipe_for(options["recipe"], Path(options["folder"]))
    return ledger.plans.add(
        prompt,
        {name: _plain(value) for name, value in options.items() if value not in (None, "")},
        utc_now(),
        next_at=time.next_at,
        cron=time.cron,
        zone=time.zone,
        missed=new.missed,
        name=_check_plan_name(new.name) if new.name else "",
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | dict | list) else str(value)


def check_level(level: str, settings: RunSettings) -> str:
    """Return a level of unattended runs; raise `UsageError` for one above the person's settings."""
    level = require_level(level, "--allow")
    if LEVELS.index(level) > LEVELS.index(settings.allow):
        why = f"unattended runs may have at most the level {settings.allow} (runs.allow)"
        raise UsageError(f"--allow {level}", why, f"To allow it: nexus config set runs.allow {level}")
    return level


def _check_plan_name(text: str) -> str:
    name = check_name(text, "plan")
    if parse_key(name, "plan") is not None:
        raise UsageError(f"schedule {name!r}", "the name looks like an id", "Choose another name")
    return name


def resume_plan(ledger: Ledger, plan: Plan) -> Plan:
    """Resume a paused plan; times that passed meanwhile do not count as missed."""
    next_at = None
    if plan.cron and plan.paused:
        next_at = CronTimes.of(plan.cron, plan.zone).next_after(ledger.runs.now())
    return ledger.plans.change(plan.key, paused=False, next_at=next_at)


def fire_now(ledger: Ledger, plan: Plan) -> int:
    """Queue a run of a plan now and return its key; raise `UsageError` while one waits."""
    if waits := ledger.runs.list_runs([WAITING], 1, plan=plan.key):
        run = waits[0].id
        raise UsageError(
            plan.id,
            f"{run} is still waiting",
            f"To resume it: nexus runs resume {run}. To cancel it: nexus runs cancel {run}",
        )
    queued_at = utc_now()
    facts = instruction_facts(plan, ledger.runs.now())
    key = ledger.runs.queue("plan", plan.name or plan.prompt, facts, plan.options, queued_at, plan=plan.key)
    assert key is not None, "a run without a cause is always queued"
    return key


def plan_value(plan: Plan, now: float, last: LastRun | None = None) -> ScheduleObject:
    """Return a plan as JSON has it; `last` is its newest run."""
    options = plan.options
    state: ScheduleState = "paused" if plan.paused else "done" if plan.next_at is None else "active"
    return {
        "id": plan.id,
        "name": plan.name,
        "prompt": plan.prompt,
        "state": state,
        "cron": plan.cron,
        "zone": plan.zone,
        "next_at": format_moment(plan.next_at),
        "in": None if plan.next_at is None else format_duration(plan.next_at - now),
        "last_at": format_moment(plan.last_at),
        "missed": plan.missed,
        "folder": options.get("folder", ""),
        "model": options.get("model", ""),
        "recipe": options.get("recipe", RECIPE),
        **level_fields(options.get("allow", ASK)),
        "max_cost": options.get("max_cost"),
        "max_cost_day": options.get("max_cost_day"),
        "max_steps": options.get("max_steps"),
        "until": options.get("until", ""),
        "worktree": bool(options.get("worktree")),
        "ask": bool(options.get("ask")),
        "rules": list(options.get("rules") or ()),
        "agent": options.get("agent", ""),
        "by": options.get("by", PERSON),
        "session": options.get("session", ""),
        "created": plan.created,
        "last_run": last,
    }


def plans_report(ledger: Ledger) -> SchedulesReport:
    """Return all plans, those whose time comes first at the beginning."""
    now = ledger.runs.now()
    plans = ledger.plans.list_plans()
    return {"version": 1, "plans": [plan_value(plan, now, _last_run(ledger, plan)) for plan in plans]}


def plan_report(ledger: Ledger, plan: Plan, outcome: str, run: str) -> ScheduleReport:
    """Return a plan and the `outcome` of a command: `added`, `removed`, `paused`, `resumed`, or `queued`, its `run`."""
    value = plan_value(plan, ledger.runs.now(), _last_run(ledger, plan))
    offer = _offer_worktree(ledger, plan) if outcome == "added" else ""
    return {"version": 1, "done": outcome, "run": run, "offer": offer, "plans": [value]}


def _offer_worktree(ledger: Ledger, plan: Plan) -> str:
    """Name --worktree if runs of a plan may change a repository where the person works: files are uncommitted, or a
    session at a terminal is open there. Blocks."""
    folder = Path(plan.options.get("folder", ""))
    if plan.options.get("worktree") or plan.options.get("allow") not in LEVELS[1:]:
        return ""
    repository = look_at_repository(folder)
    if dirty := repository.get("dirty"):
        reason = f"{plural(len(dirty), 'file')} here {'is' if len(dirty) == 1 else 'are'} uncommitted"
    elif repository and _is_open_in(ledger, folder):
        reason = "A session is open in this folder"
    else:
        return ""
    return f"{reason}: with --worktree, runs work in a copy and do not change your files."


def _is_open_in(ledger: Ledger, folder: Path) -> bool:
    """True if a person has a session open in a folder, in a terminal or an editor of this machine."""
    for session, owner in ledger.find_owners().items():
        with suppress(NexusError):  # a run, or a session that was deleted since
            if owner.pid and owner.command in ("", "acp") and ledger.session(session).folder == str(folder):
                return True
    return False


def _last_run(ledger: Ledger, plan: Plan) -> LastRun | None:
    runs = describe_runs(ledger, ledger.runs.list_runs(limit=1, plan=plan.key))
    if not runs:
        return None
    run = runs[0]
    return {
        "id": run["id"],
        "state": run["state"],
        "at": run["updated"],
        "paused": run["paused"],
        "broken_off": run["broken_off"],
        "came": run["came"],
    }


class PlanService(Plans):
    """Implements `Plans` for one session: its plans never have more rights than the session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def change(self, call_id: str, request: PlanRequest) -> ToolResult:
        ledger = self._session.ledger
        if not ledger.is_kept or not ledger.writes:
            return ToolResult(error="no plans: this session is not saved", ran=False)
        try:
            match request.action:
                case "add":
                    return self._add(ledger, call_id, request)
                case "remove":
                    return self._remove(ledger, request.id)
                case _:
                    now = ledger.runs.now()
                    lines = [_line(plan, now) for plan in self._own_plans(ledger)]
                    return ToolResult("\n".join(lines) or "no plans in this project")
        except NexusError as error:
            return ToolResult(error=error.sentences.removesuffix("."))

    def recover(self, call_id: str) -> ToolResult | None:
        ledger = self._session.ledger
        origin = (self._session.id, call_id)
        plans = [
            plan
            for plan in ledger.plans.list_plans()
            if (plan.options.get("session"), plan.options.get("call")) == origin
        ]
        return ToolResult(_line(plans[0], ledger.runs.now())) if plans else None

    def _add(self, ledger: Ledger, call_id: str, request: PlanRequest) -> ToolResult:
        theirs = [plan for plan in ledger.plans.list_plans() if plan.options.get("by") == AGENT and plan.next_at]
        if len(theirs) >= MAX_OF_AGENTS:
            why = f"agents can have at most {MAX_OF_AGENTS} open plans"
            raise NexusError("limit", "no more plans", why, "Remove a plan, or ask the person")
        new = self._new_plan(call_id, request)
        self._refuse_often(ledger, new)
        new = self._delay_first_time(ledger, new)
        return ToolResult(_line(add_plan(ledger, new, self._settings), ledger.runs.now()))

    @property
    def _settings(self) -> RunSettings:
        return self._session.engine.settings.runs

    def _new_plan(self, call_id: str, request: PlanRequest) -> NewPlan:
        """Return the plan that a call requests, with at most the rights of the session."""
        rights, settings = self._session.rights(), self._settings
        level = (Limits(allow=rights.allow or ASK) & Limits(allow=settings.allow)).allow
        return NewPlan(
            request.prompt,
            request.at,
            request.in_,
            request.cron,
            by=AGENT,
            options={
                "folder": str(self._session.folder),
                "model": self._session.model,
                "call": call_id,
                "session": self._session.id,
                "agent": self._agent_name(),
                "root": self._root() if not request.cron else None,  # each time of the others is braked by itself
                "allow": level if level in LEVELS else ASK,
                "limits": rights.to_json(),
                "max_cost": rights.max_cost and min(rights.max_cost, settings.max_cost),
            },
        )

    def _run(self) -> Run | None:
        """Return the session's run, None for none."""
        return self._session.ledger.runs.of_session(self._session.id)

    def _agent_name(self) -> str:
        """Return the name of the agent that the session's run belongs to, "" for none."""
        ledger, run = self._session.ledger, self._run()
        return ledger.spaces.get_entity(run.entity).name if run and run.entity is not None else ""

    def _root(self) -> int | None:
        """Return the key of the message that the session's run works for, None for none."""
        ledger, run = self._session.ledger, self._run()
        return (ledger.spaces.root_of(run) or None) if run and run.type in UNATTENDED else None

    def describe(self, request: PlanRequest) -> str:
        ledger = self._session.ledger
        new, settings = self._new_plan("", request), self._settings
        try:
            time = first_time(ledger.runs.now(), at=new.at, within=new.within, cron=new.cron, zone=new.zone)
        except NexusError as error:
            return error.message
        first = f"{format_moment(time.next_at)}, in {format_duration(time.next_at - ledger.runs.now())}"
        keys = ("allow", "level", "max_cost")
        limits = {name: value for name, value in new.options["limits"].items() if name not in keys}
        cost = new.options["max_cost"] or settings.max_cost
        often = f"repeatedly ({time.cron}, {time.zone}), first" if time.cron else "once,"
        day = f"${settings.max_cost_day:g} per day for all unattended runs"
        rows = [
            f"when: {often} at {first}",
            f"permission level: {new.options['allow']}; runs unattended while `nexus serve` is running",
            f"cost: at most ${cost:g} per run, {day}, model {new.options['model']}",
            *([f"limits: {', '.join(f'{name} {value}' for name, value in limits.items())}"] if limits else []),
        ]
        return "\n".join(rows)

    def _refuse_often(self, ledger: Ledger, new: NewPlan) -> None:
        if not new.cron:
            return
        time = first_time(ledger.runs.now(), cron=new.cron)
        second = CronTimes.of(time.cron, time.zone).next_after(time.next_at)
        if second is not None and second - time.next_at < MIN_SECONDS:
            why = f"the interval would be {format_duration(second - time.next_at)}"
            raise UsageError(f"cron {new.cron!r}", why, f"The shortest interval is {format_duration(MIN_SECONDS)}")

    def _delay_first_time(self, ledger: Ledger, new: NewPlan) -> NewPlan:
        """Let a recurring plan that unattended work adds leave out the next minutes, and refuse a single time in them:
        otherwise plans could add plans for ever."""
        run, now = self._run(), ledger.runs.now()
        if run is None or run.type not in UNATTENDED:
            return new
        if not new.cron and first_time(now, at=new.at, within=new.within).next_at < now + MIN_SECONDS:
            why = f"the time must be at least {format_duration(MIN_SECONDS)} in the future"
            raise UsageError("schedule", why, "Do the work now, or schedule it later")
        return replace(new, after=MIN_SECONDS)

    def _remove(self, ledger: Ledger, name: str) -> ToolResult:
        plan = ledger.plans.find(name)
        if plan.options.get("by") != AGENT or plan.key not in {own.key for own in self._own_plans(ledger)}:
            raise UsageError(
                plan.id,
                "the person created it, or it belongs to another project",
                "Ask the person to remove the schedule",
            )
        ledger.plans.remove(plan.key)
        return ToolResult(f"{plan.id} was removed")

    def _own_plans(self, ledger: Ledger) -> list[Plan]:
        project = ledger.project_of(self._session.folder)
        plans = [plan for plan in ledger.plans.list_plans() if plan.next_at is not None]
        return [plan for plan in plans if ledger.project_of(Path(plan.options["folder"])) == project]


def _line(plan: Plan, now: float) -> str:
    """Return the line of a plan in the PLANS block, for the model."""
    value = plan_value(plan, now)
    kind = f"recurring, cron: {value['cron']}, zone: {value['zone']}, next" if value["cron"] else "one-time, at"
    title = value["name"] or one_line(value["prompt"])[:120]
    state = " (paused)" if value["state"] == "paused" else ""
    return f'{value["id"]} "{title}" ({kind}: {value["next_at"]}, in {value["in"]}){state}'
