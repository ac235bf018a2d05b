"""What is seen of the program from inside: the help of its shell commands, and its slash commands as a front end does.

Runs in a fork of the program (`outputs.py`), with the folder and the clock of the recorded person.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from inspect import Parameter
from pathlib import Path
from typing import Any, NoReturn

from commands.conftest import FakeContext, answering
from json_shape import list_verbs
from recorded.command_lines import LEFT_OUT, READS, SLASH, WRITES
from session.played import Played

from nexus_cli.cli import app
from nexus_cli.commands import discover, find, use_slash_names
from nexus_cli.commands.command import Choice, Search
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event
from nexus_cli.core.usage import Usage
from nexus_cli.session.options import Options
from nexus_cli.ui.render.drawn_report import draw_in_theme
from nexus_cli.ui.render.theme import Theme

COLOUR = re.compile(r"\x1b\[[\d;]*m")
WIDTH = 80
SESSION = "prices"


class Transcript(FakeContext):
    """A context that keeps what a person would see, in its order."""

    def __init__(self, settings: Settings, session: str) -> None:
        self.lines: list[str] = []
        provider = Played(answering, usage=Usage(5000, 10, cost_usd=0.25))
        super().__init__(Path.cwd(), provider, "", settings, resume=session)
        self.last_answer = "Tea costs 5."

    def say(self, text: str) -> None:
        """See `CommandContext`."""
        self.lines.append(text)

    def show(self, form: str, value: Mapping[str, Any]) -> None:
        """See `CommandContext`."""
        self.lines += [f"[shows {form}]", COLOUR.sub("", draw_in_theme(form, value, WIDTH, Theme()))]

    def feed(self, event: Event) -> None:
        """See `CommandContext`."""
        self.lines.append(f"[event {event.kind}] {getattr(event, 'text', '')}".rstrip())

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        """See `CommandContext`."""
        self.lines += [f"[asks] {title}", *(f"  {one.label}  {one.detail}".rstrip() for one in choices)]
        return None

    async def ask_hidden(self, prompt: str) -> str | None:
        """See `CommandContext`."""
        self.lines.append(f"[asks for a hidden line] {prompt}")
        return None

    async def reopen(self, options: Options, settings: Settings | None = None) -> None:
        """See `CommandContext`."""
        self.lines.append("[opens a session]")
        await super().reopen(options, settings)

    def start(self, text: str = "", *, typed: bool = False, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """See `CommandContext`."""
        self.lines += ["[starts a turn]", text]

    async def busy(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """See `CommandContext`."""
        self.lines.append(f"[works] {what}")
        await work

    def fill(self, text: str) -> None:
        """See `CommandContext`."""
        self.lines += ["[fills the input box]", text]

    def attach(self, block: str, what: str) -> None:
        """See `CommandContext`."""
        self.lines += [f"[attaches] {what}", block]

    async def edit(self, text: str) -> str:
        """See `CommandContext`."""
        self.lines += ["[opens the editor]", text]
        return text + self.typed

    async def copy(self, text: str) -> str:
        """See `CommandContext`."""
        self.lines += ["[copies]", text]
        return "copied"

    def leave(self) -> None:
        """See `CommandContext`."""
        self.lines.append("[leaves]")

    def type(self, line: str) -> str:
        """Return what is seen after a slash command was typed."""
        self.lines.clear()
        try:
            self.run(line)
        except NexusError as error:
            self.lines.append(f"[error] {use_slash_names(error.line)}")
        return "\n".join(line.rstrip("\n") for line in self.lines)


def slash_blocks() -> Iterator[tuple[str, str]]:
    """Yield each slash command with what a person sees of it; each command has the session opened anew."""
    settings = load_settings_in(Path.cwd()).settings
    forms: dict[str, list[str]] = {}
    for line in filter(None, SLASH.splitlines()):
        forms.setdefault(find(line.partition(" ")[0], discover()).name, []).append(line)
    session = SESSION
    for name in discover():
        context = Transcript(settings, session)
        session = context.session.id  # its name is changed by a command
        try:
            alone = () if name == "doctor" else (name,)  # it speaks of the machine
            for line in (f"help {name}", *alone, *forms.get(name, ())):
                yield f"/{line}", context.type(line)
            if complete := find(name, discover()).complete:
                yield f"/{name} completed by Tab", "\n".join(complete(context))
        finally:
            asyncio.run(context.session.aclose())


def command_names(command: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every shell command and subcommand, such as `sessions list`."""
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        below = f"{path} {name}".strip()
        yield below
        yield from command_names(command.get_command(None, name), below)


def help_blocks() -> Iterator[tuple[str, str]]:
    """Yield each shell command with `--help`, and what a run of it prints."""
    for name in command_names(app.build(completion=False)):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
            status = app.run([*name.split(), "--help"])
        yield f"nexus {name} --help", f"[exit {status}]\n{out.getvalue()}".removesuffix("\n")


def list_unwritten() -> str:
    """Return a line for each shell command with `--json` that reads, requires no argument, and is in no list."""
    written = f"\n{READS}{WRITES}"
    lines = ""
    for noun in discover().values():
        for verb in noun.verbs:
            name = f"{noun.name} {verb.name}".strip()
            is_free = verb.opens == "read" and not any(given.default is Parameter.empty for given in verb.parameters)
            is_new = f"nexus {name}" in list_verbs() and f"\n{name}" not in written and name not in LEFT_OUT
            lines += f"{name} [--json]\n" * (is_free and is_new)
    return lines


BLOCKS = {"help": help_blocks, "slash": slash_blocks}


def main() -> NoReturn:
    """Print what the first argument names, and end."""
    if sys.argv[1] == "unwritten":
        print(list_unwritten(), end="")
    for title, text in BLOCKS.get(sys.argv[1], tuple)():
        print(f"=== {title}\n{text}")
    sys.stdout.flush()
    os._exit(0)
