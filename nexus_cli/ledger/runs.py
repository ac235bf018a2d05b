"""The table of runs that outlive processes, and of the signals that they wait for.

A run is claimed by one process at a time. A claim increments the run's fence, and its owner records under that fence
(`hold`), so that an owner whose claim was taken over can record nothing. A run begins to wait, and takes its signals,
in the transaction of the entry that shows it (`apply_memo`): neither exists without the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from nexus_cli.core.elide import clip_text
from nexus_cli.core.entry import AGENT_NAME, Memo
from nexus_cli.core.errors import UsageError
from nexus_cli.core.front_ends import RUN
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.memo_kinds import WAIT
from nexus_cli.core.run import (
    AGENT,
    APPROVAL,
    CANCELLED,
    DEBOUNCE,
    ENDED,
    FAILED,
    JOINED,
    KEY,
    PERSON,
    PLAIN,
    QUEUED,
    RUNNING,
    UNATTENDED,
    WAITING,
    Run,
    Signal,
    Wait,
    fold_name,
    parse_key,
)
from nexus_cli.ledger import lanes, sessions
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.signals import (
    OPEN,
    add_signal,
    count_caused,
    signal_earlier_replies,
    signal_unanswered,
)
from nexus_cli.ledger.stored_levels import read_options
from nexus_cli.ledger.usage_totals import sum_requests

TITLE = 120
"""Most characters of a title."""
MAX_DEBOUNCED = 10
"""Most times that these seconds pass from the first event on."""
MAX_JOINED = 1000
"""Most events that join one run."""
_COLUMNS = (
    "key, state, type, title, run_trigger, options, session, entity, space, message, plan, waits, owner, lease, fence,"
    " resumes, report, error, cost, created, updated"
)
_SIGNAL = "key, run, at, kind, value"


class RunTable:
    """The runs of one ledger. Methods that write have committed when they return."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def queue(
        self, kind: str, title: str, trigger: JsonObject, options: JsonObject, at: str, **columns: Any
    ) -> int | None:
        """Queue a run and return its key; None if a run of this `cause` exists. See `queue_run`."""
        with self._db.write():
            return queue_run(self._db, kind, title, trigger, options, at, **columns)

    def join_or_queue(
        self,
        service: str,
        trigger: JsonObject,
        options: JsonObject,
        at: str,
        cause: str,
        event: JsonObject,
    ) -> tuple[int | None, bool]:
        """Record an event for the open run of a service with the same `KEY` in its options, else queue a run. Return
        its key, and True if the event joined it; None if a run of this `cause` exists.

        A queued run with `DEBOUNCE` in its options begins after so many seconds without an event, at most
        `MAX_DEBOUNCED` times as many after the first. Raises `OverflowError` if `MAX_JOINED` have joined the run.
        """
        with self._db.write():
            self._db.lock(f"service {service}")  # as in `finish`
            if cause and self.of_cause(cause):
                return None, False
            key, begun = (self.find_open(service, options[KEY]) if KEY in options else None) or (None, at)
            is_open = key is not None
            joined = [signal.value["delivery"] for signal in self.joined(key)] if key else []
            if len(joined) >= MAX_JOINED:
                raise OverflowError
            if key is None:
                key = queue_run(self._db, "service", service, trigger, options, at, cause=cause)
            elif not cause or event["delivery"] not in joined:
                add_signal(self._db, key, JOINED, event, at, is_taken=True)
            if KEY in options and (pause := options[DEBOUNCE]):
                latest = datetime.fromisoformat(begun).timestamp() + pause * MAX_DEBOUNCED
                wake_at, queued = min(self.now() + pause, latest), f"state = '{QUEUED}'"
                self._db.run(f"UPDATE runs SET wake_at = ? WHERE key = ? AND {queued}", wake_at, key)
        return key, is_open

    def find_open(self, service: str, key: str) -> tuple[int, str] | None:
        """Return the key of the open run of a service with this `KEY`, and when it was queued."""
        condition = f"{OPEN} AND {self._db.own_run} AND type = 'service' AND title = ? ORDER BY key DESC"
        rows = self._db.all(f"SELECT key, created, options FROM runs WHERE {condition}", _line(service))
        return next(((run, created) for run, created, text in rows if json.loads(text).get(KEY) == key), None)

    def next_wake(self) -> float | None:
        """Return the start of the next queued run that waits for further events, in seconds since the epoch."""
        queued = f"{OPEN} AND state = '{QUEUED}' AND wake_at > {self._db.now_sql}"
        wake_at: float | None = self._db.value(f"SELECT min(wake_at) FROM runs WHERE {queued}")
        return wake_at

    def get(self, key: int) -> Run:
        """Return a run; raise `UsageError` if it does not exist."""
        runs = self._select("key = ?", key)
        if not runs:
            raise UsageError(f"run-{key}", "there is no such run", "See `nexus runs list`")
        return runs[0]

    def find(self, text: str) -> Run:
        """Return a run by its id; raise `UsageError` if it does not exist."""
        key = parse_key(text, "run")
        if key is None:
            raise UsageError(f"run {text[:80]!r}", "there is no such run", "See `nexus runs list`")
        return self.get(key)

    def list_runs(self, states: Iterable[str] = (), limit: int = 50, **filters: Any) -> list[Run]:
        """Return runs, newest first: those in some states, and with `entity`, `space`, `plan` or `session` as given."""
        states = tuple(states)
        tests = [f"state IN ({', '.join('?' * len(states))})"] if states else []
        tests += [f"{name} = ?" for name in filters]
        condition = " AND ".join(tests) or "1 = 1"
        return self._select(f"{condition} ORDER BY key DESC LIMIT ?", *states, *filters.values(), limit)

    def of_session(self, session: str) -> Run | None:
        """Return the run of a session, None if it has none."""
        return next(iter(self._select("session = ? AND session <> '' ORDER BY key DESC LIMIT 1", session)), None)

    def of_messages(self, space: int, first: int) -> list[Run]:
        """Return the runs that the messages of a space from `first` (key) on triggered, oldest first."""
        return self._select("space = ? AND message >= ? ORDER BY key", space, first)

    def of_posts(self, space: int, first: int) -> dict[int, Run]:
        """Return the runs that posted messages of a space from `first` (key) on, each by the key of its newest."""
        of = "SELECT max(m.key), r.key FROM messages m JOIN runs r ON r.session = m.session"
        rows = self._db.all(f"{of} WHERE m.space = ? AND m.key >= ? AND m.session <> '' GROUP BY r.key", space, first)
        return {message: self.get(run) for message, run in rows}

    def count_of_space(self, space: int) -> tuple[int, float]:
        """Count the runs that messages of a space triggered, and sum the dollars of those that ended."""
        ((count, dollars),) = self._db.all("SELECT count(*), coalesce(sum(cost), 0.0) FROM runs WHERE space = ?", space)
        return int(count), float(dollars)

    def count_caused(self, message: int) -> tuple[int, float]:
        """Count the runs that a person's message (key) led to, and sum their dollars so far."""
        return count_caused(self._db, message)

    def waiting(self) -> list[Run]:
        """Return the runs that wait and have no signal yet, sorted by their time."""
        return self._select(
            f"{OPEN} AND state = '{WAITING}'"
            " AND NOT EXISTS (SELECT 1 FROM signals s WHERE s.run = runs.key AND s.taken = 0)"
            " ORDER BY coalesce(wake_at, 1e300), key"
        )

    def now(self) -> float:
        """Return the current time of the database's clock, in seconds since the epoch."""
        return float(self._db.value(f"SELECT {self._db.now_sql}"))

    # Claims

    def due(self, limit: int = 100, but: Iterable[int] = (), **filters: Any) -> list[Run]:
        """Return the runs that this role may claim, oldest first: queued, signalled, or with an expired lease.

        Leaves out the keys in `but`; `filters` as in `list_runs`.
        """
        tests = "".join(f" AND {name} = ?" for name in filters)
        tests += f" AND key NOT IN ({', '.join(map(str, but))})" if but else ""
        condition = f"{OPEN} AND {self._db.own_run} AND ({self._due()}){tests} ORDER BY key LIMIT ?"
        return self._select(condition, *filters.values(), limit)

    def claim(
        self, key: int, owner: str, seconds: float, at: str, *, is_dead: bool = False, is_late: bool = False
    ) -> Run | None:
        """Claim a run for `seconds`; None if it is not due, is another role's, or its folder is busy.

        With `is_dead` the caller knows that its owner is gone, so that the lease no longer counts. With `is_late` its
        owner lives: only an expired lease counts.
        """
        due = f"state = '{RUNNING}' AND lease < {self._db.now_sql}" if is_late else self._due()
        with self._db.write():
            row = self._db.one(
                f"SELECT key FROM runs WHERE key = ? AND {self._db.own_run}"
                f" AND ({due} OR (? = 1 AND state = '{RUNNING}')){self._db.skip_locked}",
                key,
                int(is_dead),
            )
            if row is None:
                return None
            self._db.lock(f"folder {_folder(run := self.get(key))}")  # two runs may be claimed at the same time
            if self.is_folder_busy(run):
                return None
            self._db.run(
                f"UPDATE runs SET state = '{RUNNING}', owner = ?, lease = {self._db.now_sql} + ?, fence = fence + 1,"
                " updated = ? WHERE key = ?",
                owner,
                seconds,
                at,
                key,
            )
            return self.get(key)  # read here: later it might be another process's claim

    def is_folder_busy(self, run: Run) -> bool:
        """True if a run with which `run` may not work at the same time works in its folder: another one of its agent,
        or one that may write as `run` may. In worktrees they work side by side."""
        if run.options.get("worktree"):
            return False
        works = f"{self._db.own_run} AND state = '{RUNNING}' AND lease >= {self._db.now_sql}"
        working_runs = self._select(f"key <> ? AND {works}", run.key)
        return any(
            not other_run.options.get("worktree")
            and (other_run.entity == run.entity is not None or (other_run.may_write and run.may_write))
            and _folder(other_run) == _folder(run)
            for other_run in working_runs
        )

    def _due(self) -> str:
        return (
            f"(state = '{QUEUED}' AND coalesce(wake_at, 0.0) <= {self._db.now_sql})"
            f" OR (state = '{RUNNING}' AND lease < {self._db.now_sql}) OR (state = '{WAITING}' AND"
            " EXISTS (SELECT 1 FROM signals s WHERE s.run = runs.key AND s.taken = 0))"
        )

    def hold(self, run: Run, seconds: float) -> None:
        """Let this connection write only while its claim of `run` is the newest one; each write extends the lease."""
        self._db.guard(
            f"UPDATE runs SET lease = CASE WHEN state = '{RUNNING}' THEN {self._db.now_sql} + ? ELSE lease END"
            " WHERE key = ? AND fence = ?",
            seconds,
            run.key,
            run.fence,
            why=f"{run.id} was cancelled, or another process took it over",
        )

    def renew(self) -> None:
        """Extend the lease of this connection's run; raise `NexusError("ledger", ...)` if the claim is lost."""
        with self._db.write():
            pass

    def lost(self, fences: Mapping[int, int]) -> set[int]:
        """Return those runs that have a newer claim than the given fence, or were cancelled."""
        if not fences:
            return set()
        rows = self._db.all(f"SELECT key, fence FROM runs WHERE key IN ({', '.join('?' * len(fences))})", *fences)
        return {key for key, fence in rows if fences[key] != fence}

    def attach(self, run: Run, session: str) -> None:
        """Record the session of a run."""
        with self._db.write():
            self._update(run, "session = ?", session)

    def make_session(self, run: Run, *, folder: str, project: str, model: str, recipe: str, at: str) -> str:
        """Create the session of a run in the same transaction as its record, and return its id."""
        with self._db.write():
            session = sessions.create(
                self._db, folder=folder, project=project, model=model, recipe=recipe, name="", at=at, front=RUN
            )
            sessions.open_main(self._db, session)
            self._update(run, "session = ?", session.id)
        return session.id

    def _update(self, run: Run, columns: str, *values: Any) -> None:
        """Set columns of a run, inside a transaction, unless another process has claimed it since."""
        self._db.run(f"UPDATE runs SET {columns} WHERE key = ? AND fence = ?", *values, run.key, run.fence)

    def release_claim(self, run: Run, at: str, held_over: JsonObject | None = None) -> None:
        """Release a claim: the run waits or is queued again, as before. One that was `held_over` is queued, with these
        options added to those of its row."""
        with self._db.write():
            if held_over is not None:
                options = _json({**self.get(run.key).options, **held_over})
                queued = f"state = '{QUEUED}', options = ?, owner = '', lease = NULL, updated = ?"
                self._update(run, queued, options, at)
                return
            self._update(
                run,
                f"state = CASE WHEN waits <> '' THEN '{WAITING}' WHEN session = '' THEN '{QUEUED}'"
                f" ELSE state END, owner = '', lease = {self._db.now_sql}, updated = ?",
                at,
            )
            self._db.notify()

    def finish(
        self,
        run: Run,
        state: str,
        at: str,
        *,
        report: str = "",
        error: str = "",
        cost: float | None = None,
        last_signal: int | None = None,
    ) -> bool:
        """Record the outcome of a run; False if events have joined it after the signal with the key `last_signal`."""
        with self._db.write():
            if last_signal is not None:
                self._db.lock(f"service {run.title}")
                if self.joined(run.key, last_signal):
                    return False
            self._update(
                run,
                "state = ?, report = ?, error = ?, cost = ?, waits = '', wake_at = NULL, owner = '', lease = NULL,"
                " updated = ?",
                state,
                report.replace("\0", "\ufffd"),
                error.replace("\0", "\ufffd"),
                cost,
                at,
            )
            signal_unanswered(self._db, run.key, at)
            self._db.notify()
        return True

    def resume_failed(self, run: Run, at: str) -> None:
        """Queue a failed run again, for a person who resumes it: its limits count from here on."""
        with self._db.write():
            cost = self._db.value("SELECT cost FROM sessions WHERE id = ?", run.session)
            counted = {"requests": self.count_usage(run.session)["steps"], "usd": cost or 0.0}
            self._db.run(
                f"UPDATE runs SET state = '{QUEUED}', options = ?, error = '', updated = ?"
                f" WHERE key = ? AND state = '{FAILED}'",
                _json({**run.options, "counted": counted}),
                at,
                run.key,
            )
            add_signal(self._db, run.key, PERSON, {"why": run.error}, at)

    def count_usage(self, session: str) -> JsonObject:
        """Return `steps` (requests that were not lost on the way to the provider) and `usage` of a session and of its
        side runs, workers apart. An unknown price is None."""
        condition = "l.session = (SELECT key FROM sessions WHERE id = ?) AND (r.input > 0 OR r.finish IS NULL)"
        total = sum_requests(self._db, condition, session)
        return {"steps": total.requests, "usage": to_json_value(total.usage)}

    def note(self, run: Run, facts: JsonObject) -> Run:
        """Add `facts` to the options of a claimed run, and return it."""
        with self._db.write():
            self._update(run, "options = ?", _json({**self.get(run.key).options, **facts}))
        return replace(run, options={**run.options, **facts})

    def wait(self, run: Run, wait: Wait, at: str) -> None:
        """Let a run wait for an approval or the provider, which no tool result announces."""
        with self._db.write():
            _set_waiting(self._db, run.key, wait, at)

    def cancel(self, key: int, at: str) -> Run:
        """Cancel an open run; its owner can record nothing more. Return it as it was before."""
        with self._db.write():
            before = self.get(key)
            if not before.has_ended:
                cancel_run(self._db, key, at)
        return before

    def set_paused(self, key: int, paused: bool, at: str) -> Run:
        """Pause an open run, or end its pause; return it as it was before. Its owner ends after the current step."""
        with self._db.write():
            before = self.get(key)
            options = {**before.options, "paused": paused}
            if not before.has_ended and before.is_paused != paused:
                if not self.is_own(before):
                    why = f"only its owner, {before.principal}, can pause or resume this run"
                    raise UsageError(before.id, why, f"To end the run: nexus runs cancel {before.id}")
                self._db.run("UPDATE runs SET options = ?, updated = ? WHERE key = ?", _json(options), at, key)
                self._db.notify()
        return before

    def end_with_session(self, session: str) -> None:
        """End the runs of a session that is being deleted, since they cannot be resumed."""
        with self._db.write():
            self._db.run(
                f"UPDATE runs SET state = CASE WHEN {OPEN} THEN '{CANCELLED}' ELSE state END, fence = fence + 1,"
                " session = '', waits = '', wake_at = NULL, owner = '', lease = NULL WHERE session = ?",
                session,
            )

    # Signals

    def signal(self, key: int, kind: str, value: JsonObject, at: str, *, is_taken: bool = False) -> None:
        """Record a signal for a run, waiting or not. One that `is_taken` wakes none."""
        with self._db.write():
            add_signal(self._db, key, kind, value, at, is_taken=is_taken)

    def signal_wait(self, run: Run, kind: str, value: JsonObject, at: str) -> bool:
        """Record that the wait of `run` is over, or its time has passed; False if it no longer waits for that, or has a
        signal already."""
        waits = _json(to_json_value(run.waits)) if run.waits else ""
        with self._db.write():
            row = self._db.one(f"SELECT state, waits FROM runs WHERE key = ?{self._db.skip_locked}", run.key)
            if row is None or (row[0], row[1]) != (WAITING, waits):
                return False
            if self._db.one("SELECT 1 FROM signals WHERE run = ? AND taken = 0", run.key):
                return False
            add_signal(self._db, run.key, kind, value, at)
        return True

    def take(self, run: Run, signals: Iterable[Signal], at: str) -> None:
        """Let a run take signals and stop waiting, if no entry shows them: the answer to an approval."""
        with self._db.write():
            _take(self._db, run.key, [signal.key for signal in signals], at)

    def signals(self, key: int, *, is_taken: bool = False) -> list[Signal]:
        """Return the pending signals of a run, or those that it has taken, oldest first."""
        return self._signals("run = ? AND taken = ?", key, int(is_taken))

    def joined(self, key: int, after: int = 0) -> list[Signal]:
        """Return the further events that joined a run after the signal `after` (key), oldest first."""
        return self._signals(f"run = ? AND taken = 1 AND kind = '{JOINED}' AND key > ?", key, after)

    def _signals(self, condition: str, *values: Any) -> list[Signal]:
        rows = self._db.all(f"SELECT {_SIGNAL} FROM signals WHERE {condition} ORDER BY key", *values)
        return [Signal(key, run, at, kind, json.loads(value)) for key, run, at, kind, value in rows]

    def answers(self, key: int) -> list[Signal]:
        """Return the answers to approvals of a run, taken or not, oldest first; in a shared ledger only those that
        this role gave."""
        by_author = " AND author = current_user" if self._db.is_shared else ""
        return self._signals(f"run = ? AND kind = '{APPROVAL}'{by_author}", key)

    def is_own(self, run: Run) -> bool:
        """True unless `run` has the rights of another role, on whose machines it works."""
        return not run.principal or run.principal == self._db.constants("SELECT current_user")[0][0]

    def signalled(self, kind: str, start: JsonObject) -> list[int]:
        """Return the keys of the runs with a signal of a kind whose value begins with the fields of `start`."""
        text = _json(start)[:-1]
        query = "SELECT DISTINCT run FROM signals WHERE kind = ? AND substr(value, 1, ?) = ? ORDER BY run"
        return [key for (key,) in self._db.all(query, kind, len(text), text)]

    def origin(self, run: Run) -> tuple[str, bool]:
        """Return the project of a run in a shared ledger, and True unless its agent is another role's."""
        theirs = "SELECT 1 FROM entities e WHERE e.key = r.entity AND e.made_by <> current_user"
        row = self._db.one(f"SELECT r.project, NOT EXISTS ({theirs}) FROM runs r WHERE r.key = ?", run.key)
        return (str(row[0]), bool(row[1])) if row else ("", False)

    def spent_since(self, since: str, **filters: Any) -> float:
        """Return the dollars that unattended runs, in a shared ledger all runs of this role, have cost since a time,
        open runs included; `filters` as in `list_runs`."""
        tests = "".join(f" AND r.{name} = ?" for name in filters) + f" AND {self._db.own_run}"
        types = ", ".join(f"'{run_type}'" for run_type in (*UNATTENDED, *(PLAIN if self._db.is_shared else ())))
        dollars = self._db.value(
            f"""WITH RECURSIVE paid (key, id) AS (
                SELECT s.key, s.id FROM sessions s JOIN runs r ON r.session = s.id
                    WHERE r.type IN ({types}) AND (r.updated >= ? OR r.state = '{RUNNING}'){tests}
                UNION SELECT s.key, s.id FROM paid p JOIN sessions s ON s.spawner = p.id)
            SELECT coalesce(sum(q.cost), 0.0) FROM requests q JOIN lanes l ON l.id = q.lane
            WHERE q.at >= ? AND l.session IN (SELECT key FROM paid)""",
            since,
            *filters.values(),
            since,
        )
        return float(dollars)

    def list_ended_or_waiting(self, since: str, limit: int) -> list[Run]:
        """Return the newest unattended runs that ended or began to wait after a time, oldest first."""
        types, rested = (", ".join(f"'{name}'" for name in names) for names in (UNATTENDED, (*ENDED, WAITING)))
        condition = f"type IN ({types}) AND state IN ({rested}) AND updated > ? ORDER BY updated DESC, key DESC LIMIT ?"
        return self._select(condition, since, limit)[::-1]

    def of_cause(self, cause: str) -> Run | None:
        """Return the run of a cause, None if there is none."""
        return next(iter(self._select("cause = ?", cause)), None)

    def _select(self, condition: str, *values: Any) -> list[Run]:
        columns = f"{_COLUMNS}, {self._db.principal}"
        return [_run(row) for row in self._db.all(f"SELECT {columns} FROM runs WHERE {condition}", *values)]


