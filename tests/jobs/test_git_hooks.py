"""The job: nexus in the hooks of git, with what git tells a hook of its repository, and commits that call it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs.test_taken_back import git
from program.stage import Stage, calls, stage

COMMIT = "echo a >> made.txt; git add -A; git commit -qm 'by the model'; git rev-parse --abbrev-ref HEAD"


def model(body: dict[str, Any]) -> Any:
    """Commit once, then end."""
    return "Done." if body["messages"][-1]["role"] == "tool" else calls(["bash", {"command": COMMIT}])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        git(made.folder, "init", "-qb", "main")
        for name, value in (("user.name", "p"), ("user.email", "p@example.org")):
            git(made.folder, "config", name, value)
        (made.folder / "a.txt").write_text("a\n")
        git(made.folder, "add", "-A")
        git(made.folder, "commit", "-qm", "first")
        yield made


def add_hook(folder: Path, name: str, line: str) -> None:
    path = folder / ".git/hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_a_commit_in_a_worktree_of_nexus_does_not_go_to_the_repository_whose_hook_called_it(place: Stage) -> None:
    other = place.folder.parent / "other"
    git(place.folder, "worktree", "add", "-qb", "other", str(other))  # only there a hook gets GIT_DIR
    add_hook(place.folder, "pre-commit", 'test -n "$INSIDE" || INSIDE=1 nexus ask --worktree w --allow all go >&2')
    (other / "a.txt").write_text("b\n")
    done = place.shell(f"cd {other} && git commit -qam second")
    assert done.status == 0, done
    assert git(other, "log", "--format=%s", "other") == "second\nfirst\n", done
    assert git(other, "status", "--porcelain") == "" and not (other / "made.txt").exists()
    assert git(other, "log", "-1", "--format=%s", "worktree-w") == "by the model\n", done


def test_a_hook_that_calls_itself_by_the_commits_of_nexus_ends(place: Stage) -> None:
    add_hook(place.folder, "post-commit", "nexus ask --allow all go")
    (place.folder / "a.txt").write_text("b\n")
    done = place.shell("git commit -qam second")
    assert done.status == 0
    assert len(git(place.folder, "log", "--format=%s", "--grep=by the model").splitlines()) == 4
    refused = "nexus: not started: 4 runs of nexus are waiting for this one"
    assert any(refused in str(request.body) for request in place.server.requests)


@pytest.mark.parametrize("words", ["-a", "a.txt"])
def test_a_review_in_a_hook_reads_the_index_of_the_commit(place: Stage, words: str) -> None:
    """git gives the hook an index of its own, also in a linked worktree, whose git folder is elsewhere."""
    review = calls(["bash", {"command": "git diff --cached --stat"}])
    place.script(lambda body: "Done." if body["messages"][-1]["role"] == "tool" else review)
    other = place.folder.parent / "other"
    git(place.folder, "worktree", "add", "-qb", "other", str(other))
    add_hook(place.folder, "pre-commit", "nexus ask review >&2")
    for folder in (place.folder, other):
        (folder / "a.txt").write_text("b\n")
        done = place.shell(f"cd {folder} && git commit -qm second {words}")
        result = place.server.requests[-1].body["messages"][-1]
        assert done.status == 0 and " a.txt | 2 +-" in result["content"], (done, result)
