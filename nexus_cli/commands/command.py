"""What a slash command is, and the context that it works at. Knows nothing of how things look.

A command is a record that a file of this folder exports as `COMMAND`; its help is the docstring of its function. What
it shows are reports (values) by the name of their text form, which `nexus_cli.ui.reports` has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Event
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

GROUPS = ("context", "session", "model", "work", "nexus")
"""Groups of commands, in the order of `/help`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose from."""

    key: str
    """What choosing it gives back."""
    label: str


class CommandContext(Protocol):
    """Where a command was typed: the session, and the ways to the person."""

    @property
    def session(self) -> Session:
        """The session that goes on here; another one after `reopen`."""

    @property
    def options(self) -> Options:
        """What the session was opened with; `resume` names it."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """Every command by name."""

    @property
    def last_answer(self) -> str:
        """The assistant's newest text, as the model wrote it; "" before the first."""

    def say(self, text: str) -> None:
        """Tell the person something, in one or a few lines."""

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        """Show a report by the name of its text form."""

    def feed(self, event: Event) -> None:
        """Show something that the engine tells."""

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """The key of what the person picks, None when they pick nothing."""

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        """Go on with another session, or with this one under another model or permission; and say which.

        `NexusError` when that cannot be; then the present one goes on.
        """

    def start(self, text: str = "") -> None:
        """Begin a turn with `text`, without one go on with what is open; after the command has ended."""

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """Let `work` run like a turn: shown as `what`, stopped by Ctrl+C through `Session.cancel`."""

    def fill(self, text: str) -> None:
        """Put `text` into the input box, instead of what stands there."""

    def attach(self, block: str, what: str) -> None:
        """Send `block` along with the next message; the person sees `what` until then."""

    async def edit(self, text: str) -> str:
        """`text` as the person leaves it in their editor; `NexusError` when the editor fails."""

    async def copy(self, text: str) -> str:
        """Put `text` on the clipboard; how that was done, for the person."""

    def leave(self) -> None:
        """End the REPL when the command has ended."""


@dataclass(frozen=True)
class Command:
    """One slash command."""

    name: str
    group: str
    """One of `GROUPS`."""
    run: Callable[[CommandContext, str], Awaitable[None]]
    """Gets the rest of the line, stripped. Raises `NexusError` for what the person can mend."""
    usage: str = ""
    """The arguments, as `/help` shows them: `[INSTRUCTIONS]`."""
    idle: bool = False
    """During a turn it waits until that has ended."""
    complete: Callable[[CommandContext], Sequence[str]] | None = None
    """What the argument may be, for completion; quick."""
    aliases: tuple[str, ...] = ()
    """Other names that are understood and not listed; see `nexus_cli.commands.find`."""

    @property
    def summary(self) -> str:
        """The first line of the docstring of `run`."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    @property
    def help(self) -> str:
        """The docstring of `run`, without its indentation."""
        lines = (self.run.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)