def queue_run(
    db: Database,
    kind: str,
    title: str,
    trigger: JsonObject,
    options: JsonObject,
    at: str,
    *,
    cause: str = "",
    entity: int | None = None,
    space: int | None = None,
    message: int | None = None,
    plan: int | None = None,
) -> int | None:
    """Queue a run inside a transaction and return its key; None if a run of this `cause` exists ("": never).

    A run of a plan or service belongs to the agent that its options name, else to `nexus` if that is in a space.
    """
    if entity is None:
        entity = _find_agent(db, options.get("agent", ""))
    if cause:
        db.lock(f"cause {cause}")
    existing = f"SELECT 1 FROM runs WHERE cause = ? AND cause <> '' AND ({db.own_run} OR message = ?)"
    if cause and db.one(existing, cause, message):
        return None
    key = db.insert(
        "INSERT INTO runs (state, type, title, run_trigger, options, cause, entity, space, message, plan, created,"
        f" updated) VALUES ('{QUEUED}', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        kind,
        _line(title),
        _json(trigger),
        _json(options),
        cause,
        entity,
        space,
        message,
        plan,
        at,
        at,
    )
    db.notify()
    return key


def cancel_run(db: Database, key: int, at: str) -> None:
    """Cancel a run that has not ended, inside a transaction."""
    db.run(
        f"UPDATE runs SET state = '{CANCELLED}', fence = fence + 1, waits = '', wake_at = NULL, owner = '',"
        " cost = coalesce(cost, (SELECT nullif(s.cost, 0.0) FROM sessions s WHERE s.id = runs.session)),"
        f" lease = NULL, updated = ? WHERE key = ? AND {OPEN}",
        at,
        key,
    )
    signal_unanswered(db, key, at)
    db.notify()


