"""Rows of a timeline: entries, requests, rewrites, drops, pins, workers and waits of a session."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypedDict, cast

from nexus_cli.conversation.compaction.work_log import read_replies
from nexus_cli.core.clock import recorded_seconds
from nexus_cli.core.elide import RECALL, one_line
from nexus_cli.core.entry import PERSON, Entry, Kind, members_of
from nexus_cli.core.event import (
    AgentEvent,
    CompactionDone,
    ContextDrop,
    Notice,
    SessionAct,
    TurnEnd,
    WorkerState,
)
from nexus_cli.core.front_ends import RUN, SERVED
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, to_json_value
from nexus_cli.core.memo_kinds import (
    ATTACHMENTS,
    DECISION,
    IMPORTED_SESSION,
    RECALLED_DROP,
    RESULT,
    SPACE_HISTORY,
    TRIGGER,
)
from nexus_cli.core.run import Entity
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.reports.acts import PastEvent
from nexus_cli.reports.conversation import Replay, waiting_entry
from nexus_cli.reports.event_texts import describe_event, describe_outcome, first_line
from nexus_cli.reports.workers import recorded_workers
from nexus_cli.tools.registry import find_tool

_LOOK_BACK = 50
"""Entries that are read in one batch to find the calls of the first results."""
_TYPES = {"agent": "worker", "space": "space_message"}
"""Type of a trigger by its source, if they differ; a message that a person typed has the type of the front."""
_TYPED = ("", "person", "stdin")
"""Sources of messages from the person."""
_REWRITES = ("compaction", "rewrite")
"""Acts that tell the time and the reason of an epoch; the later of these counts."""
_FAILED = "compaction_failed"
"""The act of which the row stands with those of rewrites."""
_NAMES = {"person": ("You", "human"), "client": ("Client", "human"), "agent": ("Agent", "agent")}


class TimelineCall(TypedDict):
    """A call of a message."""

    id: str
    name: str
    subject: str


class TimelineKeys(TypedDict):
    """The keys that every row has."""

    at: str
    """"" if no time was recorded."""
    kind: str
    """For an entry `user`, `steer`, `assistant`, `tool`, `instruction`; else `start`, `fork`, `request`, the cause of
    an epoch (`compaction`, `overflow`, `truncation`, `pruned`, `model`, `reload`, `undo`, `restore`, `clear`),
    `compaction_failed`, `drop`, `pin`, `goal`, `hook`, `level`, `worker`, `lane`, `waiting`, `claimed`, `resumed`,
    `files` for an undo, a redo or an applied worktree, `job` for the end of a background command, `command` for a `!`
    command or `/continue`, `ended` for a turn that failed or was stopped, and `notice` for a warning that the person
    was shown."""
    entry: int | None
    """Id of the entry."""
    actor: JsonOf[Entity]
    """Its type is `human`, `agent`, `tool` or `nexus`."""
    text: str
    """First line of the message or of the result, the person's answers to questions, or a description of the event."""
    why: str
    """The reason of a decision on a call or of a rewrite."""
    seen: bool | None
    """False for an entry that the model was not sent yet; null for a row without an entry."""
    trigger: JsonDict | None
    """The start of a turn: its `type` (`repl`, `ask`, `stdin`, `client`, `worker`, `plan`, `service`, `space_message`,
    `resume`) and its recorded fields."""
    tokens: int | None
    """For an entry nexus's own count; for a request or lane input and output; for a drop the tokens left out."""
    cost_usd: float | None
    """The cost of a request, a lane or a worker; null if unknown."""
    seconds: float | None
    """Of a call, a request, a worker or a hook."""


