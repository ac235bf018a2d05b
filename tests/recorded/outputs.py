"""Record what every command prints, or compare it: `python tests/recorded/outputs.py [write [NAME...]]`.

`outputs/` has the expected texts: the help of every command (`help.txt`), what the shell commands print in a home and a
project with something of everything (`shell.txt`, `changes.txt`, `mistakes.txt`), the slash commands (`slash.txt`) and
the server (`server.txt`). A block begins with a line `=== COMMAND`, then come the exit status, stdout, and stderr if it
has anything. What is not run is `LEFT_OUT` of `command_lines.py`, with the reason, and `nexus doctor` but for its
instructions, which speaks of the machine alone.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if __name__ == "__main__":  # started as a file, its folder is on the path instead of the one above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from program import nursery
from recorded.command_lines import MARKING, MISTAKES, READS, WRITES
from recorded.forks import SECONDS, build_library
from recorded.person import Person
from recorded.replacements import REPORTS, Replacements
from recorded.world import make_world

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "outputs"
KIND = "recorded"
"""The process that forks with the clock of a recording."""
STANDING = 1e9
"""How much slower the clock goes than the real one."""
FIXED = """import asyncio, ctypes, os, random, time
ctypes.CDLL(None).recorded_clock({clock!r})
drawn, monotonic, begun = {{}}, time.monotonic, time.monotonic()
os.urandom = lambda size: drawn.setdefault(size, random.Random(f"{{time.time() // 60}} {{size}}")).randbytes(size)
asyncio.BaseEventLoop.time = lambda loop: monotonic()
time.monotonic = lambda: begun + (monotonic() - begun) / 1000
from nexus_cli.context import sysinfo
sysinfo.RELEASE_FILES = ()
os.uname = lambda: os.uname_result(("Linux", "recorded", "6.1.0", "#1", "x86_64"))
"""
"""Python that runs in the program first: the clock stands still, nothing takes as long as a second, what is drawn at
random depends on the minute, and the machine, whose words a request counts, is always the same."""
INSIDE = f"import sys; sys.path.append({str(HERE.parent)!r}); from recorded.inside import main; main()"
READERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_agents", {}),
    ("list_sessions", {}),
    ("list_sessions", {"limit": 1}),
    ("get_tokens", {"agent_id": "a"}),
    ("get_status", {"agent_id": "a"}),
    ("get_context", {"agent_id": "a"}),
    ("list_workers", {"agent_id": "a"}),
    ("get_messages", {"agent_id": "a"}),
    ("get_messages", {"agent_id": "a", "offset": 1, "limit": 2}),
    ("get_conversation", {"agent_id": "a"}),
    ("get_conversation", {"agent_id": "a", "turns": 1}),
    ("worktree_list", {}),
    ("worktree_diff", {"name": "beside"}),
    ("worktree_diff", {"name": "beside", "stat": True}),
    ("run_command", {"agent_id": "a", "name": "context"}),
    ("run_command", {"agent_id": "a", "name": "cost"}),
    ("run_command", {"agent_id": "a", "name": "add-dir"}),
    ("get_tokens", {"agent_id": "nobody"}),
    ("get_tokens", {}),
    ("worktree_diff", {"name": "nowhere"}),
    ("nothing", {}),
    ("list_commands", {"agent_id": "a"}),
)
"""Methods of the server with their parameters; the agent `a` has the session `prices`."""
CHANGING = {
    "choose",
    "create_agent",
    "destroy_agent",
    "send",
    "steer",
    "answer",
    "unqueue",
    "release",
    "cancel",
    "approve",
    "compact",
    "worktree_apply",
    "worktree_remove",
    "shutdown",
}
"""Methods that read nothing."""


class Forked:
    """Starts runs, forked from the process of `program.nursery`, that see the clock of a recording."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="nexus-forks-"))
        nursery.LIBRARIES[KIND] = build_library(Path(folder))

    def start(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str], clock: Path, streams: Sequence[int], **more: Any
    ) -> Any:
        """Begin a run; `streams` are its stdin, stdout and stderr; `code` is run in it first."""
        code = f"{FIXED.format(clock=os.fsencode(clock))}{more.get('code', '')}"
        named = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
        return Begun(nursery.born([*arguments], cwd=cwd, env=env, code=code, kind=KIND, session=True, **named))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Begun:
    """A run that has begun."""

    seconds = 0.0

    def __init__(self, child: nursery.Child) -> None:
        self.pid, self.wait, self.poll, self.send_signal = child.pid, child.wait, child.poll, child.send_signal


