"""A session of this process behind the REPL, with what only such a session has: shell lines, titles, sleeping runs, the
question after a plan."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.commands import discover
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.config.paths import places
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.sessions import last_exchange
from nexus_cli.reports.transcript import session_transcript
from nexus_cli.session.acts.title import make_title, wants_title
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.repl.cold_request_watch import ColdRequestWatch
from nexus_cli.ui.repl.git_branch import read_branch
from nexus_cli.ui.repl.initial_estimate import InitialEstimate
from nexus_cli.ui.repl.input_queue import Attachment
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.last_turns import CUT_SHORT, can_continue
from nexus_cli.ui.repl.personal_command import StatusCommand
from nexus_cli.ui.repl.plan_hand_over import PlanHandOver
from nexus_cli.ui.repl.shell_line import Shell, ShellLine
from nexus_cli.ui.repl.sleeping_run import SleepingRun, describe_wait
from nexus_cli.ui.repl.waiting_runs import WaitingRuns

if TYPE_CHECKING:
    from nexus_cli.ui.repl.repl import Repl

SHELL_OUTPUTS = 100
"""Most outputs of `!` lines that are kept for the transcript."""


COUNTING = 0.3
"""Most seconds in which the changed lines of a turn are counted at its end."""


class LocalSession:
    """Implements `ReplBackend`: one session after another: a command can open the next one."""

    ends_with_repl = True

    def __init__(self, session: Session) -> None:
        self.session = session
        self.desk: CommandContext
        """The `CommandContext` of the commands; set once after construction."""
        self.after_turn: Callable[[], Awaitable[None]] | None = None
        """Awaited when the next turn has ended."""
        self._status: Status | None = None
        self._branch = ""
        self._own_commands: Mapping[str, Command] = {}
        self._uncallable: Mapping[str, str] = {}
        self._reading: asyncio.Task[None] | None = None
        self._shell_outputs: deque[dict[str, Any]] = deque(maxlen=SHELL_OUTPUTS)
        """Outputs of `!` lines for the transcript, each with the newest entry at its time."""

    def connect(self, repl: Repl) -> None:
        """Serve `repl`, which was made with this backend."""
        self.repl = repl
        self._shell = Shell(repl.view, self._keep_output, repl.input_queue.attached.append)
        self._sleeping = SleepingRun(
            lambda: self.session, repl.jobs, self.run, lambda: repl.outcome, repl.show_note, repl.view.invalidate
        )
        self._hand_over = PlanHandOver(lambda: self.session, repl.view, repl.jobs, repl.input_queue, repl.show_note)
        self.share_attachments()
        self._runs = WaitingRuns(lambda: self.session, repl.show_note, repl.view.invalidate)
        self._first = InitialEstimate(repl.jobs.start_background, repl.refresh_status)
        self._cold = ColdRequestWatch(
            repl.jobs.start_background, repl.refresh_status, lambda line: repl.show_note(line, "warn")
        )

        self._own_status = StatusCommand(repl.jobs.start_background, repl.view.invalidate)

    def read_own_commands(self) -> None:
        """Begin to read the commands of the person and the project."""
        self._reading = self.repl.jobs.start_background(self._read_own_commands(tells=True))

    async def _read_own_commands(self, *, tells: bool = False) -> None:
        """Read the commands of the person and the project; `tells` of those whose name is taken, once."""
        known = await asyncio.to_thread(discover)  # imports every command: a key that is typed meanwhile is shown
        from nexus_cli.commands.own_guides import describe_taken, own_commands  # noqa: PLC0415  (after the start)
        from nexus_cli.config.unsupported import is_news  # noqa: PLC0415  (after the start)
        from nexus_cli.sections.skills import explain_uncallable  # noqa: PLC0415  (after the start)

        self._uncallable = await asyncio.to_thread(explain_uncallable, self.folder)
        self._own_commands = await asyncio.to_thread(own_commands, self.folder, known)
        self.repl.offer_commands()
        if (
            tells
            and (line := await asyncio.to_thread(describe_taken, self.folder, known))
            and await asyncio.to_thread(is_news, f"names:{os.path.realpath(self.folder)}", line)
        ):
            self.repl.show_note(line)

    def share_attachments(self) -> None:
        """Connect the session with the pending attachments and its workers, and queue attachments stored in it."""
        attached = self.repl.input_queue.attached
        there = {one.text for one in attached}
        attached[:0] = [
            Attachment(text, what) for text, what in self.session.attached_texts.load() if text not in there
        ]
        self.session.attached_texts.count_pending(lambda: [one.text for one in attached])
        self.session.listen(self.repl.feed)

    @property
    def commands(self) -> Mapping[str, Command]:
        return {**self._own_commands, **discover()}

    @property
    def uncallable(self) -> Mapping[str, str]:
        return self._uncallable

    @property
    def reading_commands(self) -> asyncio.Task[None] | None:
        return self._reading if self._reading is not None and not self._reading.done() else None

    @property
    def folder(self) -> Path:
        return self.session.folder

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def last_answer(self) -> str:
        return str(last_exchange(self.session).get("assistant") or "")

    @property
    def output(self) -> str:
        return self._shell.output

    @property
    def undelivered(self) -> Sequence[str]:
        return self.session.undelivered

    @property
    def working(self) -> Sequence[str]:
        workers = self.session.workers
        return workers.running() if workers is not None else ()

    def release_workers(self) -> list[str]:
        self.session.engine.control.release_commands()
        workers = self.session.workers
        return workers.release() if workers is not None else []

    async def run(self, trigger: Trigger) -> None:
        after, self.after_turn = self.after_turn, None
        try:
            async for event in self.session.run(trigger):
                if isinstance(event, e.TurnEnd) and (event.outcome.changed or self.repl.renderer.commands_run):
                    self.repl.renderer.counted = await asyncio.to_thread(self._count_changes)
                self.repl.feed(event)
        finally:
            if after is not None:
                await after()

    def _count_changes(self) -> str:
        """Return the files and lines that the newest turn changed and /undo would take back; "" if unknown. Blocks."""
        from nexus_cli.reports.turn_changes import count_turn  # noqa: PLC0415  (after a change)

        record = self.session.record
        if record is None:
            return ""
        try:
            count = count_turn(places().data, self.session.id, record.count_turns(), COUNTING)
        except (OSError, ValueError, NexusError):
            return ""
        return count.text if count else ""

    async def steer(self, trigger: Trigger) -> bool:
        self.session.steer(trigger.text, trigger.pasted, files=trigger.files)
        return True

    def cancel(self) -> bool:
        if not self.session.busy:
            return False
        self.session.cancel()
        return True

    def take_back(self) -> list[str]:
        return self.session.take_back()

    def take_newest(self) -> str:
        return self.session.take_newest()

    def can_continue(self, outcome: e.Outcome) -> bool:
        return can_continue(self.session, outcome)

    async def run_command(self, command: Command, rest: str) -> None:
        await command.invoke(self.desk, rest)

    async def run_shell(self, line: ShellLine) -> None:
        await self._shell.run(line, self.folder, self.session)

    def cycle_level(self) -> None:
        level = self.session.cycle_level()
        self._hand_over.withdraw()
        if self.session.status().allow != level:
            self.repl.show_note(f"{level} is more than your settings allow.")

    async def transcript(self, value: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        made = await asyncio.to_thread(session_transcript, self.session) if value is None else value
        return {**made, "shell": [one for one in self._shell_outputs if one["session"] == made.get("id")]}

    def _keep_output(self, title: str, text: str) -> None:
        """Keep the output of a `!` line for Ctrl+O and the transcript."""
        self.repl.renderer.keep_output(title, text)
        record = self.session.record
        after = record.last_id() if record is not None else 0
        self._shell_outputs.append({"after": after, "title": title, "text": text, "session": self.session.id})

    def store_attachments(self) -> bool:
        try:
            return self.session.attached_texts.store([(one.text, one.what) for one in self.repl.input_queue.attached])
        except NexusError:
            return False

    def show_conversation(self) -> None:
        """Show the resumed session: its last turns, and the open parts."""
        value = last_exchange(self.session)
        self.repl.show_turns(value, newest_turns(self.session))
        if wait := describe_wait(self.session):
            self.repl.show_note(wait)
            self._sleeping.watch()
        elif not value["finished"]:
            self.repl.show_note(CUT_SHORT, "warn")

    def status_line(self, width: int) -> str:
        if self._status is None:
            self.refresh()
        assert self._status is not None
        now = replace(self._status, workers=self.repl.renderer.background_workers, waits=self._sleeping.waits)
        now = replace(now, asking=self._runs.count)
        if jobs := self.session.jobs:
            now = replace(now, jobs=tuple(jobs.names()), addresses=tuple(jobs.addresses()))
        return status_line(now, self._branch, width, self.repl.theme, str(Path.home()), self._own_status.line)

    def refresh(self) -> None:
        self._status = self._first.of(self.session)
        self._own_status.update(self.desk.settings.ui.status_command, self._status)
        self._cold.check(self.session)
        self._branch = read_branch(self.folder)

    def note(self, event: e.Event) -> None:
        inner = event.event if isinstance(event, e.AgentEvent) else None
        counts = isinstance(inner, e.StepEnd | e.WorkerState)  # the dollars of a worker are the session's
        if counts or isinstance(event, e.ContextPlan | e.StepEnd | e.ContextDrop | e.ContextRecall | e.CompactionDone):
            self._status = None
        if isinstance(inner, e.WorkerState) and self.repl.jobs.current is None:
            self._send_reports()

    def _send_reports(self) -> None:
        """Begin a turn with the reports of workers that the person moved to the background."""
        workers = self.session.workers
        if workers is not None and not self.repl.is_leaving and (reports := workers.take_reports()):
            self.repl.show_note("the model gets the report")
            self.repl.jobs.start("turn", "", self.run(Trigger(reports, source="agent", actor="nexus")))

    def take_notices(self) -> list[str]:
        return self.session.take_notices()

    def withdraw_offer(self) -> bool:
        return self._hand_over.withdraw()

    def turn_succeeded(self) -> None:
        if wants_title(self.session.state):
            self.repl.jobs.start_background(self._make_title())

    async def _make_title(self) -> None:
        """Let a small model name the session; only failures are shown."""
        async for event in self.session.act(make_title):
            if isinstance(event, e.Notice | e.AgentEvent):
                self.repl.feed(event)

    def became_idle(self, ended: Job) -> None:
        self.repl.jobs.start_background(self._read_own_commands())
        self._send_reports()
        if self.repl.jobs.current is None:
            self._hand_over.offer(ended, self.repl.outcome)

    def watch(self) -> None:
        self._sleeping.watch()
        self._runs.look_again()

    def watch_runs(self) -> None:
        """Follow the unattended runs that wait for the person."""
        self.repl.jobs.start_background(self._runs.follow())
