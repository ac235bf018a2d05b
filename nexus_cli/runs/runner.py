"""`Runner`: checks the waits of runs, claims the runs that are due, and drives several of them at once.

Several runners may work over one ledger, on this machine or on others: each run is driven by only one at a time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Approver
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event, Notice
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import Provider, close_if_closable
from nexus_cli.core.run import RUNNING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.provider.available_models import resolve_alias, unnamed_model
from nexus_cli.provider.retry import make_provider
from nexus_cli.runs.drive import LEASE, RunDriver
from nexus_cli.runs.run_kind import RunHooks, RunProducer
from nexus_cli.runs.service_triggers import begin_service
from nexus_cli.runs.unattended import look_back
from nexus_cli.runs.watch_waits import WaitWatch, is_on_other_machine
from nexus_cli.spaces.space_history import begin_space_run, end_space_run

HOOKS: Mapping[str, RunHooks] = {
    "plan": RunHooks(end=look_back),
    "service": RunHooks(begin_service, look_back),
    "space_message": RunHooks(begin_space_run, end_space_run),
}
"""Hooks by type of trigger. Every other type belongs to a plain session that began to wait."""
AT_ONCE = 4
"""Runs that a runner drives at the same time."""
MOST = 100
"""Maximum number of runs that one query for candidates returns."""
SLICE = 1.0
"""Seconds of one wait for a change: the end of a process is delayed by no more."""
LONGEST_SLEEP = 15.0
"""Most seconds between two passes: the end of a lease is not a change."""
PAUSE = 0.02
"""Seconds after a change before the pass, so that simultaneous changes are handled together."""
RETRY_SECONDS = 2.0
"""Seconds before another attempt at a run that could not be claimed: a person has its session open, or its agent works
on another one."""
HELD_BACK_SECONDS = 60.0
"""Seconds before another look at a run that was held back, unless another run ends first."""
FAILED_SECONDS = 30.0
"""Seconds before another attempt at a run whose state could not be recorded, for example because the disk is full."""
STEP_SECONDS = 60.0
"""Seconds that running turns have to finish their step when the runner ends."""


class Runner:
    """Drives the due runs of one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        producers: Sequence[RunProducer] = (),
        hooks: Mapping[str, RunHooks] = HOOKS,
        holds_back: Callable[[Ledger, Run], str] = lambda ledger, run: "",
        provider: Provider | None = None,
        settings: Settings | None = None,
        at_once: int = AT_ONCE,
        show: Callable[[Run, Event], None] = lambda run, event: None,
        person: Approver | None = None,
        changed: Callable[[Run], None] | None = None,
    ) -> None:
        """Watch `ledger`, which stays open; each run that is driven has its own connection.

        `producers` queue due runs before each pass. `hooks` are by type of trigger. `holds_back` returns
        the reason that a due run must not start now, "" if it may (the spending cap of a day). Without `provider` the
        runner makes one for all models, which `aclose` closes; without `settings` each run has those of its folder.
        `show` gets the events of every run, `changed` each run when it starts and when it has ended or waits. Without
        a `person` a run waits for each approval.
        """
        self._ledger = ledger
        self._producers, self._hooks = producers, hooks
        self._holds_back, self._provider, self._settings = holds_back, provider, settings
        self._at_once, self._show, self._person = at_once, show, person
        self._changed = changed
        self._own_provider: Provider | None = None
        """The provider, if this one made it."""
        self._watch = WaitWatch()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """By key of the run, like `_drivers`."""
        self._drivers: dict[int, RunDriver] = {}
        self.cut = set[int]()
        """Keys of the runs that a limit stopped."""
        self._later: dict[int, float] = {}
        """Runs that are skipped until a time of the monotonic clock."""
        self._held_back = set[int]()
        """Those of `_later` that were held back."""

    async def run_due(self, **filters: Any) -> list[Run]:
        """Drive due runs until none is left, or only those that `filters` (`key`, `entity`, ...) allow; return them."""
        driven: dict[int, None] = {}
        while True:
            await self._look()
            driven |= dict.fromkeys(self._take_due(filters))
            if not (under_way := [*self._tasks.values(), *self._watch.open.values()]):
                return [self._ledger.runs.get(key) for key in driven]
            while not (await asyncio.wait(under_way, timeout=SLICE, return_when=asyncio.FIRST_COMPLETED))[0]:
                with suppress(NexusError):  # a server may come back before there is something to record
                    self._stop_lost()

    async def serve(self, stop: asyncio.Event, **filters: Any) -> None:
        """Drive due runs until `stop` is set; then let running turns finish their step. `filters` as in `run_due`."""
        ended = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                wake = await self._look()
                self._take_due(filters)
                await self._wait(wake, ended)
                self._stop_lost()
        finally:
            ended.cancel()
        for driver in self._drivers.values():
            driver.end_after_step()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=STEP_SECONDS)

    async def aclose(self) -> None:
        """Stop the runs, for another runner to resume, and close what this runner opened. May be called twice."""
        for driver in self._drivers.values():
            driver.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self._watch.close()
        provider, self._own_provider = self._own_provider, None
        await close_if_closable(provider)

    # Watching

    async def _look(self) -> float | None:
        """Queue due runs and signal waits that are over. Return the seconds until the next look, None: at a change."""
        seconds = [await self._watch.look(self._ledger)]
        for producer in self._producers:
            moment = await producer.look(self._ledger)
            seconds.append(None if moment is None else max(0.0, moment - self._ledger.runs.now()))
        return min((second for second in seconds if second is not None), default=None)

    async def _wait(self, wake: float | None, ended: asyncio.Task[Any]) -> None:
        """Wait for something to do: a change of the ledger, a time, the end of a run."""
        begin = time.monotonic()
        times = [LONGEST_SLEEP, *(moment - begin for moment in self._later.values())]
        end = begin + min(times if wake is None else [*times, wake])
        while (remaining_seconds := end - time.monotonic()) > 0:
            change = asyncio.create_task(
                asyncio.to_thread(self._ledger.db.wait_for_change, min(remaining_seconds, SLICE))
            )
            under_way = [change, ended, *self._tasks.values(), *self._watch.open.values()]
            finished, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if finished != {change}:
                await change
                return
            if change.result():
                await asyncio.sleep(PAUSE)
                return

    def _stop_lost(self) -> None:
        """Stop the runs that were cancelled or that another process has claimed; end paused ones after their step."""
        fences = {key: driver.run.fence for key, driver in self._drivers.items()}
        for key in self._ledger.runs.lost(fences) if fences else ():
            self._drivers[key].stop()
        for run in self._ledger.runs.list_runs([RUNNING], MOST) if fences else ():
            if run.is_paused and run.key in fences:
                self._drivers[run.key].end_after_step()

    # Claiming

    def _take_due(self, filters: JsonObject) -> list[int]:
        """Claim due runs as far as there is room; return their keys."""
        claimed = list[int]()
        while len(self._tasks) < self._at_once and (runs := self._candidates(filters)):
            for run in runs:
                if len(self._tasks) >= self._at_once:
                    break
                if run.is_paused:
                    self._postpone(run, RETRY_SECONDS)
                elif is_on_other_machine(self._ledger, run):
                    self._postpone(run, HELD_BACK_SECONDS)
                elif self._holds_back(self._ledger, run):
                    self._held_back.add(run.key)
                    self._postpone(run, HELD_BACK_SECONDS)
                elif self._ledger.runs.is_folder_busy(run):
                    self._held_back.add(run.key)
                    self._postpone(run, RETRY_SECONDS)
                elif self._take(run):
                    claimed.append(run.key)
                else:
                    self._postpone(run, RETRY_SECONDS)
        return claimed

    def _postpone(self, run: Run, seconds: float) -> None:
        """Postpone the next look at a run."""
        self._later[run.key] = time.monotonic() + seconds

    def _candidates(self, filters: JsonObject) -> list[Run]:
        """Return the runs to claim, oldest first: due ones, and those whose owner is gone."""
        runs, ledger, present = self._ledger.runs, self._ledger, time.monotonic()
        self._later = {key: moment for key, moment in self._later.items() if moment > present}
        skipped = self._tasks.keys() | self._later.keys()
        candidates = {run.key: run for run in runs.due(MOST, skipped, **filters)}
        for run in runs.list_runs([RUNNING], MOST, **filters):
            if run.key not in candidates and run.key not in skipped and ledger.lock(run.id):
                ledger.unlock(run.id)
                candidates[run.key] = run
        return [run for _, run in sorted(candidates.items())]

    def _take(self, run: Run) -> bool:
        """Claim a run and start driving it; False if it cannot be claimed."""
        connection = self._ledger.reconnect()
        try:
            claimed = _claim(connection, run)
        except BaseException:
            connection.close()
            raise
        if claimed is None:
            connection.close()
            return False
        driver = RunDriver(
            connection,
            claimed,
            self._hooks.get(run.type, RunHooks()),
            lambda folder: self._settings or settings_in(folder),
            self._provider_for,
            _choose_model,
            self._show,
            self._person,
        )
        self._drivers[run.key] = driver
        if self._changed is not None:
            self._changed(claimed)
        task = self._tasks[run.key] = asyncio.create_task(self._drive(driver))
        task.add_done_callback(lambda finished_task: self._forget(run.key))
        return True

    async def _drive(self, driver: RunDriver) -> None:
        try:
            await driver.drive()
            if self._changed is not None:
                self._changed(driver.ledger.runs.get(driver.run.key))
        except NexusError as error:  # nothing more can be recorded about it here
            self._postpone(driver.run, FAILED_SECONDS)
            self._show(driver.run, Notice(error.sentences.removesuffix(".")))
        finally:
            driver.ledger.unlock(driver.run.id)
            driver.ledger.close()

    def _forget(self, key: int) -> None:
        self._tasks.pop(key, None)
        if (driver := self._drivers.pop(key, None)) is not None and driver.was_cut:
            self.cut.add(key)
        for run_key in self._held_back:  # its dollars may be free again
            self._later.pop(run_key, None)
        self._held_back.clear()

    # Shared by the runs

    def _provider_for(self, settings: Settings) -> Provider:
        if self._provider is not None:
            return self._provider
        if self._own_provider is None:
            self._own_provider = make_provider(settings)
        return self._own_provider


def _claim(connection: Ledger, run: Run) -> Run | None:
    """Claim a run over its own connection, which then has the lock; None if it cannot be claimed."""
    is_alone = connection.lock(run.id)
    if is_alone and run.session and not connection.lock(run.session):
        return None  # a person has its session open and resumes it there
    owner = f"{socket.gethostname()}:{os.getpid()}"
    claimed = connection.runs.claim(run.key, owner, LEASE, utc_now(), is_dead=is_alone, is_late=not is_alone)
    if claimed is not None and claimed.session:
        if not is_alone:
            connection.take_over(claimed.session)
        elif not connection.lock(claimed.session):  # it had no session at the first look
            connection.runs.release_claim(claimed, utc_now())
            return None
    return claimed


def _choose_model(name: str, settings: Settings) -> str:
    """Return the model of a run that names `name`, or "" for none; raise `NexusError("config", ...)` if there is
    none."""
    model = resolve_alias(name, settings) if name else unnamed_model(settings)
    if not model:
        why = "neither the run nor the settings specify a model"
        raise NexusError("config", "no model", why, "Run `nexus config set model NAME`")
    return model
