"""Run one turn for each item of `nexus map`, several at once, and print a JSON line for each.

Every item has its own session; all share one ledger, one provider and the beginning of their requests. The first runs
alone until its reply begins, so that the provider has cached that beginning for the others.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nexus_cli.cli import process
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.open_files import raise_file_limit
from nexus_cli.cli.run.map_journal import MapJournal, MapLine, item_key
from nexus_cli.cli.run.run_turn import session_options
from nexus_cli.config.paths import places, private_dir
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import local_now
from nexus_cli.core.elide import cut_at_word, one_line, plural
from nexus_cli.core.errors import ErrorObject, NexusError
from nexus_cli.core.event import Outcome, StepEnd, Text, Thinking, ToolQueue, ToolResultEvent, TurnEnd
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import Limits
from nexus_cli.core.progress import report_share
from nexus_cli.core.request import close_if_closable
from nexus_cli.core.usage import round_dollars
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.provider.retry import make_provider
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.open_session import open_ledger
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.ui.input.items import read_item
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.print.progress_bar import progress_bar
from nexus_cli.ui.print.stream import ReaderClosed, Stream, write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.cli.command_options import SharedOptions
    from nexus_cli.cli.run.map_options import MapOptions
    from nexus_cli.cli.work_folder import WorkFolder
    from nexus_cli.config.settings import Settings


LEAST = 1e-9
"""Reserved in dollars if nothing is left: its turn is refused before its first request."""


class MapBudget:
    """Dollars spent and reserved; without a limit it reserves nothing."""

    def __init__(self, limit: float | None, jobs: int) -> None:
        self.error: NexusError | None = None
        """The error of every further item once the limit is reached."""
        self._limit, self._jobs = limit, jobs
        self._spent = self._dearest = 0.0
        self._reserved: list[float] = []
        self._turnstile = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def reserve(self, *, alone: bool) -> AsyncIterator[float | None]:
        """Reserve dollars for an item and yield the amount, None without a limit.

        The item gets an equal share of the remaining dollars; if `alone`, or if that share may be too small, it gets
        all of them once no other item runs.
        """
        if self._limit is None:
            yield None
            return
        async with self._turnstile:
            share = self._subtract_spent(self._limit) / max(1, self._jobs - len(self._reserved))
            if alone or share <= 2 * self._dearest:
                await self._idle.wait()
                share = self._subtract_spent(self._limit)
            share = max(share, LEAST)
            self._reserved.append(share)
            self._idle.clear()
        try:
            yield share
        finally:
            self._reserved.remove(share)
            if not self._reserved:
                self._idle.set()

    def _subtract_spent(self, limit: float) -> float:
        return limit - self._spent - sum(self._reserved)

    def spend(self, cost: float | None) -> None:
        """Add the cost of an item, within its reservation."""
        self._spent += cost or 0.0
        self._dearest = max(self._dearest, cost or 0.0)

    def refused(self, outcome: Outcome) -> bool:
        """Return True if the reservation was too small for the first request of a turn, so that nothing was sent."""
        error = outcome.error or {"kind": "", "message": ""}
        is_limit = error["kind"] == "limit" and "max_cost" in error["message"]
        return self._limit is not None and is_limit and not outcome.steps

    def end(self) -> NexusError:
        """Let all further items fail: the remaining dollars do not pay for an item. Return the error of each."""
        remaining = max(0.0, (self._limit or 0.0) - self._spent)
        why = f"${remaining:.4f} is left, but the next item could cost more"
        self.error = NexusError("limit", "not started: max_cost is too low", why, "Continue with a higher --max-cost")
        return self.error


RECIPE = "map"
FATAL = ("auth", "config")
"""Kinds of error that every item would have: they end the run."""
TEMPORARY = ("network", "provider", "rate_limit", "overloaded")
"""Kinds of error that other items will probably have too."""
MAX_FAILURES_IN_A_ROW = 8
"""Items in a row with such errors that end the run."""
NOTICES = 20
"""Most notices that are printed, each once."""
PREFERRED_OPEN_FILES = 1024
FILES, FILES_EACH = 16, 4
"""Open files of the process, and most of an item."""
SHOW_CURSOR = b"\x1b[?25h"


@dataclass(frozen=True, slots=True)
class PreparedMap:
    """A run of `nexus map` that is ready to start."""

    options: MapOptions
    shared: SharedOptions
    items: list[str]
    schema: str
    """The JSON Schema that every answer has to match."""
    settings: Settings
    work: WorkFolder
    model: str


def run_map(run: PreparedMap) -> int:
    """Run all items and return the exit status. Raises `NexusError` for errors that no item has caused."""
    journal = MapJournal(Path(run.options.resume_file) if run.options.resume_file else _default_path(run))
    mapping = _Map(run, journal)
    out = Stream(1)
    try:
        if out.terminal:  # the lines show the progress
            return run_in_loop(mapping.run(out))
        with progress_bar(f"{len(run.items):,} items"):
            return run_in_loop(mapping.run(out))
    finally:
        mapping.end()
        run.work.leave()


def _default_path(run: PreparedMap) -> Path | None:
    """Return a new file in the cache folder, None if nothing is to be saved."""
    if run.shared.no_save:
        return None
    try:
        folder = private_dir(places().cache / "map")
    except OSError:
        return None
    return folder / f"{local_now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}.jsonl"


@dataclass
class _Lines:
    """Prints results in the order of the items, or as they come."""

    out: Stream
    journal: MapJournal
    unordered: bool
    ready: dict[int, tuple[str, MapLine, bool]] = field(default_factory=dict)
    """Results that wait for an earlier one, by number: the key of the journal, the line, and True for an item that
    occurs again."""
    paid: set[str] = field(default_factory=set)
    """Keys of the answers that were printed with their cost."""
    next: int = 0

    def add(self, number: int, key: str, line: MapLine, *, again: bool) -> None:
        """Print a result when its turn has come."""
        self.ready[number] = (key, line, again)
        if self.unordered:
            self._print(number)
        while self.next in self.ready:
            self._print(self.next)
            self.next += 1

    def flush(self) -> None:
        """Print what waits for items that have not finished."""
        for number in sorted(self.ready):
            self._print(number)

    def _print(self, number: int) -> None:
        key, map_line, again = self.ready.pop(number)
        if again or key in self.paid:
            map_line = {**map_line, "cost_usd": 0.0}
        if key in self.journal.answered:
            self.paid.add(key)
        self.out.write(json_text(map_line, escaped=self.out.terminal) + "\n")


class _Map:
    """One run of `nexus map`."""

    def __init__(self, run: PreparedMap, journal: MapJournal) -> None:
        self._run, self._journal = run, journal
        limits = Limits(max_steps=run.options.max_steps, timeout=run.options.timeout)
        self._options = session_options(
            run.shared, run.settings, run.work, run.model, limits=limits, cache_key=secrets.token_hex(13)
        )
        self._options = replace(self._options, recipe=run.shared.recipe or RECIPE)
        self._budget = MapBudget(run.options.max_cost, run.options.jobs)
        self._provider = make_provider(run.settings)
        self._ledger: Ledger | None = None
        self._running: dict[str, list[int]] = {}
        """Numbers of the items of each key that is being asked: the list of an item is behind all keys that it had."""
        self._changed_keys: dict[str, str] = {}
        """Of these keys, those whose session has changed the file of the item: the key of its present content."""
        self._workers: dict[asyncio.Task[None], Session | None] = {}
        self._warming = asyncio.Lock()
        self._is_warm = False
        self._interrupt = Interrupt()
        self._problem: NexusError | ReaderClosed | None = None
        """What ended the run before its last item."""
        self._stopped = False
        self._finished = self._failed = self._failures = 0
        self._error = ""
        self._shown_notices: set[str] = set()

    async def run(self, out: Stream) -> int:
        """Run the items and return the exit status."""
        run = self._run
        self._lines = _Lines(out, self._journal, run.options.unordered)
        notices: list[str] = []
        if self._options.save:  # before signals cancel items: Ctrl+C ends a wait for its server
            self._ledger = open_ledger(self._options, notices)
        self._interrupt.install(self._stop, before_exit=self._restore_terminal)
        try:
            self._print_notices(notices)
            numbers = iter(range(len(run.items)))
            workers = min(run.options.jobs, len(run.items), self._max_parallel())
            tasks = [asyncio.create_task(self._work(numbers)) for _ in range(workers)]
            self._workers = dict.fromkeys(tasks)
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
            try:
                self._lines.flush()
            except (ReaderClosed, NexusError) as problem:
                self._problem = self._problem or problem
        finally:
            self._interrupt.uninstall()
            await close_if_closable(self._provider)
            if self._ledger is not None:
                self._ledger.close()
        if isinstance(self._problem, NexusError):
            write_stderr_line(self._problem.line)
            return self._problem.exit_status
        return self._interrupt.status if self._interrupt.signal else 3 if self._failed else 0

    def end(self) -> None:
        """Close the resume file, or delete it if it has no further use; print how the run ended."""
        run = self._run
        count, unfinished = len(run.items), len(run.items) - self._finished
        if self._failed:
            write_stderr_line(f"nexus: {self._failed:,} of {plural(count, 'item')} failed; first error: {self._error}")
        if unfinished and (self._finished or self._interrupt.signal):
            write_stderr_line(f"nexus: stopped after {self._finished:,} of {plural(count, 'item')}.")
        if (unfinished or self._failed) and self._journal.answered:
            write_stderr_line(self._resume_line())
        elif not run.options.resume_file:
            self._journal.remove()
        self._journal.close()

    def _resume_line(self) -> str:
        if self._journal.path is None:
            return "The answers were not saved; add --resume FILE to save those of the next run"
        resume_option = "" if self._run.options.resume_file else f" and --resume {shlex.quote(str(self._journal.path))}"
        return f"Resume with: the same command{resume_option}"

    def _max_parallel(self) -> int:
        """Return the number of items that the limit of open files allows; without them an item would lack its
        instructions."""
        files = raise_file_limit(PREFERRED_OPEN_FILES)
        count = max(1, (files - FILES) // FILES_EACH)
        if count < min(self._run.options.jobs, len(self._run.items)):
            self._print_notices([f"limited to {plural(count, 'item')} at once: ulimit -n allows {files} open files"])
        return count

    def _restore_terminal(self) -> None:
        if Stream(2).colour:
            with suppress(OSError):
                os.write(2, SHOW_CURSOR)
        write_stderr_line(self._resume_line())

    def _print_notices(self, notices: list[str], item: str = "") -> None:
        """Print notices, each once, also if it is about several items: then it names the first."""
        for notice in notices:
            if not self._run.shared.quiet and notice not in self._shown_notices and len(self._shown_notices) < NOTICES:
                self._shown_notices.add(notice)
                write_stderr_line(f"nexus: {_name_item(item, notice) if item else notice}")

    def _stop(self) -> None:
        """Stop all items; what was done is kept."""
        self._stopped = True
        for task, session in self._workers.items():
            if session is not None:
                session.cancel(process.find_stopper(self._interrupt.signal))
            else:
                task.cancel()

    async def _work(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            try:
                await self._process_item(number)
            except (NexusError, ReaderClosed) as problem:
                self._problem = self._problem or problem
                self._stop()
            except Exception:
                self._stop()
                raise
            if self._stopped:
                return

    async def _process_item(self, number: int) -> None:
        """Take the result of an item from the resume file, or ask for it."""
        run = self._run
        item = run.items[number]
        try:
            trigger, notice = await self._read(item)
        except NexusError as error:
            self._finish([number], "", _failed(item, error))
            return
        self._print_notices([notice] if notice else [])
        trigger = replace(trigger, schema=run.schema)
        key = item_key(item, trigger, self._settings())
        if key in self._journal.answered:
            self._finish([number], key, self._journal.answered[key])
        elif key in self._running:
            self._running[key].append(number)
        elif self._budget.error is not None:
            self._finish([number], "", _failed(item, self._budget.error))
        else:
            numbers_of_key = self._running[key] = [number]
            try:
                line = await self._ask(key, item, trigger)
            finally:
                self._running = {
                    running_key: numbers
                    for running_key, numbers in self._running.items()
                    if numbers is not numbers_of_key
                }
            if line is not None:
                key = self._changed_keys.pop(key, key)
                self._journal.add(key, line)
                self._finish(sorted(numbers_of_key), key, line)

    async def _read(self, item: str) -> tuple[Trigger, str]:
        """Return the message of an item, and a notice about its file. Raises `UsageError` if that cannot be read."""
        options = self._run.options
        return await asyncio.to_thread(read_item, options.prompt, item, is_file=bool(options.files))

    async def _follow_change(self, key: str, item: str, session: Session, changed: tuple[str, ...]) -> None:
        """Note the new key of an item if its own session changed its file, which does not make it a new item."""
        if not (changed and self._run.options.files):
            return
        try:
            trigger, _ = await self._read(item)
        except NexusError:  # the session deleted the file
            return
        root = session.dispatcher.project_root
        if os.path.realpath(trigger.files[0].path) in {os.path.realpath(root / name) for name in changed}:
            self._changed_keys[key] = item_key(item, trigger, self._settings())
            self._running.setdefault(self._changed_keys[key], self._running[key])
            if self._ledger is not None:
                self._journal.begin(self._changed_keys[key], item, session.id)

    def _settings(self) -> JsonObject:
        """Return the other inputs of a result: another value makes it another item."""
        options, schema = self._options, self._run.schema
        return {
            "model": options.model,
            "effort": options.effort,
            "recipe": options.recipe,
            "no_tools": options.no_tools,
            "schema": schema,
        }

    def _finish(self, numbers: list[int], key: str, line: MapLine) -> None:
        self._finished += len(numbers)
        if line["error"] is not None:
            self._failed += len(numbers)
            self._error = self._error or _name_item(line["item"], line["error"]["message"])
        report_share(self._finished / len(self._run.items))
        for number in numbers:
            self._lines.add(number, key, line, again=number != numbers[0])

    async def _ask(self, key: str, item: str, trigger: Trigger) -> MapLine | None:
        """Ask for the result of one item; None if it was stopped. Raises `NexusError` for errors of every item."""
        async with self._warm_up() as note_reply:
            for alone in (False, True):
                async with self._budget.reserve(alone=alone) as share:
                    result = await self._run_session(key, item, trigger, share, note_reply)
                if result is None or not self._budget.refused(result[0]):
                    break
                self._journal.begun.pop(key, None)
            else:
                return _failed(item, self._budget.end())
        if result is None or (self._stopped and not result[0].ok):
            return None
        outcome, cost = result
        error = outcome.error
        self._failures = self._failures + 1 if error and error["kind"] in TEMPORARY else 0
        if error and (error["kind"] in FATAL or self._failures >= MAX_FAILURES_IN_A_ROW):
            subject, _, why = error["message"].partition(": ")
            raise NexusError(error["kind"], subject, why, error["hint"])
        return {
            "item": item,
            "ok": outcome.ok,
            "text": outcome.text,
            "data": outcome.data,
            "cost_usd": None if cost is None else round_dollars(cost),
            "error": cast("ErrorObject | None", error),
        }

    @asynccontextmanager
    async def _warm_up(self) -> AsyncIterator[Callable[[], None]]:
        """Wait while another item warms the cache; yield what to call when the reply begins."""
        is_locked = not self._is_warm and await self._warming.acquire()

        def release() -> None:
            nonlocal is_locked
            if is_locked:
                is_locked = False
                self._warming.release()

        def note_reply() -> None:
            self._is_warm = True
            release()

        if self._is_warm:
            release()
        try:
            yield note_reply
        finally:
            release()

    async def _run_session(
        self, key: str, item: str, trigger: Trigger, share: float | None, note_reply: Callable[[], None]
    ) -> tuple[Outcome, float | None] | None:
        """Run the turn of an item; return its outcome and the cost of its session in US dollars, None if stopped."""
        if self._stopped:
            return None
        task = asyncio.current_task()
        assert task is not None
        ledger = self._ledger or open_ledger(self._options, [])
        session: Session | None = None
        try:
            session, next_trigger = await self._open_session(key, trigger, share, ledger)
            self._workers[task] = session
            if self._ledger is not None:
                self._journal.begin(key, item, session.id)
            return await self._run_turn(session, key, item, next_trigger, note_reply)
        finally:
            if session is not None:
                await session.aclose()
            self._workers[task] = None
            if self._ledger is None:
                ledger.close()

    async def _run_turn(
        self, session: Session, key: str, item: str, trigger: Trigger | Outcome, note_reply: Callable[[], None]
    ) -> tuple[Outcome, float | None] | None:
        """Run a turn with `trigger`; run none if `trigger` is already an outcome."""
        before = session.costs()[1]
        if isinstance(trigger, Outcome):
            return trigger, session.costs()[0]
        lines = NoticeLines(_ItemNotices(item, self._print_notices), quiet=self._run.shared.quiet)
        lines.session = session
        self._print_notices(session.take_notices())
        outcome: Outcome | None = None
        async for event in session.run(trigger):
            if isinstance(event, Text | Thinking | ToolQueue | StepEnd):
                note_reply()
            if isinstance(event, ToolResultEvent):
                await self._follow_change(key, item, session, event.result.changed)
            if isinstance(event, TurnEnd):
                outcome = event.outcome
            if outcome is None or outcome.ok:
                lines.feed(event)
        cost, known_cost, _ = session.costs()
        self._budget.spend(known_cost - before)
        return None if outcome is None else (outcome, cost)

    async def _open_session(
        self, key: str, trigger: Trigger, share: float | None, ledger: Ledger
    ) -> tuple[Session, Trigger | Outcome]:
        """Open the session of an item, perhaps a former one; return it with its trigger, or the outcome that it has."""
        options = replace(self._options, limits=replace(self._options.limits, max_cost=share))

        def opened(options: Options) -> Session:
            return open_session(
                options,
                self._run.settings,
                approver=None,
                provider=self._provider,
                ledger=ledger,
                services=SERVICES,
            )

        begun = self._journal.begun.get(key)
        if begun and self._ledger is not None:
            with suppress(NexusError):  # deleted, or open elsewhere
                session = opened(replace(options, resume=begun))
                conversation = session.conversation
                if not conversation.items:
                    return session, trigger
                if not conversation.next_step().is_done:
                    return session, Trigger(schema=trigger.schema)
                if not conversation.log.ends_unfinished():  # else the answer would lack its beginning
                    answer = _make_outcome(conversation.items[-1].message.content, trigger.schema)
                    if answer.ok:
                        return session, answer
                await session.aclose()
        return opened(options), trigger


def _make_outcome(text: str, schema: str) -> Outcome:
    """Return the outcome of a complete reply, which is not ok if it does not match the schema."""
    outcome = Outcome(text=text)
    if not schema:
        return outcome
    from nexus_cli.session.answer_schema import AnswerSchema  # noqa: PLC0415  (few runs have a schema)

    attempt = AnswerSchema(schema).read_answer(text)
    return replace(outcome, ok=not attempt.problems, text=attempt.text, data=attempt.data)


class _ItemNotices:
    """A stream for the notices of one item, each of which names it."""

    terminal = colour = False
    width = 80

    def __init__(self, item: str, tell: Callable[[list[str], str], None]) -> None:
        self._item, self._print_notices = item, tell

    def write(self, text: str) -> None:
        """Print a line."""
        self._print_notices([text.strip().removeprefix("nexus: ")], self._item)


def _name_item(item: str, text: str) -> str:
    """Return `text` with the name of the item that it is about, cut to one line."""
    return text if text.startswith((f"{item}:", f"{item} is ")) else f"{cut_at_word(one_line(item), 80)}: {text}"


def _failed(item: str, error: NexusError) -> MapLine:
    """Return the line of an item that was not asked."""
    return {"item": item, "ok": False, "text": "", "data": None, "cost_usd": 0.0, "error": error.to_json()}