class TimelineRow(TimelineKeys, total=False):
    """An event. The keys from `calls` on depend on `kind`."""

    calls: list[TimelineCall]
    call: str
    subject: str
    outcome: str
    decision: str | None
    answer: str | None
    recalled: list[str]
    """Ids of drops."""
    attached: list[JsonDict]
    cut_off: bool
    """True if the turn before stopped before its answer, without a recorded end: its process was killed."""
    step: int
    model: str
    input: int | None
    output: int | None
    cache_read: int | None
    finish: str
    running: bool
    """True for a request that waits for its response now."""
    epoch: int
    before: int | None
    """Tokens before a rewrite: as the compaction reported them, else of the last request."""
    after: int | None
    """Tokens after a rewrite: as the compaction reported them, else of the first request."""
    drop: str
    """Its id, for `recall` and `nexus drops show`."""
    recalls: int
    worker: str
    session: str | None
    state: str
    steps: int
    lane: str
    """The agent of a lane beside the conversation."""
    requests: int
    until: str
    """The time at which the run continues without the event; "" for never."""
    run: str
    signals: list[str]
    """Kinds of events that the run waited for."""
    signal: str
    taken: bool
    message: str
    reply_to: str | None
    waits: bool
    origin: JsonDict | None
    runs: list[JsonDict]


PlacedRow: TypeAlias = tuple[int, TimelineRow]
"""A row behind the newest entry at its time; that of an entry behind itself."""


def pick_newest(placed: Iterable[PlacedRow], unread: int, last: int, totals: JsonObject) -> JsonObject:
    """Return the newest `last` rows in order, the number of earlier ones with `unread` ones, and the totals."""
    ordered = sorted(placed, key=lambda row: (row[0], row[1]["entry"] is None, row[1]["at"]))
    total, rows = len(ordered) + unread, [row for _, row in ordered[-last:]]
    return {"earlier": total - len(rows), "rows": rows, "totals": {"rows": total, **totals}}


def make_row(at: str, kind: str, actor: JsonObject, text: str, *, why: str = "", **extra_fields: Any) -> TimelineRow:
    """Return a row with the keys that every row has, then those of its kind."""
    row = {
        "at": at,
        "kind": kind,
        "entry": None,
        "actor": dict(actor),
        "text": first_line(text),
        "why": first_line(why),
        "seen": None,
        "trigger": None,
        "tokens": None,
        "cost_usd": None,
        "seconds": None,
        **extra_fields,
    }
    return cast("TimelineRow", row)


def _actor(name: str) -> dict[str, str]:
    """Return the author of an entry, from its recorded actor."""
    if members := members_of(name):
        names, kinds, ids = zip(*members, strict=True)
        return {"id": ", ".join(ids), "name": ", ".join(names), "type": "human" if "human" in kinds else "agent"}
    if name.startswith("tool:"):
        return {"id": name, "name": name.removeprefix("tool:"), "type": "tool"}
    label, kind = _NAMES.get(name, (name, "nexus"))
    return {"id": name, "name": label, "type": kind}


NEXUS, AGENT = _actor("nexus"), _actor("agent")