class Recorder:
    """Runs command lines in the world of a person, and keeps what they print by the name of its file."""

    def __init__(self, person: Person, is_short: bool) -> None:
        self.person = person
        self._is_short = is_short
        """Whether of the lines that change nothing one of each command is enough."""
        self.texts: dict[str, list[str]] = {}
        found = json.loads(self._run(["sessions", "list", "--all", "--json"])[1])["sessions"]
        self._ids = {"SESSION": found[0]["id"], "FIRST": found[-1]["id"], "HOME": str(person.home)}
        decisions = json.loads(self._run(["why", "--session", "prices", "--json"])[1])["decisions"]
        self._ids["CALL"] = next(one["id"] for one in decisions if one["decision"] == "deny")

    def _run(self, words: Sequence[str], code: str = "") -> tuple[int, str, str]:
        """Run `nexus WORDS` to its end, at the person's minute; `code` is run in it first."""
        person = self.person
        person.set_clock()
        with ExitStack() as stack:
            out, told = (stack.enter_context((person.root / name).open("w+b")) for name in ("stdout", "stderr"))
            nothing = stack.enter_context(open(os.devnull, "rb"))
            streams = [one.fileno() for one in (nothing, out, told)]
            run = person.starts.start(words, person.folder, person.environment, person.clock, streams, code=code)
            status = run.wait(SECONDS)
            printed, said = (Path(one.name).read_text(encoding="utf-8") for one in (out, told))
            return status, printed, said

    def run(self, name: str, words: Sequence[str]) -> None:
        """Run a command line, and put what it prints into the file of this name."""
        status, out, told = self._run([self._ids.get(word, word).replace("HOME", self._ids["HOME"]) for word in words])
        self.add(name, f"nexus {shlex.join(words)}", f"[exit {status}]\n{out}", told)

    def read(self, name: str, lines: str, depth: int = 2) -> None:
        """Run these command lines, which change nothing: each, or one of each command with so many words."""
        written = list_written(lines)
        for words in list_one_of_each(written, depth) if self._is_short else written:
            self.run(name, words)

    def change(self, name: str, lines: str) -> None:
        """Run these command lines, each a minute after the one before."""
        for words in list_written(lines):
            self.person.later(hours=1 / 60)
            self.run(name, words)

    def inside(self, what: str) -> str:
        """Return what `inside.py` prints of `what`."""
        status, out, told = self._run([what], INSIDE)
        assert status == 0, f"{out}{told}"
        return out

    def add(self, name: str, title: str, text: str, told: str = "") -> None:
        """Put a block into the file of this name."""
        stderr = f"[stderr]\n{told}" if told else ""
        self.texts.setdefault(name, []).append(f"=== {title}\n{_ended(text)}{_ended(stderr)}")


def list_written(lines: str) -> list[list[str]]:
    """Return the words of each command line, of those with `[--json]` twice."""
    written = []
    for line in filter(None, lines.splitlines()):
        plain = shlex.split(line.removesuffix(" [--json]"))
        written += [plain, [*plain, "--json"]] if line.endswith(" [--json]") else [plain]
    return written


def list_one_of_each(lines: Iterable[list[str]], depth: int = 2) -> list[list[str]]:
    """Return one line of each command, told by its first `depth` words: the first, or where it has a verb the first
    with `--json`."""
    chosen: dict[str, list[str]] = {}
    for words in lines:
        names = [word for word in words[:depth] if re.fullmatch("[a-z]+", word)]
        kind = shlex.join(words if " ".join(names) == MARKING else names)
        if kind not in chosen or (" " in kind and "--json" in words and "--json" not in chosen[kind]):
            chosen[kind] = words
    return [*chosen.values()]


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def record_help(recorder: Recorder) -> None:
    """Record the help of every command."""
    recorder.run("help", ["--help"])
    recorder.run("help", ["--help", "all"])
    recorder.texts["help"].append(recorder.inside("help"))


def record_slash(recorder: Recorder) -> None:
    """Record every slash command."""
    recorder.person.later(hours=1 / 60)
    recorder.texts["slash"] = [recorder.inside("slash")]


