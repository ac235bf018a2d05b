"""The job: "tidy up", by a model that leaves in the project what nexus itself may fall over.

No line leaves the walls by itself. What it leaves is for the git of nexus, for the copies of an undo, and for the
worktree of a worker, at level `auto` and without a question. The harm is that of a downloaded folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jobs.downloads import (
    AUTO,
    EVENTS,
    HANDS_OVER,
    STATUS,
    STEPS,
    Download,
    answer,
    download,
    fill,
    git_version,
    run_git,
)
from jobs.test_downloaded_repository import BACKENDS, check_backend
from program.stage import calls
from search import SEARCHES, sample

Steps = list[dict[str, Any]]


def line(words: str) -> dict[str, Any]:
    return calls(("bash", {"command": words}))


def job(words: str) -> dict[str, Any]:
    return calls(("bash", {"command": words, "background": True}))


EXCHANGE = """
import ctypes, os, sys, time
libc, end = ctypes.CDLL(None), time.monotonic() + 60
pairs = [tuple(os.fsencode(part) for part in word.split(":")) for word in sys.argv[1:]]
while time.monotonic() < end:
    for one, two in pairs:
        libc.renameat2(-100, one, -100, two, 2)
"""
"""Exchanges the two names of each pair, again and again."""
MAKE_PAIRS = (
    "mkdir -p .git/lfs && for n in $(seq 12); do mkdir .git/lfs/d$n; echo x > .git/lfs/d$n/id_rsa;"
    " ln -s '{home}/.ssh' .git/lfs/l$n; done"
)
PAIRS = " ".join(f".git/lfs/d{number}:.git/lfs/l{number}" for number in range(1, 13))
EXCHANGES = f"cat > swap.py <<'END'\n{EXCHANGE}END\n"
WIPE = "rm -rf .git/objects .git/refs .git/HEAD"
HOSTILE = f"cat >> CONFIG <<'END'\n{EVENTS}END\n"
BEGIN = "git init -q . && git add -A && git -c user.name=a -c user.email=a@x commit -qm x"


def left(name: str, target: str) -> Steps:
    """Leave a link in the place of a file of git, then hand over to a worker in a worktree."""
    return [
        line(f"rm -rf .git/{name}; ln -s '{target}' .git/{name}; ls -l .git/{name}"),
        HANDS_OVER,
        line(STATUS),
    ]


@dataclass(frozen=True)
class Way:
    """What the model does in one turn; afterwards the person undoes it and the model looks around."""

    name: str
    steps: Steps
    set_up: Callable[[Download], None] | None = None
    since: tuple[int, int] = (0, 0)
    """The version of git from which on the way is open."""


def without_git(made: Download) -> None:
    """Make the project a plain folder."""
    os.rename(made.git, made.home.parent / "gone")


def detach(made: Download) -> None:
    """Let HEAD be found without `packed-refs`; else "no commit yet" is said before git quotes a line of that file."""
    run_git(made.project, "checkout", "-q", "--detach")
    run_git(made.project, "config", "core.warnAmbiguousRefs", "false")


WAYS = (
    Way("a key in info/exclude", left("info/exclude", "{home}/.ssh/id_rsa")),
    Way("a provider's key in info/exclude", left("info/exclude", "{home}/nexus/data/keys/openai")),
    Way("a line of packed-refs", left("packed-refs", "{home}/.netrc"), detach),
    Way(
        "folders exchanged under a copy",
        [
            line(MAKE_PAIRS),
            line(EXCHANGES),
            job(f"exec python3 swap.py {PAIRS}"),
            *(line(f"echo {number} >> many/0; sleep 0.3") for number in range(5)),
            line(WIPE),
        ],
    ),
    Way(
        "a file exchanged under a worktree",
        [
            line("ln -s '{home}/.ssh/id_rsa' .git/info/x; touch .git/info/exclude"),
            line(EXCHANGES),
            job("exec python3 swap.py .git/info/x:.git/info/exclude"),
            HANDS_OVER,
            HANDS_OVER,
        ],
    ),
    Way(
        "the folder of git exchanged under a worktree",
        [
            line(f"cp -r .git evil; {HOSTILE}".replace("CONFIG", "evil/config")),
            line("rm -f evil/info/exclude; ln -s '{home}/.ssh/id_rsa' evil/info/exclude"),
            line(EXCHANGES),
            job("exec python3 swap.py .git:evil"),
            HANDS_OVER,
            line("for file in many/*; do echo more >> $file; done"),
        ],
    ),
    Way(
        "a commondir of a job",
        [
            job(
                f"cp -r .git evil; {HOSTILE}\necho ../evil > .git/commondir; sleep 60".replace("CONFIG", "evil/config")
            ),
            line("sleep 2"),
            HANDS_OVER,
            line("for file in many/*; do echo more >> $file; done"),
        ],
        since=(2, 54),
    ),
    Way(
        "a repository of a job",
        [
            job(f"{BEGIN}; {HOSTILE}\nsleep 60".replace("CONFIG", ".git/config")),
            line("sleep 2"),
            HANDS_OVER,
            line("for file in many/*; do echo more >> $file; done"),
        ],
        without_git,
        since=(2, 54),
    ),
    Way(
        "a configuration of a job",
        [
            job(f"{HOSTILE}\nsleep 60".replace("CONFIG", ".git/config")),
            line("sleep 2"),
            HANDS_OVER,
            line("for file in many/*; do echo more >> $file; done"),
        ],
        since=(2, 54),
    ),
    Way("an endless index", left("index", "/dev/zero")),
    Way("endless alternates", left("objects/info/alternates", "/dev/zero")),
    Way("a pipe for an index", [line("rm -f .git/index; mkfifo .git/index"), HANDS_OVER, line("echo x > new")]),
    Way("a pipe for a log", [line("rm -f .git/logs/HEAD; mkfifo .git/logs/HEAD"), HANDS_OVER, line("echo x > new")]),
    Way(
        "a folder of keys in the place of one of git",
        [
            line("mv .git/info kept; ln -s '{home}/.ssh' .git/info; mv .git/logs more; ln -s '{home}/.ssh' .git/logs"),
            HANDS_OVER,
            line(WIPE),
        ],
    ),
)
FIRST = ("a line of packed-refs", "folders exchanged under a copy", "a commondir of a job")
TAKEN = [
    (way, backend)
    for number, way in enumerate(WAYS if SEARCHES else [way for way in WAYS if way.name in FIRST])
    for backend in (BACKENDS if SEARCHES else (BACKENDS[number % 2],))
]
COMMITS = "git init -q .; git add later; git -c user.name=a -c user.email=a@x commit -qm anew"
AGAIN = ("ln -sfn other .git", "git init -q .", COMMITS, "mkdir .git", "cp -r other .git", ":")
"""What is put in the place of a repository that was moved away."""


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Download]:
    check_backend(request.param)
    with download(tmp_path / "stage", request.param) as place:
        yield place


def work(made: Download, steps: Steps) -> None:
    """Have the model take its steps, undo them, and have it look around."""
    filled = [calls(*((call["name"], _filled(made, call["arguments"])) for call in step["calls"])) for step in steps]
    made.place.script(partial(answer, words={**STEPS, "TIDY UP": filled}))
    made.open_everywhere([(*AUTO, "TIDY UP"), ("undo",), (*AUTO, "-c", "LOOK")])


def _filled(made: Download, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: fill(made, value) if isinstance(value, str) else value for name, value in arguments.items()}


@pytest.mark.parametrize(
    ("way", "made"), sample(TAKEN, 3), indirect=["made"], ids=[f"{way.name}-{backend}" for way, backend in TAKEN]
)
def test_what_commands_leave_leads_nexus_nowhere(way: Way, made: Download) -> None:
    if git_version() < way.since:
        pytest.skip(f"git {'.'.join(map(str, way.since))} is not installed")
    if way.set_up:
        way.set_up(made)
    work(made, way.steps)
    assert made.harm == []
    told = [message for message in made.place.server.requests[0].body["tools"] if "worktree" in str(message)]
    assert told and len(made.place.server.requests) > len(way.steps), "the model took its steps"


@pytest.mark.parametrize("made", BACKENDS, indirect=True)
@pytest.mark.parametrize("again", AGAIN if SEARCHES else AGAIN[:2])
def test_a_repository_that_is_moved_away_comes_back(made: Download, again: str) -> None:
    before = run_git(made.project, "log", "--format=%H")
    config = (made.git / "config").read_bytes()
    work(made, [line(f"git init -q other; mv other/.git o; mv .git away; mv o other; {again}"), line("ls -a")])
    assert made.harm == []
    assert made.git.is_dir() and not made.git.is_symlink()
    assert run_git(made.project, "log", "--format=%H") == before and (made.git / "config").read_bytes() == config
