"""The REPL in a worktree: it says where it works, and at its end where the work is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from program.nursery import born
from terminal.repl import Opens, Place
from terminal.stories import call
from terminal.terminal import ctrl
from worktrees.repository import git


def test_a_session_in_a_worktree_says_so_and_leaves_its_work_there(repl: Opens, places: Callable[..., Place]) -> None:
    here = places([call("write_file", path="made.txt", content="made\n"), "It is done.", "nothing"])
    git(here.folder, "init", "-q", "-b", "main")
    git(here.folder, "add", "-A")
    git(here.folder, "commit", "-q", "--allow-empty", "-m", "first")
    made = repl(at=here, arguments=("-w", "fix", "--allow", "edit"), columns=160)
    made.wait_for("worktree fix of ")
    made.say("make it")
    made.wait_for("It is done.")
    made.send(ctrl("d"))
    assert made.status() == 0
    made.wait_for("nexus worktree apply fix")
    made.wait_for(" -w fix -r ")
    assert not (here.folder / "made.txt").exists()

    again = repl(at=here, arguments=("-w", "fix", "-c"), columns=160)
    again.wait_for("make it")
    again.send(ctrl("d"))
    assert again.status() == 0

    empty = repl(at=here, arguments=("-w", "other"), columns=160)
    empty.wait_for("worktree other of ")
    empty.send(ctrl("d"))
    assert empty.status() == 0 and "other" not in git(here.folder, "worktree", "list")


def added(here: Place) -> str:
    """What `nexus schedule add` prints."""
    words = ["schedule", "add", "look", "--in", "2h", "--allow", "auto"]
    child = born(words, cwd=here.folder, env=here.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return child.communicate(timeout=120)[0].decode()


def test_work_that_is_scheduled_where_a_session_is_open_is_offered_a_worktree(
    repl: Opens, places: Callable[..., Place]
) -> None:
    here = places(["ok"])
    git(here.folder, "init", "-q", "-b", "main")
    git(here.folder, "add", "-A")
    git(here.folder, "commit", "-q", "--allow-empty", "-m", "first")
    assert "--worktree" not in added(here), "nothing of the person is in the way"
    made = repl(at=here, columns=160)
    made.say("hello")
    made.wait_for("ok")
    assert "A session is open in this folder: with --worktree" in added(here)
    made.say("/schedule add look --in 2h --allow auto", ends=False)
    made.wait_for("A session is open in this folder: with --worktree")
    made.say("/schedule add look --in 2h --allow auto --worktree", ends=False)
    made.wait_for("Each run has its own worktree")
    made.send(ctrl("d"))
    assert made.status() == 0
