"""The guided start: in a pipe, in a terminal, with a tool that does not work, stopped at any moment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pexpect
import pytest
from program.nursery import born
from program.terminal_run import TerminalRun

from nexus_cli.config.paths import PACKAGE

SECONDS = 60
NEXUS = str(Path(sys.executable).with_name("nexus"))
WATCHED = """
import os, sys
reached = set()
def hook(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple):
        reached.add(args[1][0])
    if event == "socket.getaddrinfo":
        reached.add(args[0])
sys.addaudithook(hook)
from nexus_cli.cli import app, process
process.exit_on_signals()
status = app.run(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write(f"\\nlitellm: {'litellm' in sys.modules} reached: {sorted(reached)}\\n")
sys.stderr.flush()
os._exit(status)
"""
BROKEN = """
import sys
from nexus_cli.core.message import ToolResult
from nexus_cli.tools.builtin import edit_file
async def run(arguments: edit_file.EditFileArguments, context):
    return ToolResult("if cents >= FREE_FROM:")
edit_file.run = run
"""
HURRIED = """
from nexus_cli.cli.tour import tour_session
tour_session.SECONDS_PER_WORD = 0.001
"""
"""The program, if it does not wait between two words."""
ASKED = r"what\s+to\s+do\s+instead"
ON = "q to quit: "


@dataclass(frozen=True)
class Seen:
    """What one run left."""

    status: int
    out: str
    err: str
    home: Path
    tmp: Path

    @property
    def flat(self) -> str:
        """All words of it, on one line."""
        return " ".join(self.out.split())


def person(root: Path) -> tuple[dict[str, str], Path, Path]:
    """An environment with a home whose settings are broken, and a folder for what is temporary."""
    home, tmp = root / "nexus", root / "tmp"
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text("this is = not = toml")
    tmp.mkdir()
    ours = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_MODEL"))}
    return {**ours, "NEXUS_HOME": str(home), "TMPDIR": str(tmp), "COLUMNS": "80"}, home, tmp


def begun(root: Path, *arguments: str, code: str = "", kind: str = "whole", **more: str) -> tuple[Any, Path, Path]:
    """The tour, forked (`program.nursery`) after `code` has run in it."""
    env, home, tmp = person(root)
    env |= more
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return born(["tour", *arguments], env=env, cwd=root, code=code, kind=kind, **pipes), home, tmp


def ended(child: Any, home: Path, tmp: Path) -> Seen:
    try:
        out, err = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
        child.wait()
    return Seen(child.returncode, out.decode(), err.decode(), home, tmp)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen]:
    """Two at once: one at 80 columns, watched; one at 20, whose folder is kept."""
    wide = begun(tmp_path_factory.mktemp("wide"), code=WATCHED, kind="light")
    narrow = begun(tmp_path_factory.mktemp("narrow"), "--keep", COLUMNS="20")
    return ended(*wide), ended(*narrow)


@contextmanager
def terminal(root: Path, *, hurried: bool = False, **more: str) -> Iterator[tuple[Any, Path]]:
    env, _, tmp = person(root)
    env.pop("COLUMNS")
    environment = {**env, "TERM": "xterm-256color", **more}
    with TerminalRun("tour", env=environment, cwd=root, code=HURRIED if hurried else "") as child:
        yield child, tmp


def working_in(folder: Path) -> list[int]:
    """Processes whose working folder is below `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "cwd").startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_in_a_pipe_every_chapter_shows_what_it_promises(two: tuple[Seen, Seen]) -> None:
    seen = two[0]
    assert seen.status == 0, seen.err
    for evidence in (
        "model is scripted",
        r"bash python3 -m unittest .{0,40}exit 1",
        r"Allow edit_file shop/shipping\.py\? Allowed automatically in the tour.",
        r"- if cents > FREE_FROM: .{0,9}\+ if cents >= FREE_FROM:",
        r"✓ bash python3 -m unittest .*OK .*both tests pass\.",
        r"2\. What the model sees .*▌ /context .*next request 9\d% cached",
        r"left out as d1: .*shortened",
        r"recalled d1, \d+ tokens .*order 8206",
        r"left out as d2: .*summarized.* compacted: .*The last order is 8420",
        r"This replaces the older messages: .*\(\"d2\"\).*One test fails\. Find out why .*1\. Goal: ",
        r"Record of the work.*files are below .*python3 -m unittest -> exit 0",
        r"5\. Your turn .*nexus login PROVIDER.* Type next, .* nexus and then",
    ):
        assert re.search(evidence, seen.flat), f"{evidence!r} is not in it:\n{seen.out}"


@pytest.mark.matrix
def test_a_pipe_gets_plain_text(two: tuple[Seen, Seen]) -> None:
    for seen in two:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", seen.out)


@pytest.mark.matrix
def test_it_needs_no_network_and_no_model_library(two: tuple[Seen, Seen]) -> None:
    told = two[0].err.strip().splitlines()[-1]
    assert told == "litellm: False reached: []", two[0].err


def test_the_persons_own_folders_are_not_touched(two: tuple[Seen, Seen]) -> None:
    for seen in two:
        assert [path.name for path in seen.home.rglob("*") if path.is_file()] == ["config.toml"]


@pytest.mark.matrix
def test_nothing_is_left_of_it(two: tuple[Seen, Seen]) -> None:
    assert list(two[0].tmp.iterdir()) == [] and working_in(two[0].tmp) == []


@pytest.mark.matrix
def test_a_kept_folder_holds_the_session(two: tuple[Seen, Seen]) -> None:
    seen = two[1]
    assert seen.status == 0, seen.err
    (folder,) = seen.tmp.iterdir()
    env = {**os.environ, "NEXUS_HOME": str(folder / "home")}
    told = subprocess.run([NEXUS, "replay"], env=env, cwd=folder / "shop", capture_output=True, timeout=SECONDS)
    assert told.returncode == 0 and b"identical to what was sent" in told.stdout, told.stderr


@pytest.mark.matrix
def test_a_narrow_pipe_is_kept_to(two: tuple[Seen, Seen]) -> None:
    wide = [line for line in two[1].out.splitlines() if len(line) > 20]
    assert not wide, wide


@pytest.mark.matrix
def test_a_test_that_still_fails_is_not_said_to_pass(tmp_path: Path) -> None:
    seen = ended(*begun(tmp_path, code=BROKEN))
    assert seen.status == 1 and "the tour has stopped" in seen.err
    assert "I stop here" in seen.flat and "tests pass" not in seen.flat
    assert list(seen.tmp.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    seen = ended(*begun(tmp_path, TMPDIR=str(tmp_path / "nowhere")))
    assert seen.status == 1 and "Traceback" not in seen.err
    assert len(seen.err.splitlines()) == 1 and "TMPDIR" in seen.err


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    child, _, tmp = begun(tmp_path)
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(SECONDS) == 0
    assert child.stderr.read() == b"" and list(tmp.iterdir()) == []
    child.stderr.close()


@pytest.mark.matrix
def test_in_a_terminal_enter_goes_on_everywhere(tmp_path: Path) -> None:
    with terminal(tmp_path, hurried=True) as (child, tmp):
        shown, asked = "", 0
        while (found := child.expect([ON, ASKED, pexpect.EOF])) < 2:
            shown += child.before
            asked += found
            child.sendline("")
        shown += child.before
        child.finish()
        assert child.exitstatus == 0 and asked == 3
        assert "tests pass" in shown and "Record of the work" in shown and "Your turn" in shown
        assert re.search(r"One test fails.*\r\n\r\n.*scripted.*\r\n.*Enter to send", shown), (
            "the status line of a session"
        )
        assert list(tmp.iterdir()) == []


@pytest.mark.matrix
def test_a_no_is_respected_and_the_way_goes_on(tmp_path: Path) -> None:
    with terminal(tmp_path, NO_COLOR="1") as (child, tmp):
        for _ in range(2):
            child.expect(ON)
            child.sendline("")
        child.expect(ASKED)
        child.sendline("y")
        child.expect(ASKED)
        child.sendline("n leave it")
        child.expect(ON)
        told = child.before
        assert "Declined: leave it" in told and "I stop here" in told and "\x1b[" not in told
        child.sendline("q")
        assert "deleted" in child.finish()
        assert child.exitstatus == 0 and list(tmp.iterdir()) == []


def test_the_end_of_input_leaves(tmp_path: Path) -> None:
    with terminal(tmp_path, TERM="dumb") as (child, tmp):
        child.expect(ON)
        shown = child.before
        child.send("\x04")
        assert "\x1b" not in shown + child.finish()
        assert child.exitstatus == 0 and list(tmp.iterdir()) == []


@pytest.mark.matrix
def test_a_signal_while_it_works_ends_it(tmp_path: Path) -> None:
    child, _, tmp = begun(tmp_path)
    try:
        while b"left out as d1" not in child.stdout.readline():
            assert child.poll() is None
        time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        child.stdout.read()
        assert child.wait(SECONDS) == 143
        assert b"Traceback" not in child.stderr.read()
        assert list(tmp.iterdir()) == []
        gone = time.monotonic() + 120
        while working_in(tmp) and time.monotonic() < gone:
            time.sleep(0.05)
        assert working_in(tmp) == []
    finally:
        child.kill()
        child.stdout.close()
        child.stderr.close()


@pytest.mark.matrix
def test_its_name_stands_nowhere_else() -> None:
    named = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".toml") and re.search(r"(?i)\btour\b|tour_", path.read_text())
    ]
    assert {name for name in named if not name.startswith("cli/tour/")} == {"cli/app.py"}
