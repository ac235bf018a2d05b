"""The seam between the REPL and the conversation behind it: a session of this process, or an agent of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.commands import discover
from nexus_cli.commands.command import Command
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.ui.repl.job_runner import Job
from nexus_cli.ui.repl.shell_line import ShellLine

if TYPE_CHECKING:
    from nexus_cli.ui.repl.repl import Repl


class Backend:
    """The conversation behind a REPL. Events of turns, workers and commands go to `Repl.feed`."""

    ends_with_repl: bool = True
    """False if a running turn goes on when the person leaves."""
    output: str = ""
    """The newest output of a running shell line."""
    undelivered: Sequence[str] = ()
    """Texts that the running turn was given and has not used."""

    @property
    def folder(self) -> Path:
        """The folder of the files that a message mentions."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name in a notification."""
        raise NotImplementedError

    @property
    def commands(self) -> Mapping[str, Command]:
        """The slash commands that work."""
        return discover()

    def connect(self, repl: Repl) -> None:
        """Begin to serve `repl`."""
        raise NotImplementedError

    # Turns

    async def run(self, trigger: Trigger) -> None:
        """Run one turn; without text, resume from the end of the window."""
        raise NotImplementedError

    async def steer(self, trigger: Trigger) -> bool:
        """Give the running turn a message; False if it has ended."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Stop the running turn or command; False if there is nothing to stop."""
        raise NotImplementedError

    def take_back(self) -> list[str]:
        """Take back the undelivered texts, oldest first, as far as that is possible."""
        return []

    def take_newest(self) -> str:
        """Take back the newest undelivered text; "" if that is impossible."""
        return ""

    def can_continue(self, outcome: e.Outcome) -> bool:
        """True if a turn failed so that `/continue` resumes it."""
        return False

    # What the person does

    async def run_command(self, command: Command, rest: str) -> None:
        """Run a slash command."""
        raise NotImplementedError

    async def run_shell(self, line: ShellLine) -> None:
        """Run a `!` line."""
        raise NotImplementedError

    def cycle_level(self) -> None:
        """Switch to the next permission level."""
        raise NotImplementedError

    async def transcript(self, value: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the report of a transcript, that of this conversation without `value`, with its `shell` outputs."""
        raise NotImplementedError

    def store_attachments(self) -> bool:
        """Store the attachments of the next message; False if they are lost with the REPL."""
        return False

    # What the REPL shows

    def status_line(self, width: int) -> str:
        """Return the status line in at most `width` columns."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Read the figures of the status line again."""

    def note(self, event: e.Event) -> None:
        """Take notice of an event that was shown."""

    def take_notices(self) -> list[str]:
        """Return notices since the last call."""
        return []

    # What follows a job

    def withdraw_offer(self) -> bool:
        """Withdraw the question that follows a turn; False if none is open."""
        return False

    def turn_succeeded(self) -> None:
        """Do in the background what follows a turn."""

    def became_idle(self, ended: Job) -> None:
        """Offer the person what may follow `ended`, if no other work does."""

    def watch(self) -> None:
        """Look for turns that begin by themselves."""