class SessionRecord:
    """The ledger's record of a session, with as many of its newest entries and their notes as rows are listed."""

    def __init__(self, ledger: Ledger, session: str, last: int) -> None:
        self._last, self._ledger, self._info, self._logs = last, ledger, ledger.session(session), ledger.logs(session)
        log = self._log = self._logs[0]
        self._newest, self._cursor = log.last_id(), log.cursor()
        self._requests, self._epochs = log.requests(), log.epochs()
        self._unread = max(0, self._newest - last)
        """Number of entries before those that are read."""
        first = self._unread + 1
        owner = ledger.find_owner(session)
        self._running_after = self._newest if owner and owner.is_busy else None
        """The newest entry while a turn runs."""
        self._entries = {entry.id: entry for entry in log.read(first, self._newest)}
        times = (entry.at for entry in self._entries.values())
        self._times = list(accumulate(times, max))  # a clock may have been set back
        self._replay = Replay(log, self._info.folder, waiting_entry(ledger, log), first=first)
        self._read_calls()

    def report(self, others: Iterable[PlacedRow] = ()) -> JsonObject:
        """Return the facts of the session, the newest of its rows and of `others`, and the sums over it and its
        workers."""
        info, paid = self._info, self._ledger.usage_sum(self._info.id)
        totals = {
            "entries": self._newest,
            "requests": paid.requests,
            "tokens": paid.usage.tokens,
            **to_json_value(paid.usage),
            "known_usd": info.known_usd,
            "saved_usd": info.saved_usd,
            "drops": len(self._log.drops()),
        }
        return {
            "session": info.id,
            "name": info.name,
            "model": info.model,
            "folder": info.folder,
            "cursor": self._cursor,
            **pick_newest([*others, *self._rows()], self._unread, self._last, totals),
        }

    def _rows(self) -> Iterator[PlacedRow]:
        """Yield all rows except those of entries that were not read."""
        yield self._start_row()
        yield from ((entry.id, self._row(entry)) for entry in self._entries.values())
        yield from self._epoch_rows()
        yield from self._request_rows()
        yield from ((past.after, row) for past in self._replay.acts if (row := self._act_row(past)))
        yield from self._worker_rows()
        yield from map(self._lane_row, self._logs[1:])

    def _read_calls(self) -> None:
        """Read the event and the decision of every call, by its id; with those whose results come first here."""
        log, entries, first = self._log, list(self._entries.values()), self._unread + 1
        while entries and entries[0].kind is Kind.TOOL and first > 1:
            first = max(1, first - _LOOK_BACK)
            entries = [*log.read(first, entries[0].id - 1), *entries]
        self._decisions = {memo.value["id"]: memo.value for memo in log.memos(DECISION, first=first)}
        events = [event for entry in entries for event in self._replay.calls_of(entry)]
        self._calls = {event.call.id: event for event in events}

    def find_place(self, at: str) -> int:
        """Return the newest entry at a time; the last unread one, or 0, for a time before those that were read."""
        return self._unread + bisect_right(self._times, at)

    def _is_cut_off(self, last: int) -> bool:
        """Return True if the turn with the newest entry `last` stopped before its answer, without a recorded end."""
        entry = self._entries.get(last) or next(iter(self._log.read(last, last)), None)
        return self._replay.has_no_end(entry)

    def _row(self, entry: Entry) -> TimelineRow:
        facts: JsonDict = {"actor": _actor(entry.actor), "text": entry.message.content}
        match entry.kind:
            case Kind.TOOL:
                facts |= self._result_facts(entry)
            case Kind.ASSISTANT:
                events = (self._calls[call.id] for call in entry.message.tool_calls)
                facts["calls"] = [{"id": e.call.id, "name": e.call.name, "subject": e.subject} for e in events]
            case _:
                facts |= self._message_facts(entry)
        seen = entry.id <= self._cursor
        return make_row(entry.at, str(entry.kind), entry=entry.id, seen=seen, tokens=entry.tokens, **facts)

    def _message_facts(self, entry: Entry) -> JsonObject:
        """Return the facts of a message; for an entry that started a turn, with its trigger."""
        recorded = self._replay.note(TRIGGER, entry.id)
        source, trigger = recorded.get("source", ""), None
        front = "ask" if self._info.front in (RUN, SERVED) else "repl"
        if source or (entry.kind is Kind.USER and entry.actor == PERSON):
            trigger = {
                "type": _TYPES.get(source, source) or front,
                **recorded.get("facts", {}),
            }
        text = self._history_words(entry) or self._replay.shown_text(entry)
        optional_facts = {
            "recalled": [memo.value["drop"] for memo in self._replay.notes(RECALLED_DROP, entry.id)],
            "attached": self._replay.note(ATTACHMENTS, entry.id).get("files"),
            "cut_off": entry.kind is Kind.USER and self._is_cut_off(entry.id - 1),
        }
        return {
            "actor": _actor(entry.actor if source in _TYPED or entry.actor != PERSON else source),
            "text": text or "".join(f"[image {name}]" for name in entry.message.image_names),
            "trigger": trigger,
            **{name: value for name, value in optional_facts.items() if value},
        }

    def _history_words(self, entry: Entry) -> str:
        """Return the messages of a space in an entry of SPACE HISTORY, "" for another entry."""
        parts = self._replay.note(SPACE_HISTORY, entry.id).get("parts", ())
        return "; ".join(one_line(entry.message.content[start:state]).strip() for start, state, _ in parts)

    def _result_facts(self, entry: Entry) -> JsonObject:
        """Return the facts of a result, with its call and the decision on it."""
        note = self._replay.note(RESULT, entry.id)
        result, seconds = self._replay.result_of(entry)
        call = entry.message.tool_call_id or ""
        decision, asked = self._decisions.get(call, {}), self._calls.get(call)
        subject = asked.subject if asked else ""
        replies = [reply for _, reply in read_replies(asked.call, entry.message.content, find_tool)] if asked else []
        recalls = entry.actor == f"tool:{RECALL}" and result.ran and not result.error
        return {
            "text": " / ".join(replies) or entry.message.content,
            "why": decision.get("why") or decision.get("rule") or "",
            "seconds": seconds if note else None,
            "call": entry.message.tool_call_id,
            "subject": subject,
            "outcome": describe_outcome(result) if note else "",
            "decision": decision.get("decision"),
            "answer": decision.get("answer"),
            **({"recalled": [subject]} if recalls else {}),
        }

    def _start_row(self) -> PlacedRow:
        """Return the start of the session, or its fork from another one."""
        info = self._info
        if info.parent:
            text = f"forked from {info.parent}"
            return self._log.forked_at, make_row(info.created, "fork", NEXUS, text, session=info.parent)
        first = next((epoch.model for epoch in self._epochs[:1] if epoch.cause != IMPORTED_SESSION), "")
        model = first or info.model  # the present one, where the first is unknown or has the name of another program
        return 0, make_row(info.created, "start", NEXUS, f"recipe {info.recipe}, {model}")

    def _request_rows(self) -> Iterator[PlacedRow]:
        """Yield a row for each request of the main conversation."""
        newest = {row.manifest.last: row for row in self._requests}  # of several it has the reply
        replies = {entry.id - 1: entry.at for entry in self._entries.values() if entry.kind is Kind.ASSISTANT}
        for row in self._requests:
            usage, last = row.counted, row.manifest.last
            is_replied = row.usage is not None and row is newest[last]
            is_running = not row.finish and last == self._running_after
            extra_fields: JsonObject = {"running": True} if is_running else {}
            yield (
                last,
                make_row(
                    row.manifest.at,
                    "request",
                    AGENT,
                    row.model,
                    tokens=usage.tokens,
                    cost_usd=usage.cost_usd,
                    seconds=recorded_seconds(row.manifest.at, replies.get(last, "")) if is_replied else None,
                    step=row.manifest.step,
                    model=row.model,
                    input=usage.input,
                    output=usage.output,
                    cache_read=usage.cache_read,
                    finish=row.finish,
                    **extra_fields,
                ),
            )

    def _epoch_rows(self) -> Iterator[PlacedRow]:
        """Yield a row for each rewrite of the window, and for each failed compaction, before those of its moment."""
        acts = self._replay.acts
        told = [(past, past.event) for past in acts if isinstance(past.event, SessionAct)]
        rewrites = {
            act.facts["epoch"]: (past.at, act.why) for name in _REWRITES for past, act in told if act.act == name
        }
        ended = [(past, past.event) for past in acts if isinstance(past.event, CompactionDone) and past.event.ok]
        sizes = [
            (row.manifest.epoch, row.reported_usage.input if row.reported_usage else row.manifest.estimate)
            for row in self._requests
        ]
        for previous, epoch in pairwise(self._epochs):
            entry = self._entries.get(epoch.after)
            at, why = rewrites.get(epoch.id, (entry.at if entry else "", ""))
            reported = [
                (done.before, done.after)
                for past, done in ended
                if epoch.id in rewrites and past.after == epoch.after and past.at >= at
            ]
            earlier = (size for sent, size in reversed(sizes) if sent < epoch.id)
            later = (size for sent, size in sizes if sent >= epoch.id)
            before, after = reported[0] if reported else (next(earlier, None), next(later, None))
            text = f"{previous.model} to {epoch.model}" if epoch.cause == "model" else epoch.cause
            facts = {"epoch": epoch.id, "model": epoch.model, "before": before, "after": after}
            yield epoch.after, make_row(at, epoch.cause, NEXUS, text, why=why, **facts)
        for past, act in told:
            if act.act == _FAILED:
                yield past.after, make_row(past.at, act.act, NEXUS, act.text, why=act.why)

    def _act_row(self, past: PastEvent) -> TimelineRow | None:
        """Return the row of an event that no entry holds; None if it has none, or one with other figures."""
        match past.event:
            case SessionAct(act=act) as event if act not in (*_REWRITES, _FAILED):
                facts = dict(event.facts)
                if act == "resumed":
                    signals = self._ledger.runs.signals(int(facts["run"].removeprefix("run-")), is_taken=True)
                    facts["signals"] = [signal.kind for signal in signals if signal.key in facts["signals"]]
                if event.text == "/continue" and self._is_cut_off(past.after):
                    facts["cut_off"] = True
                why = ", ".join(facts.get("signals", ())) or event.why
                return make_row(past.at, act, _actor(event.by), event.text, why=why, seconds=event.seconds, **facts)
            case ContextDrop(drop):
                why, tokens = str(drop.cause), drop.tokens
                return make_row(
                    past.at, "drop", NEXUS, drop.what, why=why, tokens=tokens, drop=drop.id, recalls=drop.recalls
                )
            case Notice(text, warning=True):
                return make_row(past.at, "notice", NEXUS, text)
            case TurnEnd() as end if line := describe_event(end):
                return make_row(past.at, "ended", NEXUS, one_line(line))
        return None

    def _worker_rows(self) -> Iterator[PlacedRow]:
        """Yield a row for each worker when it came into its state; its call of the tool `agent` is its start."""
        reached: dict[str, tuple[str, PastEvent]] = {}
        for past in self._replay.acts:
            match past.event:
                case AgentEvent(name, event=WorkerState({"state": state})) if past.after > self._log.forked_at:
                    if name not in reached or reached[name][0] != state:
                        reached[name] = state, past
        workers = {row["id"]: row for row in reversed(recorded_workers(self._ledger, self._info.id) if reached else [])}
        for name, (_, past) in reached.items():
            worker: JsonObject = workers[name]
            actor = {"id": worker["session"] or name, "name": name, "type": "agent"}
            facts = {fact: worker[fact] for fact in ("tokens", "cost_usd", "seconds", "session", "state", "steps")}
            why = worker["error"] or ""
            yield past.after, make_row(past.at, "worker", actor, worker["task"], why=why, worker=name, **facts)

    def _lane_row(self, log: LaneLog) -> PlacedRow:
        """Return the row of a side conversation at its beginning."""
        forked, agent, requests = log.forked_at, log.agent, log.requests()
        first = log.read(forked + 1, forked + 1)
        at = requests[0].manifest.at if requests else first[0].at if first else ""
        total = sum((row.counted for row in requests), Usage())
        actor = {"id": agent, "name": agent, "type": "agent"}
        row = make_row(
            at,
            "lane",
            actor,
            agent,
            tokens=total.tokens,
            cost_usd=total.cost_usd,
            lane=agent,
            requests=len(requests),
        )
        return forked or self.find_place(at), row
