"""Runs as values: the list, and one with its trigger, its signals and its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, cast

from nexus_cli.config.paths import with_tilde
from nexus_cli.config.worktree_record import is_removed
from nexus_cli.core.clock import format_local_minute, format_moment, utc_now
from nexus_cli.core.duration import format_duration
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import UntilObject
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.limits import ASK, LevelFields, level_fields
from nexus_cli.core.run import (
    APPROVAL,
    CANCELLED,
    ENDED,
    FAILED,
    JOINED,
    KEY,
    MISSED,
    PERSON,
    PLAIN,
    PROVIDER,
    REFUSED,
    RUNNING,
    WAITING,
    Run,
    Signal,
    name_facts,
)
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import as_table
from nexus_cli.ledger import Ledger
from nexus_cli.reports.text.blocks import Blocks, OneLine
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import dollars, plural

MOST = 50
"""Most runs in a list."""
MAX_NAMED = 5
"""Most commits, files and commands of a run that are named."""
SHOWN_EVENTS = 50
"""Most further events of a run that are shown."""
LONGEST_EVENT = 200
"""Most characters of an event's line."""
FIGURES = ("steps", "seconds", "usage", "branch", "until")
LISTS = ("files_changed", "failed_commands", "commits", "uncommitted", "no_longer_uncommitted")
"""Fields of `Run.record`; before a run has ended None, and []."""
_EVENT_WORDS = (
    ("conclusion", "action", "status", "state", "build_status"),
    ("name", "title", "context", "build_name", "body", "note", "ref"),
)
"""Fields of payloads with the outcome and with the subject of an event, the most telling first."""


RunState = Literal["queued", "running", "waiting_reply", "done", "failed", "cancelled"]


class FailedCommand(TypedDict):
    """A command of a run whose last run failed."""

    command: str
    status: int | None
    """null if it did not end by itself."""


class RunObject(LevelFields):
    id: str
    state: RunState
    paused: bool
    """True if a person paused the run."""
    broken_off: bool
    """True if the run is `running` but its process has ended: it can be resumed."""
    type: str
    title: str
    agent: str | None
    """Name of the agent that executes the run."""
    space: str | None
    key: str | None
    """For a run of a service: the key of its events, such as the commit."""
    events: int | None
    """The number of these events; null for a run without `key`."""
    plan: str | None
    """Id of the plan that started it."""
    folder: str
    model: str | None
    session: str | None
    waits_for: str | None
    """`provider`: the provider is unavailable, see `error`."""
    waits_since: str | None
    came: str | None
    """The answer or event that ended the wait, if no process has resumed the run yet."""
    wake_at: str | None
    resumes: int
    created: str
    updated: str
    cost_usd: float | None
    error: str | None
    last_words: str
    """The text of its last reply."""
    refused: list[str]
    """A line for each call that was refused."""
    steps: int | None
    """Requests of the run, including its final reflection. This and the following keys are known once the run has
    ended."""
    seconds: float | None
    """From its beginning to its end, waits included."""
    usage: JsonOf[Usage] | None
    files_changed: list[str]
    failed_commands: list[FailedCommand]
    """Commands whose last run did not exit with 0."""
    branch: str | None
    commits: list[str]
    """Its commits, newest first, each as `ID SUBJECT`; without those that others made while it waited."""
    uncommitted: list[str]
    """Uncommitted files, without files that were uncommitted before the run and that it did not change."""
    no_longer_uncommitted: list[str]
    """Files that were uncommitted when it began, and were committed, restored or removed since."""
    until: UntilObject | None
    """The state of its work for the command of `nexus schedule add --until`."""
    worktree: str | None
    """Name of its worktree (`nexus schedule add --worktree`), which is removed if nothing is left in it; null once it
    is gone."""


class RunsReport(VersionedReport):
    """Several runs: a list, or those that a command changed."""

    done: NotRequired[str]
    """What a command did to the runs."""
    runs: list[RunObject]
    """Newest first."""


class SignalObject(JsonOf[Signal]):
    """An event that a run waited for."""

    taken: bool


class RunReport(RunObject, VersionedReport):
    """One run."""

    trigger: JsonDict
    signals: list[SignalObject]
    report: str
    questions: list[JsonDict]
    done: NotRequired[str]
    """The result of `cancel` or `resume`."""


