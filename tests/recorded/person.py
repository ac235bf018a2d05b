"""A person with a machine of their own who uses the program, and what the provider receives meanwhile.

Everything that a request can show of the surroundings is fixed here: home, project, host, user, clock, zone, locale,
terminal. The clock stands at the same morning for everybody and goes on by a minute with every step. What cannot be
fixed is replaced, by the list in `replacements.py`. Nothing here knows more of the program than who types its name.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recorded.forks import SECONDS, Run, Starts
from recorded.replacements import Replacements
from recorded.wire import Request, Step, body_lines
from server.play import ScriptedServer
from server.received import Received
from terminal.terminal import ENTER, Terminal

MORNING = 1_736_845_230.0
"""2025-01-14 09:00:30 UTC: before the files that the program looks at are made, on every machine."""
MINUTE = 60.0
HALF = 0.0005
"""Half a millisecond: the clock is never just before a minute."""
SLOW = 20.0
"""How much slower the clock goes."""
SPINNER = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
"""How a row begins that says that something runs."""
QUESTIONS = ("Run this?", "Make this change?", "Allow ")
"""How the row begins that asks about a call."""
HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "anthropic-beta", "content-type")
"""Headers that providers act on; the others name the library, the host and the length."""
SETTINGS = """[provider]
retries = 1
retry_seconds = 300.0
stall_seconds = 300.0

[spaces]
name = "Husam"

[sandbox]
backend = "off"

