"""The seam between the REPL and the conversation behind it: a session of this process, or an agent of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nexus_cli.commands.command import Command
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.shell_line import ShellLine


class ReplBackend(Protocol):
    """The conversation behind a REPL. Events of turns, workers and commands go to `Repl.feed`.

    A backend that extends this class lacks what it does not define: workers, shell output, notices, offers.
    """

    ends_with_repl: bool
    """False if a running turn goes on when the person leaves."""

    @property
    def folder(self) -> Path:
        """The folder of the files that a message mentions."""

    @property
    def name(self) -> str:
        """Its name in a notification."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """The slash commands that work."""

    @property
    def uncallable(self) -> Mapping[str, str]:
        """Why own commands do not work, by their names."""
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
    def last_answer(self) -> str:
        """The newest answer from before this REPL, "" for none."""

    @property
    def undelivered(self) -> Sequence[str]:
        """Texts that the running turn was given and has not used."""

    @property
    def working(self) -> Sequence[str]:
        """Ids of the workers that leaving would stop."""
        return ()

    def release_workers(self) -> list[str]:
        """Let the commands and workers that the turn waits for go on in the background; return the workers' ids."""
        return []

    async def run(self, trigger: Trigger) -> None:
        """Run one turn; without text, resume from the end of the window."""

    async def steer(self, trigger: Trigger) -> bool:
        """Give the running turn a message; False if it has ended."""

    def cancel(self) -> bool:
        """Stop the running turn or command; False if there is nothing to stop."""

    def take_back(self) -> list[str]:
        """Take back the undelivered texts, oldest first, as far as that is possible."""

    def take_newest(self) -> str:
        """Take back the newest undelivered text; "" if that is impossible."""

    def can_continue(self, outcome: e.Outcome) -> bool:
        """True if a turn failed so that `/continue` resumes it."""

    async def run_command(self, command: Command, rest: str) -> None:
        """Run a slash command."""

    async def run_shell(self, line: ShellLine) -> None:
        """Run a `!` line."""

    def cycle_level(self) -> None:
        """Switch to the next permission level."""

    async def transcript(self, value: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the report of a transcript, that of this conversation without `value`, with its `shell` outputs."""

    def store_attachments(self) -> bool:
        """Store the attachments of the next message; False if they are lost with the REPL."""
        return False

    def status_line(self, width: int) -> str:
        """Return the status line in at most `width` columns."""

    def refresh(self) -> None:
        """Read the figures of the status line again."""
        return None

    def note(self, event: e.Event) -> None:
        """Take notice of an event that was shown."""
        return None

    def take_notices(self) -> list[str]:
        """Return notices since the last call."""
        return []

    def withdraw_offer(self) -> bool:
        """Withdraw the question that follows a turn; False if none is open."""
        return False

    def turn_succeeded(self) -> None:
        """Begin in the background what follows a turn."""
        return None

    def became_idle(self, ended: Job) -> None:
        """Offer the person what may follow `ended`, if no other work does."""

    def watch(self) -> None:
        """Look for turns that begin by themselves."""
