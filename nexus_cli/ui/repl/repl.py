"""The REPL: interprets lines, runs work, and queues messages. The view draws it.

One job runs at a time: a turn, a command or a shell line. While a turn runs, messages steer it; queued ones follow it.
Nothing typed is lost: if a turn is stopped, undelivered messages stay queued until they are sent or taken back.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from nexus_cli.commands import discover, find, parse, use_slash_names
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.help import KEYS, LINE_KEYS
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import FORK, NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import next_levels
from nexus_cli.reports.event_texts import format_elapsed
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.text.terminal_sanitizer import sanitize_output
from nexus_cli.tools.process_tree import kill_all
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.render.drawn_report import draw_in_theme
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import format_running_call
from nexus_cli.ui.repl.agent_connection import AgentConnection
from nexus_cli.ui.repl.input_queue import InputQueue, brief, opens_session, queued_line, take_argument
from nexus_cli.ui.repl.job_runner import Job, JobRunner
from nexus_cli.ui.repl.last_turns import CUT_SHORT, describe_open_calls, describe_session, last_screenful
from nexus_cli.ui.repl.pager import show_in_pager
from nexus_cli.ui.repl.personal_command import StatusCommand
from nexus_cli.ui.repl.plan_hand_over import PlanHandOver
from nexus_cli.ui.repl.shell_line import ShellLine
from nexus_cli.ui.repl.view import ReplView

SPARE_ROWS = 8
"""Rows of the terminal that a resumed conversation leaves free."""
STOP_KEY = "esc to stop"
BACKGROUND_KEY = "ctrl+b: background"
EXIT_WORDS = ("exit", "quit")
"""Words that leave nexus, as in a shell."""
SOON = 0.5
"""Seconds after which running work gets a line."""
LONG = 2.0
"""Seconds after which a running command is named where no line can be redrawn."""


class Repl:
    """One conversation in front of a person. Implements `ReplController`."""

    def __init__(self, backend: AgentConnection, view: ReplView, renderer: RichRenderer, theme: Theme) -> None:
        self.backend = backend
        self.keys: Sequence[tuple[str, str]] = KEYS
        """The keys that `?` lists, each with what it does."""
        self.view = view
        self.renderer = renderer
        self.theme = theme
        self.draft: Callable[[], str] = str
        """Returns the text of the input box."""
        self.offer_commands: Callable[[], None] = lambda: None
        """Shows commands in the menu that came later than what is typed."""
        self.input_queue = InputQueue()
        """Messages for after the running turn, and attachments of the next one."""
        self.outcome: e.Outcome | None = None
        """The outcome of the newest turn."""
        self.jobs = JobRunner(self.show_note, self._ended, self._cancelled)
        self.hand_over = PlanHandOver(backend, view, self.jobs, self.input_queue, self.show_note)
        self.status_command = ""
        """The person's command for a line of their own in the status line."""
        self._own_status = StatusCommand(self.jobs.start_background, view.invalidate)
        self._unsteered: deque[TypedMessage] = deque()
        """Messages that the running turn is about to be given, in the order of typing."""
        self._next: TypedMessage | None = None
        self._command_typed = TypedMessage("", "")
        """The newest command as it was typed."""
        self.is_leaving = False
        """True once the person leaves: no more work begins."""
        self._warned_of: Collection[str] = ()
        """The workers that the newest warning before leaving named."""
        self._shown_output: tuple[str, str] | None = None
        """The output that Ctrl+O showed last."""
        self._begun = False
        """True once the session has the message of the newest turn."""

    # Content of the view

    @property
    def running(self) -> bool:
        """True if work runs that Ctrl+C stops."""
        return self.jobs.current is not None

    @property
    def moving(self) -> bool:
        return self.renderer.moving or (self.jobs.kind not in ("", "turn", "offer") and not self.jobs.waits_for_user)

    def live(self, rows: int) -> list[str]:
        output = self.backend.output
        if not output or not rows:
            return self.renderer.live(rows)
        width = max(4, self.view.width - 1)
        return [self.theme.paint("dim", line[:width]) for line in sanitize_output(output).splitlines()[-rows:]]

    def spinner(self) -> str:
        text, work = self.renderer.spinner(), self.jobs.current
        late = work is not None and work.kind != "turn" and work.seconds > SOON
        if not text and work is not None and late and not self.jobs.waits_for_user:
            bar = f"  {self.theme.bar(work.share)}" if work.share else ""
            text = format_running_call(f"{brief(work.title)}{bar}", work.seconds, self.view.width, self.theme)
        if not text or work is None or self.jobs.waits_for_user or not self.moving:
            return text
        dot = self.theme.dot
        added = ("  stopping",) if work.stopped else (dot + STOP_KEY, dot + STOP_KEY.split()[0])
        is_own = self.backend.ends_with_repl or work.kind == "turn"  # a server has no Ctrl+B for its `!` lines
        if not work.stopped and (work.kind == "shell" or (self.renderer.runs_long and is_own)):
            added = (dot + STOP_KEY + dot + BACKGROUND_KEY, *added)
        room = self.view.width - cells(without_codes(text))
        return text + next((variant for variant in added if cells(variant) < room), "")

    def queued(self) -> list[str]:
        return self.input_queue.lines(self.backend.undelivered)

    def status(self, width: int) -> str:
        return status_line(self.backend.status, width, self.theme, os.path.expanduser("~"), self._own_status.line)

    def refresh_status(self) -> None:
        """Read the figures of the status line again."""
        self.backend.refresh()
        self.show_status()

    def show_status(self) -> None:
        """Show the newest figures of the agent."""
        self._own_status.update(self.status_command, self.backend.status)
        self.view.invalidate()

    # Actions of the person

    def submit(self, typed: TypedMessage) -> None:
        """Handle a line: a command, a shell line, or a message."""
        leaves = typed.text.strip().casefold() in EXIT_WORDS
        command = ("exit", "") if leaves else parse(typed.text)
        shell = ShellLine.of(typed.text)
        if self.hand_over.withdraw():
            self._queue(typed)
        elif command is not None:
            self._command(*command, typed)
        elif self.jobs.current is not None and (shell or self.jobs.kind != "turn" or self.jobs.current.stopped):
            self._queue(typed)
        elif shell:
            own_kind = "private" if shell.private else "shell"
            kind = own_kind if self.backend.ends_with_repl else "command"  # the session of a server runs it
            self.jobs.start(kind, f"! {shell.command}", self._shell(shell))
        elif self.jobs.current is not None:
            self._unsteered.append(typed)
            if len(self._unsteered) == 1:
                self.jobs.start_background(self._steer())
        elif typed.text == self.input_queue.taken:  # sent as it was: it stays behind those queued before it
            self.input_queue.release()
            self._queue(typed)
            self._start_next_message()
        else:
            self._send(typed)
        self.view.invalidate()

    def enqueue(self, typed: TypedMessage) -> None:
        """Queue a message for later; send it at once if nothing runs."""
        if self.jobs.current is None:
            self.submit(typed)
        else:
            self._queue(typed)

    def _queue(self, message: TypedMessage) -> None:
        """Queue a message for after the running work; a kill does not lose it. Name it if the person leaves."""
        self.input_queue.later.append(message)
        stored = self.backend.store_queue()
        if self.is_leaving:
            self.show_unsent([brief(message.text)], stored=stored)
        elif self.view.echoes:  # no live line shows it
            self.show_note(queued_line(message))
        self.view.invalidate()

    def take_back(self) -> str:
        """Remove and return the newest queued message, for later or for the running turn."""
        words = "" if self.input_queue.later else self.backend.take_newest()
        text = self.input_queue.take_back(words) if words else self.input_queue.take_newest()
        self.backend.store_queue()
        self.refresh_status()
        return text

    def detach(self) -> bool:
        if not self.input_queue.attached:
            return False
        attachment = self.input_queue.attached.pop()
        self.show_note(f"no longer attached: {attachment.what}")
        self.backend.forget_attachment(attachment.text)
        self.refresh_status()
        return True

    def edit_last(self) -> None:
        """Let the person choose a message; fork before it, and put its text into the box."""
        if self.jobs.current is None:
            self.jobs.start("command", "/edit", self.backend.run_command(discover()["edit"], "list"))

    def interrupt(self, *, gently: bool = False) -> None:
        """Stop running work: first gently, then kill its processes, then exit nexus. Jobs run until then."""
        work = self.jobs.current
        if work is None or (gently and work.stopped):
            return
        work.stopped += 1
        if work.stopped == 1:
            # Otherwise the turn would include them: kept, but without an answer.
            self.input_queue.hold(self.backend.take_back())  # messages typed from now on are for after the stop
            self.jobs.stop()
        elif work.stopped == 2:
            kill_all(only_stopping=True)
            self.show_note("still stopping; press Ctrl+C again to exit")
        else:
            kill_all()
            self.view.leave()
        self.view.invalidate()

    def request_exit(self, *, asks: bool = False) -> None:
        """Leave once running work has settled; with `asks` the first attempt only warns of workers it would stop."""
        working = self.backend.working if asks else ()
        if not set(working) <= set(self._warned_of):
            self._warned_of = working
            who = f"worker {working[0]} is active" if len(working) == 1 else f"workers {', '.join(working)} are active"
            self.show_note(f"{who}. Exit again to stop the work; a resumed session can continue it.", "warn")
            return
        if self.is_leaving:
            return
        self.is_leaving = True
        self.input_queue.postpone(self.backend.take_back())
        messages, attached = self.input_queue.unsent(())
        stored = self.backend.store_queue()
        self.show_unsent((brief(message.text) for message in messages), stored=stored)
        for attachment in attached:
            self.show_unsent([attachment.what], stored=stored or self.backend.keeps(attachment.text))
        if self.jobs.current is not None and self.backend.ends_with_repl:
            self.jobs.stop()
        else:
            self.view.leave()

    def show_unsent(self, texts: Iterable[str], *, stored: bool, session: str = "") -> None:
        """Tell the person which unsent texts were stored; `session` names their session if it is not the open one."""
        how, role = (f"kept for when you resume{session}", "dim") if stored else ("not sent", "warn")
        for text in texts:
            self.show_note(f"{how}: {text}", role)

    def release_workers(self) -> None:
        """Let the workers that the turn waits for work in the background; the turn goes on."""
        self.jobs.start_background(self._release_workers())

    async def _release_workers(self) -> None:
        if released := await self.backend.release_workers():
            self.show_note(f"{', '.join(released)} moved to the background; /agents lists workers")

    def cycle_level(self) -> None:
        """Change the permission level, even while a turn runs or asks."""
        self.jobs.start_background(self._cycle_level())

    async def _cycle_level(self) -> None:
        """Set the next level that is allowed."""
        self.hand_over.withdraw()
        for level in next_levels(self.backend.status.allow):
            await self.backend.set_level(level)
            if self.backend.status.allow == level:
                break
        self.refresh_status()

    def toggle_thinking(self) -> None:
        self.renderer.toggle_thinking()
        self.view.invalidate()

    def show_last_output(self) -> None:
        """Show the whole newest output. If it was shown before, or there is none, show the transcript."""
        last = self.renderer.last_output
        if last is None or last == self._shown_output:
            self.jobs.start_background(self.backend.run_command(discover()["transcript"], ""))
            return
        self._shown_output = last
        title, text = last
        self.jobs.start_background(show_in_pager(self.view, f"{title}\n{text}"))

    async def _show_transcript(self, value: JsonObject) -> None:
        shell = [output for output in self.backend.shell_outputs if output["session"] == value.get("id")]
        text = await asyncio.to_thread(find_form("transcript"), {**value, "shell": shell}, self.view.width - 1)
        await show_in_pager(self.view, text, at_end=bool(value["events"] or shell))

    # Effects

    def start_next(self, text: str, *, typed: bool = False) -> None:
        """Begin a turn when the current work has ended; "" resumes the open one. Only `typed` text names files."""
        self._next = take_argument(self._command_typed, text) if typed else TypedMessage(text, "", (text,))

    def show_note(self, text: str, role: str = "dim") -> None:
        """Show a line to the person."""
        self.renderer.show_note(text, role)

    def show_notices(self, notices: Iterable[str]) -> None:
        """Show what the session tells the person once, with the commands as they are typed here."""
        for notice in notices:
            self.show_note(use_slash_names(notice), "warn")

    def show(self, form: str, value: JsonObject) -> None:
        self.renderer.show_held()
        if form == "help":
            by_line = self.view.echoes
            keys = [row for row in self.keys if not by_line or row[0] in LINE_KEYS]
            value = {**value, "keys": keys if value.get("keys") else (), "has_keys": not by_line}
        if form == "transcript":
            self.jobs.start_background(self._show_transcript(value))
            return
        self.view.put(f"\n{draw_in_theme(form, value, self.view.width, self.theme)}\n")

    def show_turns(self, value: JsonObject, turns: Iterable[Sequence[e.Event]], goes_on: str) -> None:
        """Show the end of a resumed conversation: the newest of `turns`, the open calls, and `goes_on`, which says how
        the newest turn goes on by itself, "" if it does not; `value` is that of `last_exchange`."""
        drawn, rows = not self.view.echoes, self.view.height - SPARE_ROWS
        end = last_screenful(turns, rows, self.view.width, self.theme, drawn=drawn, folder=self.renderer.folder)
        self.show_note(describe_session(value, end.turns))
        if end.lines:
            self.view.put("\n".join(["", *end.lines]) + "\n")
        if end.output:
            self.renderer.keep_output(*end.output)
        self.renderer.folded_thought = end.thought
        for line in describe_open_calls(value):
            self.show_note(line, "warn")
        if goes_on:
            self.show_note(goes_on)
        elif not value["finished"]:
            self.show_note(CUT_SHORT, "warn")
        for line in self.queued() if self.view.echoes else ():  # no live lines show them
            self.show_note(line)

    def _echo(self, text: str) -> None:
        """Print the typed text, unless the terminal shows it already."""
        if text and not self.view.echoes:
            self.renderer.show_user_message(text, is_typed=True)

    def _cancelled(self) -> bool:
        """Stop the conversation's work; False if there is none."""
        return (self.backend.ends_with_repl or not self.is_leaving) and self.backend.cancel()

    def _ended(self, work: Job) -> None:
        """Handle the end of `work` and start the next; after a stop or failure, queued messages stay queued."""
        self.input_queue.sending = None
        self.refresh_status()
        failed = work.kind == "turn" and self.outcome is not None and self.outcome.has_failed
        failed_to_move = work.kind == "command" and work.has_failed and opens_session(self._command_typed)
        outcome = self.outcome if failed and self._begun else None
        may_go_on = outcome and not outcome.is_stopped and (outcome.error or {}).get("hint") != FORK
        if may_go_on and self.backend.is_cut_short:
            self.show_note(CUT_SHORT)
        if work.kind == "turn" and not (failed or work.stopped):
            self.input_queue.release()
        if self.is_leaving:
            self.view.leave()
        elif work.stopped or failed or failed_to_move:
            self._next = None
            put_back = self.input_queue.postpone if work.stopped else self.input_queue.hold
            put_back(self.backend.take_back())
            self._start_after_stop()
        elif self._next is not None:
            message, self._next = self._next, None
            if message.text:
                self._send(message, command=self._command_typed.text)
            else:
                self.jobs.start("turn", "", self._begin_turn(Trigger()))
        elif self.backend.undelivered:  # they arrived after the turn's last check
            self.jobs.start("turn", "", self.backend.run(Trigger()))
        else:
            self._start_next_message()
            self.backend.became_idle(work)
            self.hand_over.offer(work, self.outcome)
        if not self.is_leaving:
            self.backend.watch()

    def _start_after_stop(self) -> None:
        """Start with the messages typed since the stop, and before them commands that only waited for the end.

        Earlier messages, and commands that use the model, wait for the person.
        """
        self.input_queue.release_commands()
        if count := len(self.input_queue.unused) + len(self.input_queue.postponed):
            delivery = f"sent {'after' if self.input_queue.postponed else 'with'} your next message"
            delivery_hint = delivery if self.view.echoes else f"{delivery}; Up to edit"
            self.show_note(f"{plural(count, 'message')} still queued ({delivery_hint})")
        self._start_next_message()

    def _start_next_message(self) -> None:
        """Start the next queued message."""
        while self.input_queue.later and self.jobs.current is None and not self.is_leaving:
            later = self.input_queue.later.popleft()
            if later.trigger is None:
                self.submit(later)
            else:
                self._send(later)
            self.backend.store_queue()  # a command is not run a second time after a kill
        if self.jobs.current is None:  # the released commands have run
            self.input_queue.is_behind = False

    def _command(self, name: str, arguments: str, typed: TypedMessage) -> None:
        try:
            command = find(name, {**self.backend.commands, **discover()})
        except NexusError as error:
            if (reading := self.backend.reading_commands) is not None:  # typed before its own commands were known
                self.jobs.start_background(self._command_after(reading, name, arguments, typed))
                return
            self._echo(typed.display)
            why = self.backend.uncallable.get(name)
            self.show_note(use_slash_names(f"nexus: /{name}: {why}" if why else error.line), "error")
            return
        if self.jobs.current is not None and command.idle and not command.at_once(arguments):
            self._queue(typed)
        else:
            self._echo(typed.display)
            work = self.backend.run_command(command, arguments)
            if self.jobs.current is None:
                self._command_typed = typed
                self.jobs.start("command", f"/{name}", work)
            else:
                self.jobs.start_background(work)

    async def _command_after(self, reading: asyncio.Task[None], name: str, arguments: str, typed: TypedMessage) -> None:
        """Run a command once `reading` has ended, after which all commands are known."""
        await asyncio.wait([reading])
        self._command(name, arguments, typed)

    async def _steer(self) -> None:
        """Steer the running turn with the messages that were typed; keep those left over if nexus ends meanwhile."""
        try:
            while self._unsteered:
                await self._steer_with(await self._message(self._unsteered[0]))
                self._unsteered.popleft()
        except NexusError:  # they were typed for another session
            self.show_unsent((brief(typed.text) for typed in self._unsteered), stored=False)
            self._unsteered.clear()
        finally:
            for typed in self._unsteered:
                self._queue(typed)
            self._unsteered.clear()

    async def _steer_with(self, message: TypedMessage) -> None:
        """Steer the running turn. Images, and messages that come too late, begin a turn of their own."""
        trigger, job = message.trigger, self.jobs.current
        if self.is_leaving:
            self._queue(message)
            return
        if trigger and job is not None and job.kind == "turn" and not job.stopped and not trigger.parts:
            self.input_queue.steering_by_text[trigger.text] = message
            self.view.invalidate()
            if await self.backend.steer(trigger):
                self.backend.store_queue()
                return
            self.input_queue.steering_by_text.pop(trigger.text)
        if self.jobs.current is None:
            self._send(message)
        else:
            self._queue(message)
        self.view.invalidate()

    def _send(self, typed: TypedMessage, command: str = "") -> None:
        """Begin a turn with a message, which `command` has made if it is given."""
        self.input_queue.sending = None if command else typed
        self.jobs.start("turn", "", self._run_turn(typed, command))

    async def _run_turn(self, typed: TypedMessage, command: str) -> None:
        self._echo("" if command else typed.display)  # the command with the text is on the screen
        self._begun = False
        try:
            typed = await self._message(typed)
            if not command:
                self.input_queue.sending = typed
            await self._begin_turn(replace(typed.trigger or Trigger(), display_text=command))
        finally:
            if not self._begun:  # the session has none of it
                if self.is_leaving and typed.display:  # the box goes away, and the message was named as unsent
                    self.input_queue.sending = None
                    self.input_queue.later.appendleft(replace(typed, trigger=None))
                    self.backend.store_queue()
                else:
                    self.input_queue.attached[:0] = typed.attached
                    self.view.fill("\n".join(filter(None, [typed.display and typed.text, self.draft()])))

    async def _begin_turn(self, trigger: Trigger) -> None:
        """Run a turn, which gets the messages too that a stopped turn did not use."""
        unused = self.input_queue.unused
        while unused:
            message = unused.popleft()
            try:
                await self._steer_with(await self._message(message))
            except BaseException:  # stopped: the turn has none of it
                unused.appendleft(message)
                raise
        await self.backend.run(trigger)

    async def _message(self, typed: TypedMessage) -> TypedMessage:
        return await self.input_queue.build_message(typed, self.backend, self.show_note)

    def feed(self, event: e.Event) -> None:
        """Show one event of the session."""
        if isinstance(event, e.TurnEnd):
            self.outcome = event.outcome
        elif isinstance(event, e.TurnStart):
            self._begun, self.input_queue.sending = True, None
            self.backend.store_queue()
        elif isinstance(event, e.SteeringMessage):
            display = self.input_queue.typed_form(event.text)
            self.input_queue.steering_by_text.pop(event.text, None)
            self.backend.store_queue()
            event = e.SteeringMessage(display)
        elif isinstance(event, e.ToolCallEvent) and self.view.echoes:
            self.jobs.start_background(self._announce(event.call.id))
        self.renderer.feed(event)
        self._notify(event)
        self.backend.note(event)
        self.view.invalidate()

    async def _announce(self, call: str) -> None:
        """Name a call that runs for a while, on a terminal without live lines."""
        await asyncio.sleep(LONG)
        self.renderer.announce(call)

    def _notify(self, event: e.Event, worker: str = "") -> None:
        """Notify a person who is away of a question, of its answer, and of the end of all work."""
        folder = self.backend.folder.name
        match event:
            case e.AgentEvent():
                self._notify(event.event, event.agent)
            case e.ApprovalRequest():
                subject = f"{worker} {event.question.call.name}".lstrip()
                self.view.notify(f"{subject} is waiting for your answer in {folder}", waits=True)
            case e.ApprovalAnswer() if not self.renderer.is_asking:
                self.view.notify("")
            case e.TurnEnd() if not (worker or self.input_queue.later):
                how = "done" if event.outcome.ok else "stopped short"
                self.view.notify(f"{how} after {format_elapsed(event.outcome.seconds)} in {folder}")
            case _:
                pass

    async def _shell(self, line: ShellLine) -> None:
        if not line.command:
            raise UsageError("!", "no command given", "!ls sends its output to the model, !!ls does not")
        self._echo(("!!" if line.private else "!") + line.command)
        await self.backend.run_shell(line)

    # Life cycle

    async def run(self, first: Iterable[str] = ()) -> None:
        """Submit the lines `first` but empty ones, and run until the person leaves or the terminal is gone (`OSError`,
        `EOFError`); running work has settled."""
        for line in filter(None, first):
            asyncio.get_running_loop().call_soon(self.submit, TypedMessage(line, line))
        try:
            await self.view.run(self)
        finally:
            self.is_leaving = True
            await self.jobs.settle(is_quiet=not self.backend.ends_with_repl)
