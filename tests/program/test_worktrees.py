"""Work in a worktree: `nexus ask -w`, the sessions of it, and what `nexus worktree` does with what was made there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, calls, clean, end, stage, until
from project_files import write_files
from worktrees.repository import git, make_project

EDIT = ("edit_file", {"path": "app.py", "edits": [{"old": "line 3\n", "new": "line three\n"}]})
WRITE = ("write_file", {"path": "made.txt", "content": "made\n"})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.folder.rmdir()
        make_project(made.folder)
        yield made


def worktrees(place: Stage) -> list[dict[str, Any]]:
    value: list[dict[str, Any]] = place.run("worktree", "list", "--json").result["worktrees"]
    return value


def work(place: Stage, *arguments: str, name: str = "fix", script: Any = None) -> Done:
    """A run in a worktree that edits one file and makes another."""
    place.script(script or [calls(EDIT, WRITE), "done"])
    return place.ask("-w", name, "--allow", "edit", *arguments, "do it")


def test_what_a_run_made_in_a_worktree_is_looked_at_applied_and_removed(place: Stage) -> None:
    (place.folder / "app.py").write_text((place.folder / "app.py").read_text() + "dirty\n")
    before = git(place.folder, "status", "--porcelain")
    done = work(place)
    assert (done.status, done.stdout) == (0, b"done\n") and clean(done), done
    assert "nexus worktree diff fix" in done.told[-1] and "2 files changed, +2 -1" in done.told[-1]
    assert git(place.folder, "status", "--porcelain") == before and not (place.folder / "made.txt").exists()
    (one,) = worktrees(place)
    assert (one["name"], one["state"], one["project"]) == ("fix", "changed", str(place.folder))
    assert (one["files"], one["added"], one["removed"], one["in_use"]) == (2, 2, 1, False)
    assert "fix" in place.run("worktree", "list").text and "changed" in place.run("worktree", "list").text

    patch = place.run("worktree", "diff", "fix")
    assert b"+line three" in patch.stdout and b"dirty" not in patch.stdout.replace(b" dirty", b"")
    assert "2 files changed" in place.run("worktree", "diff", "fix", "--stat").text
    refused = place.run("worktree", "remove", "fix")
    assert refused.status == 2 and "--force" in refused.told[-1] and len(refused.told) == 1

    applied = place.run("worktree", "apply", "fix")
    way = ["nexus: to undo the apply: nexus undo --session worktree-fix"]
    assert (applied.status, applied.told) == (0, way) and "made.txt" in applied.text, applied
    text = (place.folder / "app.py").read_text()
    assert "line three\n" in text and "dirty\n" in text and (place.folder / "made.txt").read_text() == "made\n"
    again = place.run("worktree", "apply", "fix")
    assert (again.status, again.stderr) == (0, b"") and again.text.startswith("Nothing to apply")
    assert worktrees(place)[0]["state"] == "applied"
    assert place.run("worktree", "remove", "fix").status == 0 and worktrees(place) == []
    assert git(place.folder, "branch", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.matrix
def test_the_patch_of_a_pipe_is_one_that_git_takes(place: Stage, tmp_path: Path) -> None:
    work(place)
    (Path(worktrees(place)[0]["folder"]) / "sub/data.bin").write_bytes(b"\x00\xff\x00")
    copy = make_project(tmp_path / "copy")
    patch = place.run("worktree", "diff", "fix").stdout
    subprocess.run(["git", "apply"], input=patch, cwd=copy, check=True)
    assert (copy / "sub/data.bin").read_bytes() == b"\x00\xff\x00" and (copy / "made.txt").exists()


@pytest.mark.matrix
def test_a_worktree_with_nothing_in_it_is_gone_after_the_run(place: Stage) -> None:
    for arguments in ((), ("--no-save",), ("--json",)):
        done = work(place, *arguments, script=["nothing to do"])
        assert (done.status, done.stderr) == (0, b""), done
    assert worktrees(place) == [] and git(place.folder, "worktree", "list").count("\n") == 1


@pytest.mark.matrix
def test_a_run_that_fails_says_where_its_work_is_before_how_to_resume_it(place: Stage) -> None:
    done = work(place, "--max-steps", "1")
    assert done.status == 3 and "/fix: 2 files" in done.told[-2] and " -w fix -r " in done.told[-1], done
    place.script(["went on"])
    resumed = place.shell(done.told[-1].removeprefix("Resume with: "))
    assert (resumed.status, resumed.stdout) == (0, b"went on\n")


@pytest.mark.matrix
def test_sessions_know_their_worktree(place: Stage) -> None:
    work(place)
    place.script(["plain"])
    place.ask("in the project")
    every = place.run("sessions", "list", "--all", "--json").result["sessions"]
    assert [(one["worktree"], one["project"]) for one in every] == [("", str(place.folder)), ("fix", str(place.folder))]
    assert every[1]["folder"] == worktrees(place)[0]["folder"]
    assert "-w fix: " in place.run("sessions", "list", "--all").text
    place.script(["again", "there"])
    assert place.ask("-c", "go on").stdout == b"again\n"
    assert "in the project" in str(place.server.requests[-1].body["messages"])
    assert place.ask("-w", "fix", "-c", "go on").stdout == b"there\n"
    assert "do it" in str(place.server.requests[-1].body["messages"])
    projects = place.run("usage", "--json").result["projects"]
    assert [one["project"] for one in projects] == [str(place.folder)]


def test_the_session_works_in_the_same_folder_of_the_worktree(place: Stage) -> None:
    (place.folder / "empty/deep").mkdir(parents=True)
    for sub in ("sub", "empty/deep"):
        place.script([calls(("write_file", {"path": "here.txt", "content": "x"})), "done"])
        done = place.ask("-C", sub, "-w", "fix", "--allow", "edit", "write")
        assert done.status == 0, done
        assert (Path(worktrees(place)[0]["folder"]) / sub / "here.txt").exists()
        assert not (place.folder / sub / "here.txt").exists()


@pytest.mark.matrix
def test_a_plain_run_in_the_folder_of_a_worktree_belongs_to_it(place: Stage) -> None:
    work(place)
    folder = Path(worktrees(place)[0]["folder"])
    place.script(["here"])
    assert place.ask("hi", cwd=folder).status == 0
    every = place.run("sessions", "list", "--all", "--json").result["sessions"]
    assert [one["worktree"] for one in every] == ["fix", "fix"]
    assert place.run("worktree", "list", "--json", cwd=folder).result["worktrees"][0]["name"] == "fix"


@pytest.mark.matrix
def test_the_work_of_a_killed_command_is_in_the_list_and_the_diff(place: Stage) -> None:
    command = "echo half > half.txt; mkdir .vscode; echo EVIL > .vscode/tasks.json; touch ready; sleep 300"
    place.script([calls(("bash", {"command": command}))])
    child = place.begin("ask", "-w", "fix", "--allow", "run", "do it")
    try:
        assert until(lambda: any(place.nexus_home.glob("data/worktrees/*/fix/ready")))
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
    finally:
        end(child)
    listed = place.run("worktree", "list")
    assert "changed" in listed.text and "checked the protected files" in listed.stderr.decode(), listed
    diff = place.run("worktree", "diff", "fix")
    assert diff.status == 0 and "+half" in diff.text and "EVIL" not in diff.text and not diff.stderr, diff


@pytest.mark.matrix
def test_the_trust_of_a_project_is_that_of_its_worktrees_item_by_item(place: Stage) -> None:
    folder = place.folder / ".nexus"
    write_files(folder, {"config.toml": '[limits]\nmax_steps = 1\n\n[rules]\ndeny = ["write_file"]\n'})
    assert place.run("trust").status == 0
    done = work(place, script=[calls(WRITE), "done"])
    assert done.status == 3, done  # the project's own limit
    tree = Path(worktrees(place)[0]["folder"]) if worktrees(place) else None
    assert tree is None or not (tree / "made.txt").exists()
    (folder / "config.toml").write_text("[limits]\nmax_steps = 2\n")
    changed = work(place, name="other", script=["done"])
    assert changed.status == 0 and any("changed since you trusted it" in line for line in changed.told)


@pytest.mark.matrix
def test_a_worktree_has_no_trust_of_its_own(place: Stage) -> None:
    write_files(place.folder, {".nexus/config.toml": "[limits]\nmax_steps = 5\n"})
    work(place)
    folder = Path(worktrees(place)[0]["folder"])
    for arguments in (("trust",), ("trust", "--revoke")):
        refused = place.run(*arguments, cwd=folder)
        assert refused.status == 2 and f"nexus trust {place.folder}" in refused.told[-1]
    assert place.run("trust").status == 0
    assert place.run("trust", "--json", cwd=folder).result["state"] == "trusted"


@pytest.mark.matrix
def test_where_no_worktree_can_be_made_nothing_is_asked(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        done = place.ask("-w", "fix", "--json", "hi")
        assert (done.status, done.kind) == (2, "usage") and "not in a git repository" in done.told[0]
        assert place.server.requests == [] and not os.listdir(place.folder)
        empty = place.run("worktree", "list")
        assert empty.status == 0 and json.loads(place.run("worktree", "list", "--json").stdout)["worktrees"] == []
