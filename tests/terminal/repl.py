"""A person at the REPL of the real program: a home that is no first run, a project, a scripted model, a terminal.

Owns what stands around the program. The program is forked from an interpreter that has imported it (`program.nursery`),
so that thirty of them take seconds; with `installed` it is the installed script from its very start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from program.nursery import born
from program.stage import Stage
from server.play import ScriptedServer
from server.script import Source
from terminal.terminal import ENTER, NEXUS, PATIENCE, Terminal

from nexus_cli.ui.render.theme import UNICODE

TESTS = Path(__file__).resolve().parent.parent
MODEL = "openai/gpt-4o"
KEPT = ("PATH", "TMPDIR", "SYSTEMROOT", "CI")
SETTINGS = "[provider]\nretries = 1\nretry_seconds = 20.0\nstall_seconds = 30.0\n"
QUESTIONS = ("Run this?", "Make this change?", "Allow ")
_ASKS = re.compile(rf"(?:run-\d+ \([^)]*\): )?(?:{'|'.join(map(re.escape, QUESTIONS))})")
"""How the row begins that asks about a call."""
RESTS = 0.35
"""Seconds without a byte after which nothing runs: a spinner moves more often."""
PAUSES = 0.15
"""The same where a spinner is seen while something runs: it is gone for longer than from one request to the next."""
SPINNER_ROWS = 8
"""From so many rows on there is one for the spinner."""
SPINS = tuple(f"{frame} " for frame in UNICODE.frames)
"""How the line begins that says that something runs."""
MARK = f"{os.getpid():07}"
"""Stands in command lines that `everywhere` looks for: other test runs of this machine have other ones."""
PATIENT = "from nexus_cli.ui.screen import screen; screen.DOUBLE_PRESS_SECONDS = 1000.0"
"""Run in the forked process: a second Ctrl+C or Esc counts as the second one, however late it comes."""
LEAD = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from terminal.leader import lead
sys.path.remove({str(TESTS)!r})
lead()
"""
"""Run in the forked process before the program: the shell's part stays behind in a process of its own."""


class Place(Stage):
    """A home, a project folder in it, a model, and the environment of a terminal that joins them."""


@contextmanager
def place(root: Path, script: Source = None, *, name: str = "project", **options: Any) -> Iterator[Place]:
    """A place below `root`, with a model that answers from `script`; `options` are the server's."""
    home = root / "home"
    folder = home / name
    folder.mkdir(parents=True)
    with ScriptedServer(script, **options) as server:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {
            "HOME": str(home),
            "NEXUS_HOME": str(home / "nexus"),
            "NEXUS_MODEL": MODEL,
            "OPENAI_API_KEY": "x",
            "OPENAI_API_BASE": server.base("chat"),
            "NO_PROXY": "127.0.0.1",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        made = Place(home, folder, server, environment)
        made.settings(SETTINGS)
        yield made


class Repl(Terminal):
    """`nexus ARGUMENTS` in a terminal of its own, at a place."""

    def __init__(
        self,
        here: Place,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        installed: bool = False,
        bug: str = "",
        **options: Any,
    ) -> None:
        """Starts it; `bug` is Python that the forked process runs first, `options` are the terminal's."""
        self.place = here
        self.server = here.server
        self.folder = here.folder
        changed: dict[str, str | None] = {**here.environment, **(env or {})}
        environment = {name: value for name, value in changed.items() if value is not None}
        self.dumb = environment.get("TERM") == "dumb"

        def forked(terminal: int) -> Any:
            return born(
                list(arguments),
                cwd=here.folder,
                env=environment,
                code=LEAD + bug,
                session=True,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
            )

        if installed:
            super().__init__([NEXUS, *arguments], env=environment, cwd=here.folder, **options)
        else:
            super().__init__(start=forked, **options)

    @classmethod
    def of_stage(cls, stage: Stage, *arguments: str, columns: int = 120, rows: int = 45) -> Repl:
        """Return the REPL of a stage, at its prompt."""
        environment = stage.environment | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        place = Place(stage.home, stage.folder, stage.server, environment)
        made = cls(place, *arguments, columns=columns, rows=rows)
        made.ready()
        return made

    def ready(self) -> None:
        """Wait for the prompt: keys are read from then on."""
        self.wait_for(lambda one: (self.dumb or b"\x1b[?2004h" in one.raw) and one.received, PATIENCE)
        self.wait_quiet(0.15)

    def say(self, words: str, *, ends: bool = True) -> None:
        """Type `words` and press Enter; with `ends` wait for the end of the turn."""
        before = len(self.server.requests)
        self.send(words + ENTER)
        if ends:
            self.requested(before + 1)
            self.idle()

    def requested(self, count: int, seconds: float = PATIENCE) -> None:
        """Wait until the model has been asked so often."""
        asked = self.server.wait_for(lambda server: len(server.requests) >= count, seconds)
        assert asked, f"{len(self.server.requests)} requests, not {count}\n{self.picture()}"

    def idle(self, timeout: float = PATIENCE) -> None:
        """Wait until nothing runs: no answer is on its way, no spinner is shown, and for a moment nothing has moved."""
        spins = not self.dumb and self.rows >= SPINNER_ROWS
        while True:
            done = self.server.wait_for(self._all_answered, timeout)
            assert done, f"an answer has not ended\n{self.picture()}"
            self.wait_for(lambda one: not self._spins(), timeout)
            self.wait_quiet(PAUSES if spins else RESTS, timeout)
            # A machine that does other things too may hold the next request or a spinner up for longer than that.
            if self._all_answered(self.server) and not self._spins():
                return

    @staticmethod
    def _all_answered(server: ScriptedServer) -> bool:
        return all(one.done for one in server.requests)

    def _spins(self) -> bool:
        return any(line.startswith(SPINS) for line in self.lines())

    def asked_about(self, tool: str, timeout: float = PATIENCE) -> None:
        """Wait until the question about a call of `tool` stands there and takes keys."""

        def opened(terminal: Terminal) -> bool:
            lines = terminal.lines()
            asked = [number for number, line in enumerate(lines) if _ASKS.match(line)]
            at = asked[-1 if self.dumb else 0] if asked else None
            if self.dumb and at is not None and any(tool.removesuffix("_file") in line for line in lines[at + 1 :]):
                return False  # that is the question before
            named = any(tool.removesuffix("_file") in line for line in terminal.scrollback())
            # Below the question, and not only in it: half a screen that was read may lack the field.
            return at is not None and named and any("or type what" in line for line in lines[at:])

        self.wait_for(opened, timeout)
        if self.dumb:
            self.wait_quiet(RESTS)

    def times(self, text: str) -> int:
        """How many lines of all that was ever shown hold `text`."""
        return sum(text in line for line in self.scrollback())


def everywhere(mark: str) -> list[str]:
    """The command lines of all processes of this machine that hold `mark`, but for this one's. Linux."""
    pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and int(path.name) != os.getpid()]
    return [line for pid in pids if mark in (line := _command_line(pid))]


def _command_line(pid: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words if word)


Opens = Callable[..., Repl]