def describe_runs(ledger: Ledger, runs: Iterable[Run]) -> list[RunObject]:
    """Return runs as JSON has them (`RunObject`): times are ISO 8601, UTC."""
    name_of, listed = cache(partial(_name_of, ledger)), list(runs)
    broken = {run.key for run in broken_runs(ledger, listed)}
    return [_describe(ledger, run, name_of, run.key in broken) for run in listed]


def describe_run(ledger: Ledger, run: Run) -> RunObject:
    """Return one run, see `describe_runs`."""
    return describe_runs(ledger, [run])[0]


def broken_runs(ledger: Ledger, runs: Iterable[Run]) -> list[Run]:
    """Return those runs that are marked as running although no process works on them any more."""
    marked = [run for run in runs if run.state == RUNNING and not run.is_paused]
    locked = ledger.find_locked([run.id for run in marked]) if marked and ledger.is_kept else ()
    return [run for run in marked if run.id not in locked]


def _describe(ledger: Ledger, run: Run, name_of: Callable[[str, int | None], str | None], is_broken: bool) -> RunObject:
    model = run.options.get("model") or ""
    pending = ledger.runs.signals(run.key) if run.state == WAITING else ()
    worktree: str | None = run.worktree or None
    if run.session and (run.worktree or not model or run.cost_usd is None):
        with suppress(NexusError):  # the session was deleted
            session = ledger.session(run.session)
            model, cost = session.model, session.known_usd
            worktree = None if is_removed(Path(session.folder)) else worktree
            run = replace(run, cost_usd=run.cost_usd if run.has_ended else cost or None)
    value = {
        "id": run.id,
        "state": run.state,
        "paused": run.is_paused,
        "broken_off": is_broken,
        "type": run.type,
        "title": run.title,
        "agent": name_of("agent", run.entity),
        "space": name_of("space", run.space),
        "key": run.options.get(KEY),
        "events": 1 + len(ledger.runs.joined(run.key)) if run.options.get(KEY) else None,
        "plan": f"plan-{run.plan}" if run.plan else None,
        "folder": run.options.get("folder") or "",
        **level_fields(run.options.get("allow") or ASK),
        "model": model or None,
        "session": run.session or None,
        "waits_for": run.waits.why if run.waits else None,
        "waits_since": format_moment(run.waits.value.get("since")) or run.updated if run.waits else None,
        "came": "; ".join(name_signal(signal.kind, signal.value) for signal in pending) or None,
        "wake_at": format_moment(run.waits.until if run.waits else None),
        "resumes": _count_resumes(run),
        "created": run.created,
        "updated": run.updated,
        "cost_usd": run.cost_usd,
        "error": run.error or (run.waits.value.get("error") if run.waits else None) or None,
        "last_words": run.last_words,
        "refused": list(run.refused),
        "worktree": worktree or None,
    }
    return cast("RunObject", {**value, **dict.fromkeys(FIGURES), **{name: [] for name in LISTS}, **run.record})


def name_signal(kind: str, value: JsonObject) -> str:
    """Describe a signal for people: `Ana said yes`, `service ci: check_run failure`; of other kinds the kind alone."""
    if kind == APPROVAL:
        answers = (value.get("answers") or {"": value}).values()
        return "; ".join(dict.fromkeys(_describe_answer(answer) for answer in answers))
    if kind == MISSED:
        return one_line(f"an event that the run did not wait for: {value['why']}")
    if kind not in ("service", JOINED):
        return {PROVIDER: "time to retry the provider", PERSON: "resumed by a person"}.get(kind, kind)
    line = value["line"] if kind == JOINED else name_event(value.get("event") or "", value.get("payload"))
    return f"service {value['service']}: {line}"


def name_event(event: str, payload: Any) -> str:
    """Name an event of a service in one line: its kind, outcome and subject, such as `check_run failure unit-3`; one of
    another form by the beginning of its payload."""
    fields = as_table(payload)
    abouts = (fields.get(name) for name in (event, "comment", "review", "object_attributes"))
    subjects = [subject for subject in abouts if isinstance(subject, dict)]
    all_fields = {**fields, **(subjects[0] if subjects else {})}
    words = [
        next((all_fields[name] for name in names if isinstance(all_fields.get(name), str)), "")
        for names in _EVENT_WORDS
    ]
    if not any(words):
        words = [payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)]
    line = " ".join([event or "an event", *words])
    return one_line(" ".join(line[: 4 * LONGEST_EVENT].split()))[:LONGEST_EVENT]