def record_server(recorder: Recorder) -> None:
    """Record the description of the server, and what each method that reads returns."""
    with recorder.person.serving() as call:
        described = call("/openrpc.json")
        for command in described["x-commands"]:  # the reports themselves are in the other files
            command["value"] = [*command.get("value", {}).get("properties", ())]
        recorder.add("server", "GET /openrpc.json", _json(described))
        call("create_agent", agent_id="a", session="prices")
        for method, params in READERS:
            recorder.add("server", f"{method} {json.dumps(params)}", _json(call(method, **params)))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


PARTS: dict[str, Callable[[Recorder], None]] = {
    "help": record_help,
    "shell": lambda recorder: recorder.read("shell", READS + recorder.inside("unwritten")),
    "mistakes": lambda recorder: recorder.read("mistakes", MISTAKES, depth=1),
    "server": record_server,
    "slash": record_slash,
    "changes": lambda recorder: recorder.change("changes", WRITES),
}
"""The files, in the order in which they are recorded: what changes something comes last."""


def record(names: Iterable[str] = PARTS, *, is_short: bool = False) -> dict[str, str]:
    """Return the texts of the files by their names, up to the last of `names`: what one records is seen by those after
    it.

    A short recording has one line of each command that changes nothing, and one mistake with each of the first words.
    """
    with Forked() as forked, Person(forked, slow=STANDING) as person:
        make_world(person)
        recorder = Recorder(person, is_short)
        waiting = set(names)
        for name, part in PARTS.items():
            if waiting:
                part(recorder)
                waiting.discard(name)
        words = {name: "".join(blocks) for name, blocks in recorder.texts.items()}
        return replaced(person, words)


def replaced(person: Person, words: dict[str, str]) -> dict[str, str]:
    """Return the texts with all that differs from run to run replaced."""
    replacements = Replacements(str(person.root), person.server.port, REPORTS)
    replacements.learn("\n".join(words.values()))
    return {name: replacements.of(text) for name, text in words.items()}


def read_expected(name: str) -> str:
    """Return the expected text of this name, "" before it was written."""
    path = EXPECTED / f"{name}.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def shorten(texts: dict[str, str]) -> dict[str, str]:
    """Return the blocks of the expected texts that a short recording has too, their ids numbered as they come there."""
    short = {}
    for name, text in texts.items():
        titles = set(_titles(text))
        blocks = re.split(r"^(?==== )", read_expected(name), flags=re.MULTILINE)
        short[name] = "".join(block for block in blocks if set(_titles(block)) & titles)
    return number_anew(short)


def number_anew(texts: dict[str, str]) -> dict[str, str]:
    """Number the ids in texts as they come, and their ends."""
    numbers: dict[str, int] = {}
    for found in re.findall(r"(?:\bSESSION-\d{14}|\bID)(\d{4})\b", "\n".join(texts.values())):
        numbers.setdefault(found, len(numbers) + 1)

    def renew(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers[found[2]]:04}"

    return {name: re.sub(r"(\bSESSION-\d{14}|\bID)(\d{4})\b", renew, text) for name, text in texts.items()}


def _titles(text: str) -> list[str]:
    return re.findall(r"^=== .*", text, re.MULTILINE)


def difference(name: str, text: str, before: str | None = None) -> str:
    """Return the difference from the expected text, or from `before`, as a unified diff; "" without one."""
    before = read_expected(name) if before is None else before
    old, new = (one.splitlines(keepends=True) for one in (before, text))
    return "".join(difflib.unified_diff(old, new, f"expected {name}.txt", f"recorded {name}.txt"))


def main() -> int:
    """Compare, or write; 1 if a comparison found a difference."""
    parser = argparse.ArgumentParser(description="Compare what every command prints with what was recorded.")
    parser.add_argument("what", nargs="?", choices=("compare", "write"), default="compare")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*PARTS, []], help=", ".join(PARTS))
    given = parser.parse_args()
    names = given.names or [*PARTS]
    texts = record(names)
    found = ""
    for name in names:
        found += difference(name, texts[name])
        if given.what == "write":
            EXPECTED.mkdir(exist_ok=True)
            (EXPECTED / f"{name}.txt").write_text(texts[name], encoding="utf-8")
    sys.stdout.write(found)
    return 1 if found and given.what == "compare" else 0


if __name__ == "__main__":
    sys.exit(main())
