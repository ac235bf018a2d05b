"""The REPL and the bare loop in pseudo-terminals, against a scripted server in a process of its own.

Owns what both kinds of measurement need: the server, the two programs started alike, keys typed one at a time.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import NEXUS, ChildFailedError, Scene, scene
from terminal.terminal import ENTER, NotSeenError, Terminal, ctrl

DELTAS = str(Path(__file__).with_name("deltas.py"))
SCRIPTED = str(Path(__file__).resolve().parent.parent / "server" / "__main__.py")
BARE = str(Path(__file__).with_name("bare_prompt.py"))
MODEL = "openai/gpt-4o"
KEYS = [chr(code) for code in range(0x430, 0x450)] + [chr(code) for code in range(0x410, 0x430)]
"""Letters that no answer holds, so that each is seen when it is echoed and not before."""
START_SECONDS = 40.0


@dataclass(frozen=True)
class Typed:
    """A scene whose model is the server."""

    scene: Scene
    url: str

    @contextmanager
    def bare(self, *, answers: bool) -> Iterator[Terminal]:
        """The bare loop, with its prompt drawn; the answer has begun to come."""
        arguments = [self.url] if answers else []
        with self.start([sys.executable, BARE, *arguments]) as terminal:
            seen(terminal, "word" if answers else ">")
            yield terminal

    @contextmanager
    def nexus(self, *, answers: bool = True) -> Iterator[Terminal]:
        """The REPL in a turn: the answer has begun to come, or (without `answers`) the model is silent."""
        with self.nexus_prompt() as terminal:
            seen(terminal, "\x1b[?2004h")
            time.sleep(0.5)
            terminal.send("go" + ENTER)
            if answers:
                seen(terminal, "word")
            yield terminal

    def nexus_prompt(self) -> Terminal:
        """Return the REPL from its very start."""
        return self.start([NEXUS])

    def start(self, argv: list[str]) -> Terminal:
        """Return `argv` in a terminal."""
        return Terminal(argv, env=self.scene.environment, cwd=self.scene.folder, emulate=False)


def seen(terminal: Terminal, text: str) -> None:
    """Wait until the terminal is sent `text`; `ChildFailedError` if it does not come."""
    try:
        terminal.wait_for(lambda one: text.encode() in one.raw, START_SECONDS)
    except NotSeenError as error:
        raise ChildFailedError(f"{error}: {bytes(terminal.raw[-500:])!r}") from None


def echoes(terminal: Terminal, keys: int, pause: float = 0.05) -> list[float]:
    """Seconds from each of so many keys to its echo, typed at irregular times; `ChildFailedError` without an echo."""
    rng = random.Random(5)
    taken: list[float] = []
    for number in range(keys):
        letter = KEYS[number % len(KEYS)].encode()
        if number and number % len(KEYS) == 0:
            terminal.send(ctrl("u"))
            time.sleep(0.3)
        taken.append(_echo(terminal, letter))
        time.sleep(pause * rng.uniform(0.5, 1.5))
    terminal.send(ctrl("u"))
    return taken


def _echo(terminal: Terminal, letter: bytes) -> float:
    arrived: list[float] = []
    tail = b""

    def heard(data: bytes) -> None:
        nonlocal tail
        tail = tail[-8:] + data
        if not arrived and letter in tail:
            arrived.append(time.perf_counter())

    terminal.heard = heard
    start = time.perf_counter()
    terminal.send(letter)
    try:
        terminal.wait_for(lambda one: arrived, 10)
    except NotSeenError:
        raise ChildFailedError(f"a key was not echoed within 10 s: {bytes(terminal.raw[-300:])!r}") from None
    return arrived[0] - start


@contextmanager
def typed(server: Sequence[str]) -> Iterator[Typed]:
    """A scene against a server, which `server` starts and which prints its `url`; both end with it."""
    with scene(TERM="xterm-256color", LANG="C.UTF-8") as place:
        process = subprocess.Popen([sys.executable, *server], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"] + "/v1"
            settings = Path(place.environment["NEXUS_HOME"]) / "config" / "config.toml"
            settings.parent.mkdir(parents=True)
            settings.write_text("[provider]\nretries = 1\n")
            reach = {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": url, "NEXUS_MODEL": MODEL}
            yield Typed(replace(place, environment={**place.environment, **reach}), url)
        finally:
            process.terminate()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
