"""One person with a home, a project and a scripted model of their own, and the installed program run as they run it.

Owns the environment of the children and their end. What the model answers is `server`'s business, what is expected of
the program that of the tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from program.nursery import SCRIPTED, Child, born, launcher
from server.play import ScriptedServer
from server.script import Source

NEXUS = str(Path(sys.executable).with_name("nexus"))
MODEL = SCRIPTED
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "CI")
SECONDS = 600
"""After so long a child is ended and its test fails."""
PRICED = f'[models."{MODEL}"]\nwindow = 128000\nmax_output = 8192\ninput_price = 2.0\noutput_price = 8.0\n'
QUICK = "[provider]\nretries = 1\nretry_seconds = 60.0\nstall_seconds = 30.0\n"
"""Long enough for a machine that does other things too: a try that stalls there is one try less."""

BY_PYTHON = f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n"
"""How a script begins that this Python runs, as pip writes it: its path may have blanks, or be too long for a `#!`."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Done:
    """What a child left."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Its stdout."""
        return self.stdout.decode()

    @property
    def told(self) -> list[str]:
        """The lines of its stderr."""
        return self.stderr.decode().splitlines()

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object on its stdout."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value

    @property
    def kind(self) -> str:
        """`error.kind` of the result."""
        return str((self.result["error"] or {}).get("kind", ""))


@dataclass
class Stage:
    """Where the program runs: a home, a project folder, an environment, a model."""

    home: Path
    folder: Path
    server: ScriptedServer
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def nexus_home(self) -> Path:
        """What NEXUS_HOME names."""
        return self.home / "nexus"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.nexus_home / "data" / "ledger.db"

    @property
    def results(self) -> list[str]:
        """The results of the calls in the newest request, in their order."""
        return self.server.requests[-1].results

    def settings(self, text: str) -> Path:
        """Writes the personal config.toml."""
        path = self.nexus_home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, source: Source) -> None:
        """Lets the model answer from `source` from now on."""
        self.server.load(source)

    def env(self, changes: dict[str, str | None] | None = None) -> dict[str, str]:
        """The environment with `changes`; None takes a variable out."""
        merged: dict[str, str | None] = {**self.environment, **(changes or {})}
        return {name: value for name, value in merged.items() if value is not None}

    @property
    def program(self) -> str:
        """The file that is run as `nexus`."""
        return NEXUS

    def begin(
        self,
        *arguments: str,
        bug: str = "",
        env: dict[str, str | None] | None = None,
        installed: bool = False,
        program: str = "",
        **more: Any,
    ) -> subprocess.Popen[bytes] | Child:
        """The program, started; whoever starts it ends it (`end`). `bug` is Python that breaks it before it starts.

        It is forked from an interpreter that has imported it (`nursery`), or with `installed` the installed script.
        """
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.folder,
        }
        if program or installed:
            return subprocess.Popen([program or NEXUS, *arguments], env=self.env(env), **{**streams, **more})
        return born(list(arguments), env=self.env(env), code=bug, **{**streams, **more})

    def run(self, *arguments: str, stdin: bytes | None = None, **more: Any) -> Done:
        """`nexus ARGUMENTS` to its end."""
        given: dict[str, Any] = {"stdin": subprocess.PIPE} if stdin is not None else {}
        child = self.begin(*arguments, **{**given, **more})
        try:
            stdout, stderr = child.communicate(stdin, timeout=SECONDS)
        finally:
            end(child)
        return Done(child.returncode, stdout or b"", stderr or b"")

    def ask(self, *arguments: str, **more: Any) -> Done:
        """`nexus ask ARGUMENTS`."""
        return self.run("ask", *arguments, **more)

    def shell(self, line: str, *, installed: bool = False, **more: Any) -> Done:
        """A line of bash in which `nexus` is the program, forked as in `begin`, or with `installed` the script."""
        program = NEXUS if installed else launcher()
        path = f"{Path(program).parent}{os.pathsep}{self.environment['PATH']}"
        env = self.env({"PATH": path, **more.pop("env", {})})
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", line], env=env, cwd=self.folder, start_new_session=True, **streams, **more
        )
        try:
            stdout, stderr = child.communicate(timeout=SECONDS)
        finally:
            end(child, group=True)
        return Done(child.returncode, stdout, stderr)


def end(child: subprocess.Popen[bytes] | Child, *, group: bool = False) -> None:
    """Ends a child that still runs, with its group where it leads one."""
    if child.poll() is None:
        if group:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream:
            stream.close()


@contextmanager
def stage(root: Path, source: Source = None, **options: Any) -> Iterator[Stage]:
    """A stage below `root`, with a model that answers from `source`."""
    folder = root / "project"
    folder.mkdir(parents=True)
    with ScriptedServer(source, **options) as server:
        home = root / "home"
        home.mkdir()
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {
            "HOME": str(home),
            "NEXUS_HOME": str(home / "nexus"),
            "NEXUS_MODEL": MODEL,
            "OPENAI_API_KEY": "sk-nobody",
            "OPENAI_API_BASE": server.base("chat"),
            "NO_PROXY": "127.0.0.1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        made = Stage(home, folder, server, environment)
        made.settings(QUICK + PRICED)
        yield made


def together(work: Callable[[T], R], items: Iterable[T], workers: int = 3) -> list[R]:
    """`work` over `items`, a few at a time, since children also wait."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def clean(done: Done) -> bool:
    """No traceback, and every line on stderr one of ours."""
    return b"Traceback" not in done.stderr and all(line.startswith(("nexus: ", "Resume with: ")) for line in done.told)


def until(condition: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Waits for something that another process does; False when it never came."""
    limit, pause = time.monotonic() + seconds, 0.01
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(pause)
        pause = min(0.25, 1.3 * pause)
    return True


def calls(*made: Sequence[Any]) -> dict[str, Any]:
    """A step of the model with calls: `calls(("bash", {"command": "ls"}), ...)`."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in made]}


class Seen:
    """What the scenes of a file show, by their names. A scene is played once, when the first test looks at it; one that
    fails fails only the tests that look at it."""

    def __init__(self, folder_for: Callable[[str], Path], scenes: Iterable[Callable[[Path], Any]]) -> None:
        self._folder_for = folder_for
        self._scenes = {scene.__name__: scene for scene in scenes}
        self._shown: dict[str, Any] = {}
        self._failed: dict[str, Exception] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._shown and name not in self._failed:
            try:
                self._shown[name] = self._scenes[name](self._folder_for(name))
            except Exception as error:  # raised again by every test that looks at this scene
                self._failed[name] = error
        if name in self._failed:
            raise self._failed[name]
        return self._shown[name]


def play(folder_for: Callable[[str], Path], *scenes: Callable[[Path], Any]) -> Seen:
    """Make the scenes of a file known, each with a folder of its own."""
    return Seen(folder_for, scenes)
