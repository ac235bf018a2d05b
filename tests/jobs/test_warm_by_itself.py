"""A person who asks several times in a row from a terminal: the second call leaves a warm process and says so.

The later ones use it. It is never started where nobody would see that, and no two installations end each other's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pexpect
import pytest
from program.stage import BY_PYTHON, Stage, calls, stage, until
from program.terminal_run import TerminalRun
from search import sample

from nexus_cli.warm import auto

pytestmark = pytest.mark.skipif(
    os.getpriority(os.PRIO_PROCESS, 0) > 0, reason="a run of lowered priority leaves no warm process"
)

PATIENT = "from nexus_cli.warm import auto, caller\ncaller.PATIENCE = caller.FORK_PATIENCE = 300.0\n"
"""For a machine that is busy."""
ROOMY = f"{PATIENT}auto.free_memory = lambda: 8 << 30\n"
LEFT = "left a warm process"


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


class Person:
    """Somebody at a terminal, with an installation: its packages are those of the folder `packages` too."""

    def __init__(self, place: Stage, packages: Path | None = None) -> None:
        self.place = place
        self.env = {**place.environment, "TERM": "dumb"}
        del self.env["CI"]
        self.code = f"{ROOMY}import sys\nsys.path.append({str(packages)!r})\n" if packages else ROOMY
        self._program = place.folder.parent / f"nexus-{packages.parent.name if packages else 'own'}"
        self._program.write_text(f"{BY_PYTHON}{self.code}from nexus_cli.__main__ import main\nmain()\n")
        self._program.chmod(0o755)

    def start(self, *arguments: str, code: str = "", **env: str) -> TerminalRun:
        return TerminalRun(*arguments, env={**self.env, **env}, cwd=self.place.folder, code=self.code + code)

    def ask(self, *arguments: str, code: str = "", **env: str) -> str:
        """What `nexus ask ARGUMENTS` prints, typed in the terminal; it ends well."""
        with self.start("ask", *arguments, code=code, **env) as run:
            shown = str(run.finish())
        assert run.exitstatus == 0, shown
        return shown

    def shell(self, line: str, **env: str) -> str:
        """What a line of a shell prints in which `nexus` is the program, in the terminal."""
        line = line.replace("nexus", str(self._program))
        with pexpect.spawn(
            "bash", ["-c", line], env={**self.env, **env}, cwd=self.place.folder, timeout=120, encoding="utf-8"
        ) as child:
            child.expect(pexpect.EOF)
        return str(child.before)

    def known(self) -> dict[str, Any]:
        """What `nexus warm status --json` says in the terminal."""
        done = self.place.run("warm", "status", "--json", program=str(self._program), env={"CI": None})
        return done.result

    def leave(self) -> int:
        """Ask twice; the id of the process that the second call has left."""
        assert LEFT not in self.ask("hi")
        assert not self.known()["running"], "one call may be the only one"
        assert self.ask("hi").count(LEFT) == 1
        assert until(lambda: bool(self.known()["running"]), 120)
        return int(self.known()["pid"])

    def stop(self) -> None:
        pid = self.known().get("pid")
        if pid:
            self.place.run("warm", "stop", program=str(self._program))
            assert until(partial(is_gone, pid), 120)


@contextmanager
def person(place: Stage, packages: Path | None = None) -> Iterator[Person]:
    one = Person(place, packages)
    try:
        yield one
    finally:
        one.stop()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def folder_of_packages(root: Path, name: str) -> Path:
    found = root / name / "site-packages"
    found.mkdir(parents=True)
    return found


def test_the_second_call_leaves_a_process_that_the_later_ones_use(place: Stage) -> None:
    with person(place) as someone:
        someone.leave()
        shown = someone.ask("hi")
        assert "answer" in shown and LEFT not in shown and someone.known()["calls"] == 1
        piped = someone.shell("echo a change | nexus ask 'review this' | tee review.md")
        assert "answer" in piped and (place.folder / "review.md").read_text() and someone.known()["calls"] == 2
        assert "a change" in str(place.server.requests[-1].body)
        known = someone.known()
        assert known["auto"] and known["minutes"] == 10 and known["saved"] > 0.1
        assert "2 calls that saved about" in place.run("warm", "status").text
        assert "2 calls that saved about" in place.run("doctor").text
        place.settings("[warm]\nminutes = 0\n")
        assert LEFT not in someone.ask("hi") and someone.known()["calls"] == 2, "the way to switch it off"


@pytest.mark.matrix
def test_of_calls_side_by_side_one_leaves_a_process(place: Stage) -> None:
    with person(place) as someone:
        shown = someone.shell("for number in 1 2 3 4; do nexus ask hi & done; wait")
        assert shown.count("answer") == 4 and shown.count(LEFT) == 1, shown
        assert until(lambda: bool(someone.known()["running"]), 120)


def test_a_question_is_answered_in_a_run_that_a_warm_process_forked(place: Stage) -> None:
    with person(place) as someone:
        someone.leave()
        endless = {"text": "word ", "repeat": 900, "pace": 0.1}
        place.script([calls(("bash", {"command": "touch made"})), "done", endless])
        with someone.start("ask", "do it", TERM="xterm-256color") as run:
            run.expect("what to do instead")
            run.send("y")
            assert "done" in run.finish()
        assert run.exitstatus == 0 and (place.folder / "made").exists() and someone.known()["calls"] == 1
        with someone.start("ask", "talk") as run:
            assert place.server.wait_for(lambda server: len(server.requests) == 5, 120)
            run.send("\x03")
            assert "Resume with" in run.finish()
        assert run.exitstatus == 130 and someone.known()["calls"] == 2


@pytest.mark.matrix
def test_in_the_background_a_run_takes_no_key_from_the_shell(place: Stage) -> None:
    with person(place) as someone:
        someone.leave()
        place.script([{"text": "fine", "delay": 5.0}, "cold", "rest"])
        bash = pexpect.spawn(
            "bash", ["--norc", "-i"], env={**someone.env, "PS1": "$ "}, cwd=place.folder, timeout=120, encoding="utf-8"
        )
        with bash:
            bash.sendline(f"{someone._program} ask hi")
            assert place.server.wait_for(lambda server: len(server.requests) == 3, 120)
            bash.sendcontrol("z")
            bash.expect("Stopped")
            bash.sendline("bg")
            bash.sendline("echo ty''ped")
            bash.expect("typed")
            bash.sendline("jobs")
            bash.expect("Stopped")
            bash.sendline("fg")
            bash.expect("fine")
            bash.sendline(f"{someone._program} ask hi & wait; echo o''ver")
            bash.expect("over")
        assert someone.known()["calls"] == 1, "one that begins in the background runs cold"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("arguments", "env"),
    sample(
        [
            (("hi",), {"CI": "true"}),
            (("hi",), {"GIT_EXEC_PATH": "/usr/lib/git-core"}),
            (("hi",), {"SUDO_UID": "1000"}),
            (("hi",), {"NEXUS_WARM": "0"}),
            (("--no-save", "hi"), {}),
            (("-q", "hi"), {}),
        ],
        3,
    ),
)
def test_nothing_is_left_where_nobody_would_expect_it(
    arguments: tuple[str, ...], env: dict[str, str], place: Stage
) -> None:
    someone = Person(place)
    for _ in range(3):
        assert LEFT not in someone.ask(*arguments, **env)
    assert not someone.known()["running"] and not (place.nexus_home / "cache" / "warm").exists()


def test_without_a_terminal_memory_or_a_place_to_write_nothing_is_left(place: Stage) -> None:
    someone = Person(place)
    for _ in range(2):
        assert place.ask("hi", env={"CI": None}).status == 0
    assert not (place.nexus_home / "cache" / "warm").exists()
    low = f"auto.free_memory = lambda: {auto.FREE_MEMORY - 1}\n"
    for _ in range(2):
        assert LEFT not in someone.ask("hi", code=low)
    (place.nexus_home / "cache").mkdir(exist_ok=True)
    (place.nexus_home / "cache" / "warm").write_text("no folder")
    for _ in range(2):
        assert "warm" not in someone.ask("hi"), "its folder cannot be made"
    assert not someone.known()["running"]


@pytest.mark.matrix
def test_after_an_upgrade_and_a_downgrade_the_process_is_a_new_one(place: Stage, tmp_path: Path) -> None:
    packages = folder_of_packages(tmp_path, "a")
    with person(place, packages) as someone:
        first = someone.leave()
        for stamp in (2, 1):
            os.utime(packages, (stamp, stamp))
            assert LEFT not in someone.ask("hi"), "it runs cold, and the old process ends"
            assert until(partial(is_gone, first), 120)
            assert LEFT in someone.ask("hi")
            assert until(lambda: bool(someone.known()["running"]), 120)
            first, before = someone.known()["pid"], first
            assert first != before


@pytest.mark.matrix
def test_two_installations_on_one_home_leave_each_other_alone(place: Stage, tmp_path: Path) -> None:
    with (
        person(place, folder_of_packages(tmp_path, "a")) as one,
        person(place, folder_of_packages(tmp_path, "b")) as other,
    ):
        pids = one.leave(), other.leave()
        for number in (1, 2):
            for someone in (one, other):
                assert LEFT not in someone.ask("hi") and someone.known()["calls"] == number
        assert (one.known()["pid"], other.known()["pid"]) == pids


@pytest.mark.matrix
def test_in_another_environment_a_call_runs_cold_and_ends_nothing(place: Stage) -> None:
    with person(place) as someone:
        pid = someone.leave()
        for _ in range(3):
            assert LEFT not in someone.ask("hi", LC_ALL="C")
        assert someone.known()["pid"] == pid and someone.known()["calls"] == 0
        os.kill(pid, signal.SIGKILL)
        assert until(partial(is_gone, pid), 120)
        assert LEFT not in someone.ask("hi"), "a process that died is not taken for one that runs"
