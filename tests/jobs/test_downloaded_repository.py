"""The job: "have a look at this folder", and the folder was made by somebody who wants more than that.

Every command that touches a repository opens each trap. No program of the trap runs with the person's rights, no
secret of the person gets into a request, a file or the output, nothing fills the disk or the memory, and nothing
hangs or ends in a traceback. `NEXUS_TEST_GIT` names another git than the one on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs.downloads import (
    COMMANDS,
    LOOK,
    MARKER,
    SECRET,
    TRAPS,
    Download,
    Row,
    download,
    git_program,
    git_version,
    run_git,
)
from programs import need, why_no_bwrap
from search import SEARCHES, sample

from nexus_cli.sandbox.landlock import landlock_abi

SPRINGING = [row for row in TRAPS if row.springs and row.kind != "event"]
SPRINGING += [row for row in TRAPS if row.springs and row.kind == "event"]
WORK: tuple[str, ...] = (
    "status",
    "diff",
    "add -A",
    "log -1 -p",
    "cat-file -p HEAD:many/7",
    "update-ref refs/heads/y HEAD",
    "fetch",
)
WORK += ("commit -qam x", "commit --amend", "tag -s x -m x")
"""What a person does in a folder with git."""
NAMES = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
BACKENDS = ("bwrap", "landlock")
FIRST = {row.kind: row for row in reversed(TRAPS)}
"""The first row of each class."""
OPENS = COMMANDS if SEARCHES else [words for words in COMMANDS if {"-w", "TOUCH", "undo"} & {*words}]
"""A worktree is made, a look after many changes, an undo: where git of nexus does most."""
OPENED = [
    (row, backend)
    for number, row in enumerate(TRAPS if SEARCHES else reversed(FIRST.values()))
    for backend in (BACKENDS if SEARCHES else (BACKENDS[number % 2],))
]


def check_backend(backend: str) -> None:
    """Skip the test where this system has no such backend."""
    need("git")
    if backend == "bwrap" and (why := why_no_bwrap()):
        pytest.skip(why)
    if backend == "landlock" and not landlock_abi():
        pytest.skip("the kernel has no Landlock")


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Download]:
    backend = getattr(request, "param", "bwrap")
    check_backend(backend)
    with download(tmp_path / "stage", backend) as place:
        yield place


@pytest.mark.parametrize(
    ("row", "made"), sample(OPENED, 3), indirect=["made"], ids=[f"{row.name}-{backend}" for row, backend in OPENED]
)
def test_no_command_springs_a_trap(row: Row, made: Download) -> None:
    if git_version() < row.since:
        pytest.skip(f"git {'.'.join(map(str, row.since))} is not installed")
    row.set_up(made)
    assert made.open_everywhere(OPENS) == []


def test_a_folder_without_a_trap_is_worked_in_by_every_command(made: Download) -> None:
    """Otherwise no trap would be met: each command does what it is for."""
    assert made.open_everywhere() == []
    done = dict(zip(COMMANDS, (done for _, done in made.done), strict=True))
    assert {words: done.status for words, done in done.items()} == dict.fromkeys(COMMANDS, 0), made.done
    assert "2 files changed" in done["ask", "--allow", "edit", "-w", "fix", "EDIT"].told[-1]
    assert "+one" in done["worktree", "diff", "fix"].text and "made.txt" in done["worktree", "apply", "fix"].text
    assert "more" in done["diff",].text and (made.project / "many/0").read_text() == "0\n"
    workers = [one for one in made.place.server.requests if "# Task" in str(one.body["messages"][-1])]
    assert len(workers) >= 2, "each handing over starts a worker"


@pytest.mark.parametrize("row", SPRINGING if SEARCHES else SPRINGING[:1], ids=lambda row: row.name)
def test_a_trap_springs_for_git_itself(row: Row, made: Download) -> None:
    if git_version() < row.since:
        pytest.skip(f"git {'.'.join(map(str, row.since))} is not installed")
    row.set_up(made)
    for words in WORK:
        subprocess.run(
            [git_program(), *words.split()],
            cwd=made.project,
            env={**made.place.environment, **NAMES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    assert (made.home / MARKER).exists()


def test_what_a_trap_does_is_seen(made: Download) -> None:
    """A program that runs, a secret in a file or in the output of a command, a full folder."""
    assert made.harm == []
    made.find_harm("before")
    assert made.harm == []
    subprocess.run(["sh", made.project / "evil.sh"], check=True)
    made.find_harm("ran")
    assert any(f"{MARKER} in the home folder" in one for one in made.harm), made.harm
    assert any("project/leaked has" in one for one in made.harm), made.harm
    (made.project / "blob").write_text(f"{SECRET}blob")
    run_git(made.project, "add", "blob")
    (made.project / "blob").unlink()
    made.find_harm("packed")
    assert any(".git/objects/" in one for one in made.harm), made.harm
    (made.place.nexus_home / "large").write_bytes(os.urandom(1 << 20) * 40)
    made.find_harm("filled")
    assert any("40 MiB" in one or "41 MiB" in one for one in made.harm), made.harm
    shutil.copy(made.home / ".netrc", made.project / "netrc")
    done = subprocess.run(["bash", "-c", LOOK], cwd=made.project, capture_output=True, text=True)
    assert f"{SECRET}netrc" in done.stdout
