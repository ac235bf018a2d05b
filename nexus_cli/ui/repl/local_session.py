"""A session of this process behind the REPL, with what only such a session has: shell lines, titles, sleeping runs, the
question after a plan."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path

from nexus_cli.commands import discover
from nexus_cli.commands.command import Choice, Command, Search
from nexus_cli.config.settings import Settings
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import TakeText
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.last_exchange import describe_opened, is_cut_short, last_exchange
from nexus_cli.session.acts.title import find_title_act
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.status import Status
from nexus_cli.ui.input.paste import Attachment, TypedMessage
from nexus_cli.ui.repl.command_context import TerminalContext
from nexus_cli.ui.repl.input_queue import brief
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.repl import Repl
from nexus_cli.ui.repl.shell_line import Shell, ShellLine
from nexus_cli.ui.repl.sleeping_run import SleepingRun, describe_wait
from nexus_cli.ui.repl.status_reader import StatusReader
from nexus_cli.ui.repl.waiting_runs import WaitingRuns

Reopen = Callable[[Options, Settings, Session], Session]
"""Opens the session that follows another one; raises `NexusError` if it cannot."""
SHELL_OUTPUTS = 100
"""Most outputs of `!` lines that are kept for the transcript."""


class LocalSession(TerminalContext):
    """Implements `AgentConnection` and `CommandContext`: one session after another, as a command opens the next one."""

    ends_with_repl = True

    def __init__(
        self,
        session: Session,
        options: Options,
        settings: Settings,
        reopen: Reopen,
        raw: TakeText,
    ) -> None:
        """`raw` as in `TerminalContext`."""
        super().__init__(raw)
        self.session, self.settings, self._reopen = session, settings, reopen
        self._options = self._begun = options
        self.leaves_unchosen = False
        """Leave if the person picks nothing from the next list: the program was started to pick from it."""
        self.after_turn: Callable[[], Awaitable[None]] | None = None
        """Awaited when the next turn has ended."""
        self._status: Status | None = None
        self.uncallable: Mapping[str, str] = {}
        self.shell_outputs: deque[JsonObject] = deque(maxlen=SHELL_OUTPUTS)

    def connect(self, repl: Repl) -> None:
        """Serve `repl`, which was made with this backend."""
        self.repl = repl
        self._shell = Shell(repl.view, self._show_output, self.attach)
        self._sleeping = SleepingRun(lambda: self.session, repl, self.run)
        self.share_queue(loads=True)
        self._runs = WaitingRuns(lambda: self.session, repl)
        self._reader = StatusReader(repl)

    def read_own_commands(self) -> None:
        """Begin to read the commands of the person and the project."""
        self._reading = self.repl.jobs.start_background(self._read_own_commands(tells=True))

    async def _read_own_commands(self, *, tells: bool = False) -> None:
        """Read the commands of the person and the project; `tells` of those whose name is taken, once."""
        built_in = await asyncio.to_thread(discover)  # imports every command: a key that is typed meanwhile is shown
        from nexus_cli.commands.own_guides import describe_shadowed, own_commands  # noqa: PLC0415  (after the start)
        from nexus_cli.config.unsupported import is_new_line  # noqa: PLC0415  (after the start)
        from nexus_cli.guides.skills import explain_uncallable  # noqa: PLC0415  (after the start)

        self.uncallable = await asyncio.to_thread(explain_uncallable, self.folder)
        self._own_commands = await asyncio.to_thread(own_commands, self.folder, built_in)
        self.repl.offer_commands()
        if (
            tells
            and (line := await asyncio.to_thread(describe_shadowed, self.folder, built_in))
            and await asyncio.to_thread(is_new_line, f"names:{os.path.realpath(self.folder)}", line)
        ):
            self.repl.show_note(line)

    def share_queue(self, *, loads: bool) -> None:
        """Connect the session with the pending attachments and its workers, and queue what it has stored (`loads`)."""
        queue = self.repl.input_queue
        if loads:
            stored = self.session.attached_texts.load()
            queue.attached.extend(Attachment(**stored_text) for stored_text in stored["texts"])
            for text, display, pasted, files, attached in stored["queued"]:
                along = tuple(Attachment(*row) for row in attached)
                queue.postponed.append(TypedMessage(text, display, tuple(pasted), tuple(files), along))
        self.session.engine.control.waiting_texts = lambda: [attachment.text for attachment in queue.attached]
        self.session.listen(self.repl.feed)

    @property
    def commands(self) -> Mapping[str, Command]:
        return {**self._own_commands, **discover()}

    @property
    def folder(self) -> Path:
        return self.session.folder

    @property
    def earlier_answer(self) -> str:  # type: ignore[override]
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

    async def release_workers(self) -> list[str]:
        return self.session.release()

    async def run(self, trigger: Trigger) -> None:
        after, self.after_turn = self.after_turn, None
        try:
            async for event in self.session.run(trigger):
                renderer = self.repl.renderer
                if isinstance(event, e.TurnEnd) and (
                    event.outcome.changed or renderer.commands_run or renderer.is_resumed
                ):
                    from nexus_cli.reports.turn_changes import count_newest_turn  # noqa: PLC0415  (after a change)

                    renderer.counted = await asyncio.to_thread(count_newest_turn, self.session)
                self.repl.feed(event)
        finally:
            if after is not None:
                await after()

    async def steer(self, trigger: Trigger) -> bool:
        self.session.steer(trigger.text, trigger.pasted, files=trigger.files)
        return True

    def cancel(self) -> bool:
        if not self.session.busy:
            return False
        self.session.cancel("end" if self.repl.is_leaving else "person")
        return True

    def take_back(self) -> list[str]:
        return self.session.take_back()

    def take_newest(self) -> str:
        return self.session.take_newest()

    @property
    def is_cut_short(self) -> bool:
        return is_cut_short(self.session)

    async def run_command(self, command: Command, arguments: str) -> None:
        await command.invoke(self, arguments)

    # The context of commands

    @property
    def options(self) -> Options:
        now = self.session.options
        return replace(self._options, resume=self.session.id, newest=False, allow=now.allow, allow_from=now.allow_from)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        chosen = await super().choose(title, choices, search)
        if self.leaves_unchosen and chosen is None and choices:
            self.leave()
        self.leaves_unchosen = False
        return chosen

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self.after_turn = after
        super().start(text, typed=typed)

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        settings, before = settings or self.settings, self.session
        copied = before.is_copied_to(options.resume)
        if options.resume not in ("", before.id) and not copied:  # the level was not set for another session
            options = replace(options, allow=self._begun.allow, allow_from=self._begun.allow_from)
        moves = options.resume != before.id
        await before.end_hooks(options.resume)
        queue = self.repl.input_queue
        own_messages = queue.list_own() if moves and not copied else []
        stored = self.store_queue(only=own_messages if moves else None)
        try:
            session = self.session = self._reopen(options, settings, before)
        except NexusError:
            self.store_queue()
            raise
        self._options, self.settings = options, settings
        if moves:
            unsent = [
                *(brief(message.text) for message in own_messages),
                *(attachment.what for attachment in queue.attached),
            ]
            self.repl.show_unsent(unsent, stored=stored, session=" the previous session")
            queue.attached.clear()
            if not copied:
                queue.drop_own()
        self.share_queue(loads=moves)
        self.store_queue()
        if moves:
            self.repl.renderer.forget()
            if options.resume and not copied:
                self.show_conversation()
            elif not copied:  # the command that copied prints its own line
                self.say(describe_opened(session))
        self.repl.refresh_status()

    # The end of a turn

    async def run_shell(self, line: ShellLine) -> None:
        await self._shell.run(line, self.folder, self.session)

    async def set_level(self, level: str) -> None:
        self.session.set_level(level)
        self._status = None

    def _show_output(self, title: str, text: str) -> None:
        """Show the output of a `!` line, and keep it for Ctrl+O and the transcript."""
        self.repl.renderer.feed(e.SessionAct("command", title, "person", title, output=text))
        after = self.session.record.last_id()
        self.shell_outputs.append({"after": after, "title": title, "text": text, "session": self.session.id})

    def store_queue(self, *, only: Sequence[TypedMessage] | None = None) -> bool:
        """See `AgentConnection`; with `only`, other messages move to the session opened next."""
        messages, attached = self.repl.input_queue.unsent(self.undelivered)
        typed = [astuple(replace(message, trigger=None))[:-1] for message in (messages if only is None else only)]
        try:
            stored = self.session.attached_texts.store([asdict(attachment) for attachment in attached], typed)
        except NexusError:
            return False
        if stored and (typed or attached):  # a turn's step may take long
            self.repl.jobs.start_background(self.session.conversation.log.save(waits=False))
        return stored

    def keeps(self, attached: str) -> bool:
        return False

    def forget_attachment(self, text: str) -> None:
        self.store_queue()

    def show_conversation(self) -> None:
        """Show the resumed session: its last turns, and the open parts."""
        with self.session.showing_end():
            value = last_exchange(self.session)
            self.repl.show_turns(value, newest_turns(self.session), wait := describe_wait(self.session))
            for line in self.session.describe_resumed():
                self.repl.show_note(line)
        if wait:
            self._sleeping.watch()

    @property
    def status(self) -> Status:
        if self._status is None:
            self._status = self._reader.read(self.session)
        jobs = self.session.jobs
        return replace(
            self._status,
            workers=self.repl.renderer.background_workers,
            waits=self._sleeping.waits,
            asking=self._runs.count,
            jobs=tuple(jobs.names()) if jobs else (),
            addresses=tuple(jobs.addresses()) if jobs else (),
        )

    def refresh(self) -> None:
        self.repl.show_notices(self.session.take_notices())
        self._status = self._reader.read(self.session)

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
            self.repl.renderer.show_user_message(reports)
            self.repl.jobs.start("turn", "", self.run(Trigger(reports, source="agent", actor="nexus")))

    async def _act_aside(self, act: Callable[[Session], Awaitable[None]]) -> None:
        """Run an act of which only failures are shown."""
        async for event in self.session.act(act):
            if isinstance(event, e.Notice | e.AgentEvent):
                self.repl.feed(event)

    def became_idle(self, ended: Job) -> None:
        self.repl.jobs.start_background(self._read_own_commands())
        if ended.kind == "turn" and (act := find_title_act(self.session)):
            self.repl.jobs.start_background(self._act_aside(act))
        self._send_reports()

    def watch(self) -> None:
        self._sleeping.watch()
        self._runs.look_again()

    def watch_runs(self, *, at_once: bool) -> None:
        """Follow the unattended runs that wait for the person; `at_once` if any may wait now."""
        self.repl.jobs.start_background(self._runs.follow(at_once=at_once))