[models."openai/scripted"]
window = 128000
max_output = 8192
input_price = 2.0
output_price = 8.0
"""
MODEL = "openai/scripted"
ENDED = {"fault": {"status": 400, "message": "the script has ended"}}
"""What the model answers when its script says nothing more."""


class Person:
    """A person, their machine and a scripted model, for one session. Use it in a `with`."""

    def __init__(self, starts: Starts, *, model: str = MODEL, slow: float = SLOW) -> None:
        self.starts = starts
        self._slow = slow
        self.root = _own_folder()
        self.home = self.root / "home"
        self.folder = self.home / "project"
        self.folder.mkdir(parents=True)
        self.server = ScriptedServer().start()
        self.steps: list[Step] = []
        self.seconds = 0.0
        """CPU seconds of all that was run."""
        self.replacements = Replacements(str(self.root), self.server.port)
        self.clock = self.root / "clock"
        self._now = MORNING
        self._taken = 0
        self._script: list[str] = []
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "NEXUS_HOME": str(self.home / "nexus"),
            "NEXUS_MODEL": model,
            "OPENAI_API_KEY": "sk-nobody",
            "OPENAI_API_BASE": self.server.base("chat"),
            "NO_PROXY": "127.0.0.1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "USER": "husam",
            "LOGNAME": "husam",
            "SHELL": "/bin/bash",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "CI": "true",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.settings("")

    # -- what there is before

    def settings(self, text: str) -> None:
        """Write the personal settings: `text` after those that everybody has."""
        path = self.home / "nexus" / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SETTINGS}{text}", encoding="utf-8")
        self._script += [f"settings {row}" for row in text.split("\n") if row]

    def uses(self, model: str) -> None:
        """Let the environment name this model from now on."""
        self.environment["NEXUS_MODEL"] = model
        self._script.append(f"NEXUS_MODEL={model}")

    def file(self, name: str, content: str | bytes) -> None:
        """Put a file into the project, or change it; its time is that of the clock."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(data)
        os.utime(path, (self._now, self._now))
        said = data.decode() if data.isascii() and len(data) < 400 else f"({len(data):,} bytes)"
        self._script.append(f"file {name}: {json.dumps(said, ensure_ascii=False)}")

    def date(self, name: str) -> None:
        """Give a file that the program has written a time of the clock: the kernel gave it one of its own."""
        os.utime(self.folder / name, (self._now, self._now))

    def repository(self) -> None:
        """Make the project a repository with one commit."""
        noon = "2025-01-13T12:00:00Z"
        env = {**self.environment, "GIT_AUTHOR_DATE": noon, "GIT_COMMITTER_DATE": noon}
        who = ("-c", "user.name=Husam", "-c", "user.email=husam@example.org")
        for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "begin")):
            subprocess.run(["git", *words], cwd=self.folder, env=env, check=True)
        self._script.append("a repository with one commit")

    def model(self, *steps: Any, rules: tuple[Any, ...] = (), default: Any = None) -> None:
        """Let the model answer so from now on: steps in their order; before them, rules; after them, the default."""
        script: dict[str, Any] = {"steps": list(steps), "rules": list(rules)}
        script["default"] = ENDED if default is None else default
        self.server.load(script)
        rows = [*(("rule", one) for one in rules), *(("model", one) for one in steps)]
        rows += [("model, from then on", default)] if default is not None else []
        self._script += [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in rows]

    def later(self, days: float = 0, hours: float = 0) -> None:
        """Let time pass."""
        self._now += 86_400 * days + 3_600 * hours
        self._script.append(f"later: {days:g} days, {hours:g} hours")

    # -- what they do

    def nexus(self, *arguments: str, stdin: bytes | None = None, exits: int | None = 0, **more: Any) -> str:
        """Run `nexus ARGUMENTS` to its end and return its stdout; `exits` is the status that it ends with."""
        with self.step(f"nexus {shlex.join(arguments)}", **more) as step:
            out, told, given = (self.root / name for name in ("stdout", "stderr", "stdin"))
            given.write_bytes(stdin or b"")
            if stdin is not None:
                step.script.append(f"stdin {json.dumps(stdin.decode())}")
            with given.open("rb") as ours, out.open("wb") as printed, told.open("wb") as said:
                source = ours if stdin is not None else open(os.devnull, "rb")  # noqa: SIM115
                run = self._start(arguments, [source.fileno(), printed.fileno(), said.fileno()])
            status = run.wait(SECONDS)
            self.seconds += run.seconds
            text = out.read_text(encoding="utf-8")
            step.end = [f"exit {status}", *(f"  |{row}" for row in self.replacements.of(text).splitlines())]
            assert exits in (None, status), f"exit {status}, not {exits}: {told.read_text(encoding='utf-8')}{text}"
        return text

    def newest_session(self) -> str:
        """Return the id of the newest session, as `nexus sessions list` has it."""
        listed = json.loads(self.nexus("sessions", "list", "--all", "--json"))
        self.steps.pop()  # the list is no part of the session
        return str(listed["sessions"][0]["id"])

    def killed_at(self, file: str, *arguments: str) -> None:
        """Run `nexus ARGUMENTS`, and kill it as soon as the project has this file."""
        with self.step(f"nexus {shlex.join(arguments)}; killed when {file} is there") as step:
            with open(os.devnull, "r+b") as nothing:
                run = self._start(arguments, [nothing.fileno()] * 3)
            self.until_file(file)
            run.send_signal(signal.SIGKILL)
            step.end = [f"exit {run.wait(SECONDS)}"]

    def until_file(self, name: str) -> None:
        """Wait until the project has this file."""
        deadline = time.monotonic() + SECONDS
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.05)

    @contextmanager
    def terminal(self, *arguments: str) -> Iterator[Seat]:
        """Sit at `nexus ARGUMENTS` in a terminal of 100 columns and 40 rows."""
        with self.step(f"nexus {shlex.join(arguments)}".strip()):
            runs: list[Run] = []

            def begin(terminal: int) -> Run:
                runs.append(self._start(arguments, [terminal] * 3, terminal=True))
                return runs[0]

            seat = Seat(self, Terminal(start=begin, columns=100, rows=40), runs[0])
            seat.ready()
        with seat.screen:
            yield seat
            self.seconds += seat.leave()

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Callable[..., Any]]:
        """Run `nexus serve`; gives a function that calls a method of it: `call("send", agent_id="a", content="hi")`.

        What begins with a slash is read as a page instead.
        """
        reading, writing = os.pipe()
        with open(os.devnull, "r+b") as nothing, self.step(f"nexus serve --json {shlex.join(arguments)}".strip()):
            run = self._start(["serve", "--json", *arguments], [nothing.fileno(), writing, nothing.fileno()])
            os.close(writing)
            with os.fdopen(reading, encoding="utf-8") as printed:
                place = json.loads(printed.readline())
        token = Path(place["token_file"]).read_text(encoding="utf-8").strip()

        def call(method: str, **params: Any) -> Any:
            with self.step(f"{method} {json.dumps(params, ensure_ascii=False)}") as step:
                value = _call(place["url"], token, method, params)
                step.end = [f"exit {'error' if 'error' in value else 'ok'}"]
            return value

        try:
            yield call
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(SECONDS)
            self.seconds += run.seconds

    @contextmanager
    def step(self, title: str, *, side_by_side: bool = False) -> Iterator[Step]:
        """What happens within the block is one step: its requests are those that arrive in it.

        With `side_by_side` several lines of requests run at once: they are put in an order that no clock has made.
        """
        self._now += MINUTE
        self.set_clock()
        made = Step(self.replacements.of(title), [*map(self.replacements.of, self._script)])
        self._script.clear()
        self.steps.append(made)
        yield made
        arrived = self.server.requests[self._taken :]
        self._taken += len(arrived)
        made.requests = [self._request(one) for one in (_in_lines(arrived) if side_by_side else arrived)]

    def set_clock(self) -> None:
        """Let the clock go on from the person's minute: that of the last step."""
        offset = self._now + HALF - time.monotonic() / self._slow
        with self.clock.open("r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("dd", offset, self._slow))

    def _request(self, received: Received) -> Request:
        lines, spelling = body_lines(received.raw)
        headers = "; ".join(f"{name}: {received.headers[name]}" for name in HEADERS if name in received.headers)
        head = f"{received.method} {received.path}; {headers}{spelling}"
        return Request(self.replacements.of(head), [self.replacements.of(line) for line in lines])

    def _start(self, arguments: Any, streams: list[int], **more: Any) -> Run:
        return self.starts.start(arguments, self.folder, self.environment, self.clock, streams, **more)

    def __enter__(self) -> Person:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.server.close()
        shutil.rmtree(self.root, ignore_errors=True)
        if kind is None and self.server.errors:
            raise self.server.errors[0]


class Seat:
    """A person at the terminal."""

    def __init__(self, person: Person, screen: Terminal, run: Run) -> None:
        self.person = person
        self.run = run
        self.screen = screen

    def ready(self) -> None:
        """Wait for the prompt."""
        self.screen.wait_for(lambda one: b"\x1b[?2004h" in one.raw, SECONDS)
        self.screen.wait_quiet(0.3)

    def say(self, words: str, requests: int = 1, **more: Any) -> None:
        """Type `words` and Enter, and wait for so many requests and the end of what they began."""
        with self.doing(f"> {words}", requests, **more):
            self.type(words)

    def type(self, words: str) -> None:
        """Type `words` and Enter."""
        self.screen.send(words)
        self.screen.wait_for(lambda one: words.strip()[-20:] in one.text, SECONDS)
        if not self._spins():  # a menu must not take the Enter; there is none while something runs
            self.screen.wait_quiet(0.2)
        self.screen.send(ENTER)

    def until_file(self, name: str) -> None:
        """Wait until the project has this file."""
        self.person.until_file(name)

    def answer(self, words: str, about: str) -> None:
        """Answer the question in which `about` stands."""

        def asked(one: Terminal) -> bool:
            rows = one.lines()
            at = next((number for number, row in enumerate(rows) if row.startswith(QUESTIONS)), None)
            return (
                at is not None and about in "\n".join(one.scrollback()) and any("or type" in row for row in rows[at:])
            )

        self.screen.wait_for(asked, SECONDS)
        self.screen.wait_quiet(0.4)
        self.type(words)
        self.screen.wait_for(lambda one: not asked(one) or about not in one.text, SECONDS)

    @contextmanager
    def doing(self, title: str, requests: int, **more: Any) -> Iterator[None]:
        """Do what is in the block as one step, and wait for so many requests and the end of what they began."""
        server = self.person.server
        with self.person.step(title, **more):
            before = len(server.requests)
            yield
            assert server.wait_for(lambda one: len(one.requests) >= before + requests, SECONDS), self._missing(before)
            self.idle()
            assert len(server.requests) == before + requests, self._missing(before)

    def idle(self) -> None:
        """Wait until every answer has been read and nothing moves."""
        server = self.person.server
        while True:
            assert server.wait_for(lambda one: all(item.done for item in one.requests), SECONDS)
            self.screen.wait_for(lambda one: not self._spins(), SECONDS)
            self.screen.wait_quiet(0.4, SECONDS)
            if all(item.done for item in server.requests) and not self._spins():
                return

    def leave(self) -> float:
        """Leave the program, and return its CPU seconds."""
        self.screen.send(f"exit{ENTER}")
        self.screen.status(SECONDS)
        return self.run.seconds

    def _spins(self) -> bool:
        return any(line.startswith(SPINNER) for line in self.screen.lines())

    def _missing(self, before: int) -> str:
        return f"{len(self.person.server.requests) - before} requests\n{self.screen.picture()}"


def _own_folder() -> Path:
    """Make a folder whose name counts as many characters and tokens as that of any other run."""
    while True:
        made = Path("/tmp").resolve() / f"nexus-recorded-{random.SystemRandom().randrange(100_000, 1_000_000)}"
        with suppress(FileExistsError):
            made.mkdir(0o700)
            return made


def _in_lines(requests: list[Received]) -> list[Received]:
    """Order requests of several lines: each line as it came, the lines by their first message of a person."""

    def begin(one: Received) -> str:
        messages = one.body.get("messages") or one.body.get("contents") or [{}]
        first: Any = next((item for item in messages if item.get("role") == "user"), {})
        return json.dumps(first)

    return sorted(requests, key=begin)


def _call(url: str, token: str, method: str, params: Mapping[str, Any]) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    is_page = method.startswith("/")
    asked = urllib.request.Request(f"{url}{method if is_page else '/rpc'}", None if is_page else body, headers)
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        return json.load(answer)


def later(work: Callable[[], object]) -> threading.Thread:
    """Do `work` in a thread that has begun."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