def _describe_answer(answer: JsonObject) -> str:
    """Return `Ana said no: use make`."""
    decision = {"session": "yes, for the rest of the run"}.get(answer["answer"], answer["answer"])
    text = f": {answer['text']}" if answer.get("text") else ""
    return one_line(f"{answer.get('by') or 'somebody'} said {decision}{text}")


def _count_resumes(run: Run) -> int:
    """Count how often a run was taken up again: after waits, and after processes that ended in its midst."""
    claims = run.fence - (run.state == CANCELLED)
    return max(run.resumes, claims - (run.type not in PLAIN))


def _name_of(ledger: Ledger, kind: str, key: int | None) -> str | None:
    """Return the name of an agent or a space, None if there is none."""
    with suppress(NexusError):
        if key is not None:
            return ledger.spaces.get_entity(key).name if kind == "agent" else ledger.spaces.get(key).name
    return None


def name_origin(value: JsonObject) -> str:
    """Name who does a run, for people: its plan, agent and space, or service."""
    agent = f"agent {value['agent']}" if value["agent"] else ""
    space = f" in {value['space']}" if value["space"] else ""
    if value["type"] == "space_message":
        return f"{agent or 'agent'}{space}"
    events = f" ({plural(value['events'], 'event')})" if (value["events"] or 0) > 1 else ""
    return f"{value['type']} {value['title']}{events}" + (f" ({agent})" if agent else "")


def run_report(ledger: Ledger, run: Run, outcome: str = "") -> RunReport:
    """Return one run with `trigger`, `signals` (`at`, `kind`, `value`, `taken`), `report`, and `done`: the
    `outcome` of a command for it, "" for none."""
    signals = [
        to_json_value(signal) | {"taken": taken}
        for taken in (True, False)
        for signal in ledger.runs.signals(run.key, is_taken=taken)
    ]
    questions = run.waits.value.get("questions", []) if run.waits else []
    details = {"trigger": dict(run.trigger), "signals": signals, "report": run.report, "questions": list(questions)}
    value = {"version": 1, **describe_run(ledger, run), **details, **({"done": outcome} if outcome else {})}
    return cast("RunReport", value)


def runs_text(value: JsonObject) -> Blocks:
    """Return a line for each run, newest first."""
    runs = value["runs"]
    if value.get("done"):
        yield f"{plural(len(runs), 'run')} {value['done']}."
        yield from (OneLine(f"{run['id']}  {name_origin(run)}") for run in runs)
        return
    if not runs:
        yield "No runs. Scheduled work, services, spaces and waiting sessions start runs."
    for _, rows in groupby(runs, _fold_key):
        newest, *earlier = rows
        since = format_local_minute(newest["updated"])
        like = f"and {len(earlier)} similar since {earlier[-1]['id']}" if earlier else ""
        row = filter(None, (newest["id"], name_state(newest), since, like, name_origin(newest)))
        yield OneLine(" · ".join(row))
        details = (" · ".join(filter(None, _facts(newest))), _outcome(newest), _last_error(newest))
        yield from (OneLine(detail, "    ") for detail in details if detail)


def _fold_key(run: JsonObject) -> tuple[str, ...]:
    """Return the key by which neighbours in the list share a row: runs that ended alike, but for time and cost."""
    if run["state"] not in ENDED:
        return (run["id"],)
    without_id = _outcome({**run, "id": ""})
    return run["state"], name_origin(run), *_facts({**run, "cost_usd": None}), without_id


def name_state(run: JsonObject) -> str:
    """Name the state of a run for people."""
    if run["paused"] or run["broken_off"]:
        return "paused" if run["paused"] else "interrupted"
    return "continues" if run["came"] else run["state"]


def _facts(run: JsonObject) -> list[str]:
    """Return plan, folder, level, model and dollars of a run."""
    cost = dollars(run["cost_usd"]) if run["cost_usd"] else ""
    model = (run["model"] or "").rpartition("/")[2]
    return [run["level"], model, cost, run["plan"] or "", with_tilde(run["folder"])]


