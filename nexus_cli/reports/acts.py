"""The events that the memos of a session hold: what happened beside its messages and calls, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from nexus_cli.conversation.compaction.pins import number_pins
from nexus_cli.core import event as e
from nexus_cli.core import memo_kinds
from nexus_cli.core.clock import format_moment
from nexus_cli.core.entry import Entry, Memo, MemoSource
from nexus_cli.core.event import Event, SessionAct
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import read_level
from nexus_cli.core.memo_kinds import JOB, LIMITS_IN_FORCE, PIN
from nexus_cli.core.running_workers import RUNNING
from nexus_cli.ledger import LaneLog
from nexus_cli.reports.event_texts import first_line, read_notice_text
from nexus_cli.reports.text.lines import plural

NOT_SHOWN = ("report", "spawner", "untold", "failed")
"""Keys of a worker's record that its events do not have."""


@dataclass(frozen=True, slots=True)
class PastEvent:
    """An event of the past."""

    event: Event
    at: str
    """ISO 8601, UTC."""
    entry: Entry | None = None
    """The entry that holds it; None if another record does."""
    after: int = 0
    """The entry after which it happened, if no entry holds it."""


def read_acts(memo: Memo) -> list[PastEvent]:
    """Return the events that a memo of `ACT_KINDS`, or `THINKING`, holds; the end of a turn without its answer."""
    events = chain(_read_events(memo.kind, memo.value), _read_session_act(memo.kind, memo.value))
    return [PastEvent(event, memo.at, None, memo.entry) for event in events]


def _read_events(kind: str, value: JsonObject) -> Iterator[Event]:
    """Yield the events of a turn that a memo holds."""
    match kind:
        case memo_kinds.EVENT:
            from nexus_cli.core.read_event import read_event  # noqa: PLC0415  (few turns have such an event)

            restored = read_event(value)
            if isinstance(restored, e.Notice):
                yield e.Notice(read_notice_text(value), restored.warning)
            elif restored is not None:
                yield restored
        case memo_kinds.THINKING if "alone" in value:
            yield e.Thinking(value["text"], value["seconds"])
        case memo_kinds.CUT_ANSWER:
            yield from [e.Text(str(value["text"]))] if value["text"] else []
            yield e.Retry(1, 0.0, str(value["why"]), cut=True)
        case memo_kinds.WORKER:
            row = {name: fact for name, fact in value.items() if name not in NOT_SHOWN}
            for event in (e.TurnEnd(e.Outcome(text=value.get("report") or "")), e.WorkerState(row)):
                yield e.AgentEvent(row["id"], row["session"], event)


def _read_session_act(kind: str, value: JsonObject) -> Iterator[SessionAct]:
    """Yield the act that a memo records; an act of the person only if it says how it is shown."""
    match kind:
        case memo_kinds.SHELL_LINE | memo_kinds.UNDONE_FILES if "shown" in value:
            act = "command" if kind == memo_kinds.SHELL_LINE else "files"
            yield SessionAct(act, str(value["shown"]), "person", str(value["shown"]))
        case memo_kinds.GOAL:
            yield SessionAct("goal", _describe_goals(value))
        case memo_kinds.HOOK:
            about = f" on {value['about']}" if value["about"] else ""
            text = f"{value['event']} {value['hook']} ({value['source']}){about}"
            text += "" if value["outcome"] == "ok" else f": {value['outcome']}"
            yield SessionAct("hook", text, why=value["why"], seconds=value["seconds"])
        case memo_kinds.WAIT:
            wait = value["wait"]
            facts = {"until": format_moment(wait["until"]) or ""}
            yield SessionAct("waiting", str(wait["why"]), "agent", why=wait["kind"], facts=facts)
        case memo_kinds.CLAIMED_RUN:
            run, keys = {"run": f"run-{value['run']}"}, list(value["signals"])
            yield SessionAct(
                "resumed" if keys else "claimed", run["run"], facts={**run, "signals": keys} if keys else run
            )
        case memo_kinds.REWRITE:
            yield SessionAct("rewrite", "", why=value.get("why", ""), facts={"epoch": value.get("epoch")})
        case memo_kinds.COMPACTION if value["epoch"] is None:
            yield SessionAct("compaction_failed", "no compaction", why=value["why"])
        case memo_kinds.COMPACTION:
            yield SessionAct("compaction", "", facts={"epoch": value["epoch"]})


def _describe_goals(value: JsonObject) -> str:
    goals, steps = list(value.get("goals", ())), ""
    if len(goals) > 1:
        steps = f" ({plural(len(goals) - 1, 'step')})"
    text = f"{goals[0]['id']} {first_line(goals[0]['text'])}{steps}" if goals else ""
    for name in ("done", "dropped"):
        if ids := value.get(name):
            text = f"{', '.join(map(str, ids))} {name}"
    return text


def pin_acts(log: LaneLog) -> list[PastEvent]:
    """Return the pins of a session, of which the numbers depend on those before."""
    return [PastEvent(_describe_pin(memo.value), memo.at, None, memo.entry) for memo in number_pins(log.memos(PIN))]


def session_acts(log: LaneLog) -> list[PastEvent]:
    """Return the events of a session that its memos hold together: changes of the level, ends of jobs."""
    acts: list[tuple[Memo, SessionAct]] = []
    for before, memo in pairwise(log.memos(LIMITS_IN_FORCE)):
        levels = read_level(before.value), read_level(memo.value)
        if levels[0] != levels[1]:
            acts.append((memo, SessionAct("level", " to ".join(levels))))
    acts += [(memo, SessionAct("job", how)) for memo, how in _job_ends(log)]  # its call is its start
    return [PastEvent(act, memo.at, None, memo.entry) for memo, act in acts]


def _job_ends(source: MemoSource) -> Iterator[tuple[Memo, str]]:
    """Yield the end of each background command of a session: its first memo, and the job with its state in words."""
    ends = [memo for memo in source.memos(JOB) if memo.value["state"] != RUNNING or memo.value.get("told")]
    if not ends:
        return
    from nexus_cli.session.session_jobs import recorded_jobs  # noqa: PLC0415  (few sessions have jobs)

    jobs = {job["id"]: job for job in recorded_jobs(source)}
    for name, memo in {memo.value["id"]: memo for memo in reversed(ends)}.items():
        yield memo, f"{name} ({jobs[name]['name']}) {jobs[name]['how']}"


def _describe_pin(value: JsonObject) -> SessionAct:
    text = value.get("text", "") or (f"message {value['entry']}" if value.get("entry") else "")
    line = f"{value['id']} {'removed' if value.get('off') else text}"
    return SessionAct("pin", line, "person", value["shown"])
