"""The options that `nexus` and `nexus ask` share (interface.md section 2), declared once, and their values."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from nexus_cli.config import setting_rules
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import LEVELS

MOST = setting_rules.MOST
"""The largest whole number that an option takes."""


def said(context: typer.Context, option: typer.CallbackParam, value: str) -> str:
    """A callback of options and arguments: `value`; an empty one that was given (an unset variable of a script) must
    not mean that none was."""
    given = str(context.get_parameter_source(option.name or "")).endswith("COMMANDLINE")
    if given and not value.strip():
        name = option.opts[0] if option.opts[0].startswith("-") else option.human_readable_name
        raise NexusError("usage", name, "its value is empty", "Give one, or leave the option away")
    return value


Model = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME", help="A litellm model name, or an alias.", callback=said)
]
Effort = Annotated[
    str, typer.Option("--effort", metavar="LEVEL", help="Reasoning effort, as the model names it.", callback=said)
]
Continue = Annotated[bool, typer.Option("--continue", "-c", help="Go on with the newest session of this folder.")]
Resume = Annotated[
    str,
    typer.Option(
        "--resume", "-r", metavar="ID", help="Go on with a session: id, unique prefix, or name.", callback=said
    ),
]
Directory = Annotated[str, typer.Option("--cd", "-C", metavar="DIR", help="Work in DIR.", callback=said)]
RecipeName = Annotated[
    str, typer.Option("--recipe", metavar="NAME", help="Which sections and powers the run has.", callback=said)
]
NoTools = Annotated[bool, typer.Option("--no-tools", help="Refuse every tool call.")]
Allow = Annotated[
    str,
    typer.Option(
        "--allow",
        metavar="read|edit|all",
        help="What runs without asking: reading in the project; also edits in it; also commands and the rest.",
        callback=said,
    ),
]
NoSave = Annotated[bool, typer.Option("--no-save", help="Write nothing to the ledger.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell more on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Tell only errors on stderr.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SessionKey = Annotated[
    str,
    typer.Option(
        "--session", metavar="ID", help="Id, unique prefix or name; default: the newest of this folder.", callback=said
    ),
]


GO_THERE = "It works in the folder that it is started in: cd DIR first"
"""For the commands that have no --cd."""
_LONG = {"newest": "--continue", "directory": "--cd"}
"""The options that are not named like their values."""


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """Values of the shared options; the defaults mean that an option was not given."""

    model: str = ""
    effort: str = ""
    newest: bool = False
    resume: str = ""
    directory: str = ""
    recipe: str = ""
    no_tools: bool = False
    allow: str = ""
    no_save: bool = False
    verbose: bool = False
    quiet: bool = False

    def over(self, earlier: SharedOptions | None) -> SharedOptions:
        """These options where they were given, else those that stood before the command."""
        if earlier is None:
            return self
        mine = ((f.name, getattr(self, f.name), getattr(earlier, f.name)) for f in fields(self))
        return SharedOptions(**{name: own or other for name, own, other in mine})

    def check(self) -> None:
        """`NexusError("usage", ...)` where values contradict each other or do not exist."""
        if self.allow and self.allow not in LEVELS:
            raise NexusError(
                "usage", f"wrong value for --allow: '{self.allow}'", "it is read, edit or all", "See nexus ask --help"
            )
        if self.newest and self.resume:
            raise NexusError("usage", "--continue and --resume", "they name two sessions", "Give one of them")

    @property
    def given(self) -> list[str]:
        """The options that were given, by their long names."""
        names = (f.name for f in fields(self) if getattr(self, f.name) != f.default)
        return [_LONG.get(name, f"--{name.replace('_', '-')}") for name in names]

    @property
    def folder(self) -> Path:
        """The working folder of the run, absolute."""
        return working_folder(self.directory)


def working_folder(directory: str = "", named: str = "--cd") -> Path:
    """`directory`, which was given as `named`, else the process's own folder, absolute; `NexusError("usage", ...)` when
    it is not there."""
    try:
        folder = Path(directory).expanduser() if directory else Path.cwd()
        folder = folder if folder.is_absolute() else Path.cwd() / folder
        if not folder.is_dir():
            raise NexusError("usage", f"{named} {directory}", "there is no such folder", "Name one that exists")
        return Path(os.path.realpath(folder))
    except OSError as error:
        why = error.strerror or "it cannot be entered"
        raise NexusError("usage", "the working folder", why, "Change to a folder that exists") from error