def _record_lines(value: JsonObject) -> Iterator[str]:
    """Yield the lines about the record of a run that ended."""
    name = value["worktree"]
    if name and (value["steps"] is None or value["commits"] or value["uncommitted"]):
        yield name_commands(
            f"worktree {name}; to show its changes: nexus worktree diff {name}; to apply: nexus worktree apply {name}"
        )
    if value["steps"] is None:
        return
    tokens = value["usage"]["input"] + value["usage"]["output"]
    figures = (plural(value["steps"], "request"), f"{tokens:,} tokens", format_duration(value["seconds"]))
    yield " · ".join(figures)
    if until := value["until"]:
        status = "has no exit status" if until["status"] is None else f"exits {until['status']}"
        status += ", but a command in its pipeline fails" if until["status"] == 0 and not until["passed"] else ""
        after = f"{status} after {plural(until['rounds'], 'round')}" if until["rounds"] else "has not run"
        yield f"until: {one_line(until['command'])} {after}"
        yield from (f"| {line}" for line in until["left"])
    if value["branch"]:
        yield f"branch {value['branch']}: {name_first(value['commits'], MAX_NAMED, '; ') or 'no commit'}"
    failed = [
        f"{one_line(run['command'])} ({'no exit status' if run['status'] is None else 'exit {}'.format(run['status'])})"
        for run in value["failed_commands"]
    ]
    groups = (
        ("changed", value["files_changed"]),
        ("uncommitted", value["uncommitted"]),
        ("no longer uncommitted", value["no_longer_uncommitted"]),
        ("failed", failed),
    )
    for word, names in groups:
        if names:
            yield f"{word}: {name_first(names, MAX_NAMED)}"


def _outcome(run: JsonObject) -> str:
    """Say on one line how a run goes on that broke off, what it waits for, why it failed, or its last words."""
    if run["broken_off"]:
        return name_commands(f"to resume: nexus runs resume {run['id']}")
    if run["waits_for"]:
        return (
            f"{run['came']}; the run continues when nexus serve runs"
            if run["came"]
            else f"waiting for {_name_wait(run)}"
        )
    last_line = next((line for line in run["last_words"].splitlines() if line.strip()), "")
    resume = name_commands(f"to resume: nexus runs resume {run['id']}") if run["state"] == FAILED else ""
    return " · ".join(filter(None, [resume, run["error"] or "", *name_facts(run), last_line]))


def _name_wait(run: JsonObject) -> str:
    """Name what a run waits for, and until when: of a provider also since when."""
    until = format_local_minute(run["wake_at"]) if run["wake_at"] else ""
    if run["waits_for"] != PROVIDER:
        return f"{run['waits_for']}, until {until}" if until else str(run["waits_for"])
    is_due = run["wake_at"] <= utc_now()
    again = f"nexus serve will retry (due {until})" if is_due else f"next retry {until}"
    return f"the provider since {format_local_minute(run['waits_since'])}, {again}"


def _last_error(run: JsonObject) -> str:
    """Return the last error of the provider for which a run waits; "" for another run."""
    return str(run["error"]) if run["waits_for"] == PROVIDER and not run["came"] else ""


def run_text(value: JsonObject) -> Blocks:
    """Show one run after an action on it."""
    if value.get("done"):
        yield f"{value['id']} {value['done']}."
    yield f"{value['id']} {name_state(value)} · {name_origin(value)}"
    yield " · ".join(filter(None, _facts({**value, "cost_usd": None})))
    if value["broken_off"]:
        yield name_commands(f"No process is executing this run. To continue it: nexus runs resume {value['id']}")
    if value["waits_for"] and not (value["came"] or value["questions"]):
        yield f"waiting for: {_name_wait(value)}"
        yield from filter(None, [_last_error(value)])
    if questions := value["questions"] if not value["came"] else ():
        yield from (f"needs approval: {question['what']} ({question['why']})" for question in questions)
        yield name_commands(f"to answer: nexus runs resume {value['id']}")
    joined = [row for row in value["signals"] if row["kind"] == JOINED][SHOWN_EVENTS:]
    for signal in (row for row in value["signals"] if row not in joined):
        later = "" if signal["taken"] else ", not processed yet"
        yield f"{format_local_minute(signal['at'])} {name_signal(signal['kind'], signal['value'])}{later}"
    if joined:
        yield f"and {plural(len(joined), 'further event')}"
    facts = [f"session {value['session']}" if value["session"] else "no session yet"]
    facts += [f"resumed {value['resumes']} times" if value["resumes"] != 1 else "resumed once"]
    if value["cost_usd"]:
        facts.append(dollars(value["cost_usd"]))
    yield " · ".join(facts)
    yield from _record_lines(value)
    if value["error"] and not value["waits_for"]:
        yield f"error: {value['error']}"
    if value["state"] == FAILED:
        yield name_commands(f"To continue: nexus runs resume {value['id']}")
    if value["last_words"]:
        yield ""
        yield from value["last_words"].splitlines()
    if value["refused"]:
        yield ""
        yield REFUSED
        yield from (f"- {line}" for line in value["refused"])
