"""The protocol between the REPL and the agent behind it: a session of this process, or an agent of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from nexus_cli.commands.command import Command
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.json_value import JsonObject
from nexus_cli.session.status import Status
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.shell_line import ShellLine


class AgentConnection(Protocol):
    """The agent behind a REPL. Events of turns, workers and commands go to `Repl.feed`.

    A connection that extends this class lacks what it does not define: workers, shell output, notices, own commands.
    """

    ends_with_repl: bool
    """False if a running turn goes on when the person leaves."""

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
    def uncallable(self) -> Mapping[str, str]:
        """The reasons that own commands do not work, by their names."""
        return {}

    @property
    def reading_commands(self) -> asyncio.Task[None] | None:
        """The task that still reads own commands, None if they are known."""
        return None

    @property
    def output(self) -> str:
        """The newest output of a running shell line."""
        return ""

    @property
    def shell_outputs(self) -> Iterable[JsonObject]:
        """Outputs of `!` lines for the transcript, each with its session and the newest entry at its time."""
        return ()

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

    def keeps(self, attached: str) -> bool:
        """True if an attached text that was not sent waits for whoever resumes, even if `store_queue` returns False."""

    def forget_attachment(self, text: str) -> None:
        """Take notice that an attached text goes along with no message."""

    def refresh(self) -> None:
        """Read the figures of `status` again, and show new notices."""

    def note(self, event: e.Event) -> None:
        """Take notice of an event that was shown."""

    def became_idle(self, ended: Job) -> None:
        """Begin what follows `ended`, if the person gave no other work."""
        return None

    def watch(self) -> None:
        """Look for turns that begin by themselves."""
