"""The protocol between the REPL and the agent behind it: a session of this process, or an agent of a server; and the
terminal of the REPL, in which both run slash commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nexus_cli.commands.command import YES_OR_NO, Choice, Command, Search
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import TakeText
from nexus_cli.reports.export import save_in
from nexus_cli.session.status import Status
from nexus_cli.ui.asked_question import AskedQuestion, ask
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.input.paste import Attachment
from nexus_cli.ui.repl.clipboard import copy_to_clipboard
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.shell_line import ShellLine

if TYPE_CHECKING:
    from nexus_cli.ui.repl.repl import Repl


class AgentConnection(Protocol):
    """The agent behind a REPL, and the part of `CommandContext` that needs the person's terminal alone. Events go to
    `Repl.feed`.

    A connection that extends this class lacks what it does not define: workers, shell output, notices.
    """

    ends_with_repl: bool
    """False if a running turn goes on when the person leaves."""
    repl: Repl
    """The REPL in that terminal; set once it is made."""
    can_choose: bool = True
    reported: JsonObject | None = None
    earlier_answer: str
    """The newest answer from before this REPL, "" for none."""

    uncallable: Mapping[str, str] = {}
    """The reasons that own commands do not work, by their names."""
    shell_outputs: Iterable[JsonObject] = ()
    """Outputs of `!` lines for the transcript, each with its session and the newest entry at its time."""

    _raw: TakeText
    """Writes to the terminal without sanitizing (the clipboard's escape)."""
    _own_commands: Mapping[str, Command] = {}
    """The commands of the person and the project."""
    _reading: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path:
        """The folder of the files that a message mentions."""

    @property
    def status(self) -> Status:
        """The newest figures of its session."""

    @property
    def is_cut_short(self) -> bool:
        """True if `/continue` resumes the newest turn."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """The slash commands that work."""

    @property
    def output(self) -> str:
        """The newest output of a running shell line."""
        return ""

    @property
    def undelivered(self) -> Sequence[str]:
        """Texts that the running turn was given and has not used."""

    @property
    def working(self) -> Sequence[str]:
        """Ids of the workers that leaving would stop."""
        return ()

    async def release_workers(self) -> Sequence[str]:
        """Let the commands and workers that the turn waits for go on in the background; return the workers' ids."""

    async def run(self, trigger: Trigger) -> None:
        """Run one turn; without text, resume from the end of the window."""

    async def steer(self, trigger: Trigger) -> bool:
        """Give the running turn a message; False if it has ended."""

    def cancel(self) -> bool:
        """Stop the running turn or command; False if there is nothing to stop."""

    def take_back(self) -> list[str]:
        """Take back the undelivered texts, oldest first, as far as that is possible."""
        return []

    def take_newest(self) -> str:
        """Take back the newest undelivered text; "" if that is impossible."""

    async def run_command(self, command: Command, arguments: str) -> None:
        """Run a slash command."""

    async def run_shell(self, line: ShellLine) -> None:
        """Run a `!` line."""

    async def set_level(self, level: str) -> None:
        """Set the permission level, as far as settings or the server allow; `status` has it then."""

    def store_queue(self) -> bool:
        """Store the messages and attachments that were not sent yet; False if they are lost with the REPL."""
        return False

    def refresh(self) -> None:
        """Read the figures of `status` again, and show new notices."""

    def note(self, event: e.Event) -> None:
        """Take notice of an event that was shown."""

    def became_idle(self, ended: Job) -> None:
        """Begin what follows `ended`, if the person gave no other work."""
        return None

    def watch(self) -> None:
        """Look for turns that begin by themselves."""

    # The terminal of slash commands

    @property
    def reading_commands(self) -> asyncio.Task[None] | None:
        """The task that still reads own commands, None if they are known."""
        return self._reading if self._reading is not None and not self._reading.done() else None

    @property
    def last_answer(self) -> str:
        return self.repl.renderer.last_answer or self.earlier_answer

    def say(self, text: str) -> None:
        self.repl.show_note(text, "")

    def show(self, form: str, value: JsonObject) -> None:
        self.repl.show(form, value)

    def feed(self, event: e.Event) -> None:
        self.repl.feed(event)

    def note_act(self, line: str) -> None:
        """Tell nobody: the person has seen it."""
        return None

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        if not choices:
            return None
        with self.repl.jobs.wait_for_user():
            if tuple(choices) == YES_OR_NO:
                reply = await ask(self.repl.view, AskedQuestion.yes_or_no(title, escape="Esc cancel"))
                return YES_OR_NO[reply.meaning].key if reply else None
            return await self.repl.view.choose(title, choices, search)

    async def ask_hidden(self, prompt: str) -> str | None:
        with self.repl.jobs.wait_for_user():
            return await self.repl.view.question(AskedQuestion(prompt, is_hidden=True))

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        self.repl.start_next(text, typed=typed)

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        self.repl.view.invalidate()
        await self.repl.jobs.run_busy(what, work)

    def work_beside(self, work: Coroutine[Any, Any, None]) -> None:
        self.repl.jobs.start_background(work)

    def fill(self, text: str) -> None:
        self.repl.view.fill(text)

    def attach(self, block: str, what: str) -> None:
        self.repl.input_queue.attached.append(Attachment(block, what))
        self.repl.backend.store_queue()
        self.repl.refresh_status()

    async def edit(self, text: str) -> str:
        with self.repl.jobs.wait_for_user():
            return await self.repl.view.outside(lambda: edit_text(text))

    async def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        path = await asyncio.to_thread(save_in, self.repl.backend.folder, name, default, pieces)
        self.say(f"Written to {path}")
        return str(path)

    async def copy(self, text: str) -> str:
        return await copy_to_clipboard(text, self._raw)

    def leave(self) -> None:
        self.repl.request_exit(asks=True)