def _find_agent(db: Database, name: str) -> int | None:
    member = "" if name else " AND EXISTS (SELECT 1 FROM members m WHERE m.entity = entities.key)"
    by_author = f" AND (made_by = current_user OR folded = '{AGENT_NAME}')" if db.is_shared else ""
    key: int | None = db.value(
        f"SELECT key FROM entities WHERE folded = ? AND kind = '{AGENT}'{member}{by_author}",
        fold_name(name or AGENT_NAME),
    )
    return key


def apply_memo(db: Database, lane: int, memo: Memo) -> None:
    """Let the run of a session wait, or take its signals, in the transaction of the entry that shows it."""
    if memo.kind == WAIT:
        _suspend(db, lane, memo)
    else:
        _take(db, memo.value["run"], memo.value["signals"], memo.at)


def _take(db: Database, run: int, signals: Sequence[int], at: str) -> None:
    for key in signals:
        db.run("UPDATE signals SET taken = 1 WHERE key = ? AND run = ?", key, run)
    db.run(
        "UPDATE runs SET waits = '', wake_at = NULL, resumes = resumes + ?, updated = ? WHERE key = ?",
        int(bool(signals)),
        at,
        run,
    )


def _suspend(db: Database, lane: int, memo: Memo) -> None:
    session = db.value("SELECT id FROM sessions WHERE key = ?", lanes.session_of(db, lane)) or ""
    key = db.number(f"SELECT key FROM runs WHERE session = ? AND {OPEN} AND {db.own_run}", session)
    if not key:
        value = memo.value
        key = db.insert(
            "INSERT INTO runs (state, type, title, run_trigger, options, session, entity, created, updated)"
            f" VALUES ('{WAITING}', ?, ?, ?, ?, ?, ?, ?, ?)",
            value["type"],
            _line(value["title"]),
            _json(value["trigger"]),
            _json(value["options"]),
            session,
            value.get("entity"),
            memo.at,
            memo.at,
        )
    _set_waiting(db, key, Wait.from_json(memo.value["wait"]), memo.at)


