"""The twin of a slash command: a shell command that shows the same report, built by the same function.

The function's parameters after the source are the arguments and options of the shell command (`Annotated` with an
`Option`), its docstring is the help. `--session` and `--json` are added by `nexus_cli.cli.twins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nexus_cli.config.worktree_record import project_identity

if TYPE_CHECKING:
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.tool import Tool
    from nexus_cli.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Source:
    """What reports are built from: the open session, or what a shell command names."""

    ledger: Ledger
    session: Callable[[], str]
    """Returns the id of the session; "" for a shell command that is of none."""
    settings: Callable[[], Settings]
    tools: Callable[[], Iterable[Tool]]
    folder: Path
    prefix: str = "/"
    """The text before the name of a command: `/` or `nexus `."""
    is_named: bool = False
    """True if the person named the session."""

    @property
    def project(self) -> str:
        """The identity of the project; a worktree has that of its project."""
        return str(project_identity(self.folder))


class Report(NamedTuple):
    """A value, and the name of its text form."""

    form: str
    value: Mapping[str, Any]
    whole: bool = False
    """True if lines are not cut in a pipe."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument or option of a shell command; the type of its parameter says the rest."""

    metavar: str | None = None
    help: str = ""
    name: str = ""
    """Its name in the shell, where that is not the parameter's."""
    is_argument: bool = False
    least: int = 1
    """The least value of a number; 0 for a text that may be empty."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A shell command, or a subcommand."""

    build: Callable[..., Report]
    """Takes a `Source` and the options. Raises `NexusError` for errors that the person can fix."""
    verb: str = ""
    """The name of a subcommand; "" for the command itself."""
    opens: Literal["read", "write", "create"] = "read"
    """How the shell opens the ledger."""
    of_session: bool = False
    """True if it has `--session`."""
