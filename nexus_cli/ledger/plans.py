"""The table of plans: work at one time, or repeatedly. `runs/` decides when a plan is due."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.run import QUEUED, WAITING, Plan, parse_key
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.runs import queue_run
from nexus_cli.ledger.stored_levels import read_options

_COLUMNS = "key, prompt, options, created, cron, zone, missed, next_at, last_at, paused, name"


class PlanTable:
    """The plans of one ledger. Methods that write have committed when they return."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        prompt: str,
        options: JsonObject,
        at: str,
        *,
        next_at: float,
        cron: str = "",
        zone: str = "",
        missed: str = "once",
        name: str = "",
    ) -> Plan:
        """Store a plan whose first time is `next_at`; raise `UsageError` if the name is taken."""
        with self._db.write():
            if name:
                self._db.lock(f"plan {name}")
            if name and self._db.one("SELECT 1 FROM plans WHERE name = ?", name):
                raise UsageError(
                    f"schedule {name!r}", "a schedule with this name already exists", "Choose another name"
                )
            key = self._db.insert(
                "INSERT INTO plans (prompt, name, options, cron, zone, missed, next_at, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                replace_surrogates(prompt).replace("\0", "\ufffd"),
                name,
                json.dumps(dict(options)),
                cron,
                zone,
                missed,
                next_at,
                at,
            )
            self._db.notify()
        return self.get(key)

    def get(self, key: int) -> Plan:
        """Return a plan; raise `UsageError` if it does not exist."""
        plans = self._select("key = ?", key)
        if not plans:
            raise UsageError(f"plan-{key}", "there is no such schedule", "See `nexus schedule list`")
        return plans[0]

    def find(self, text: str) -> Plan:
        """Return a plan by its id or name; raise `UsageError` if there is none, or several have this
        name."""
        if (key := parse_key(text, "plan")) is not None:
            return self.get(key)
        plans = self._select("name = ?", text)
        if len(plans) == 1:
            return plans[0]
        why = "several schedules have this name" if plans else "there is no such schedule"
        raise UsageError(f"schedule {text[:80]!r}", why, "See `nexus schedule list`")

    def list_plans(self) -> list[Plan]:
        """Return all plans, sorted by their next time."""
        return self._select("1 = 1 ORDER BY coalesce(next_at, 1e300), key")

    def due(self, now: float) -> list[Plan]:
        """Return the plans that are due, and cron plans whose last run lies in the future because the clock was set
        back."""
        was_set_back = "cron <> '' AND last_at > ?"
        return self._select(f"paused = 0 AND (next_at <= ? OR ({was_set_back})) ORDER BY next_at, key", now, now)

    def next_time(self) -> float | None:
        """Return the next time of any plan, None if there is none."""
        next_at: float | None = self._db.value("SELECT min(next_at) FROM plans WHERE paused = 0")
        return next_at

    def fire(self, plan: Plan, next_at: float | None, at: str, runs: Sequence[tuple[str, JsonObject]]) -> list[int]:
        """Set a plan's next time and queue its runs, in one transaction; return their keys.

        `runs` are pairs of a cause and a trigger. Nothing happens if another process has already fired the plan. A plan
        with a run that is queued or waits gets no other: that run covers this time too.
        """
        queued: list[int] = []
        with self._db.write():
            row = self._db.one(f"SELECT next_at FROM plans WHERE key = ?{self._db.skip_locked}", plan.key)
            if row is None or row[0] != plan.next_at:
                return []
            self._db.run(f"UPDATE plans SET next_at = ?, last_at = {self._db.now_sql} WHERE key = ?", next_at, plan.key)
            states = f"'{QUEUED}', '{WAITING}'"
            open_run = f"SELECT 1 FROM runs WHERE plan = ? AND state IN ({states}) AND {self._db.own_run}"
            for cause, trigger in () if self._db.one(open_run, plan.key) else runs:
                key = queue_run(
                    self._db, "plan", plan.name or plan.prompt, trigger, plan.options, at, cause=cause, plan=plan.key
                )
                queued += [] if key is None else [key]
        return queued

    def change(self, key: int, *, paused: bool | None = None, next_at: float | None = None) -> Plan:
        """Pause or resume a plan, and set its next time."""
        with self._db.write():
            update = "UPDATE plans SET paused = coalesce(?, paused), next_at = coalesce(?, next_at) WHERE key = ?"
            self._db.run(update, None if paused is None else int(paused), next_at, key)
            self._db.notify()
        return self.get(key)

    def remove(self, key: int) -> None:
        """Remove a plan; its runs stay."""
        with self._db.write():
            self._db.run("DELETE FROM plans WHERE key = ?", key)
            self._db.notify()

    def _select(self, condition: str, *values: Any) -> list[Plan]:
        rows = self._db.all(f"SELECT {_COLUMNS} FROM plans WHERE {condition}", *values)
        return [
            Plan(*(key, prompt, read_options(options), *columns, bool(paused), name))
            for key, prompt, options, *columns, paused, name in rows
        ]