def _set_waiting(db: Database, key: int, wait: Wait, at: str) -> None:
    db.run(  # signals of a wait that this one replaces; a resumed run waits for nothing
        "UPDATE signals SET taken = 1 WHERE run = ? AND (SELECT waits FROM runs WHERE key = ?) <> ''", key, key
    )
    db.run(
        f"UPDATE runs SET state = '{WAITING}', waits = ?, wake_at = ?, owner = '', lease = NULL, updated = ?"
        " WHERE key = ?",
        _json(to_json_value(wait)),
        wait.until,
        at,
        key,
    )
    if wait.kind == "reply":  # the reply may have come between the message and the wait
        signal_earlier_replies(db, key, wait, at)
    db.notify()


def _folder(run: Run) -> str:
    return os.path.realpath(run.options.get("folder") or os.path.expanduser("~"))


def _run(row: Sequence[Any]) -> Run:
    """Return the run of a row of `_COLUMNS` and its principal, which are the fields of `Run` in order."""
    stored = dict(zip((field_.name for field_ in fields(Run)), row, strict=True))
    trigger = json.loads(stored["trigger"])
    options = read_options(stored["options"])
    waits = Wait.from_json(json.loads(stored["waits"])) if stored["waits"] else None
    return Run(**stored | {"trigger": trigger, "options": options, "waits": waits})


def _line(text: str) -> str:
    return clip_text(" ".join(text.replace("\0", "\ufffd").split()), TITLE)


def _json(value: JsonObject) -> str:
    return json.dumps(dict(value))
