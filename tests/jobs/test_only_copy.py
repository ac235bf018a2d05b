"""The job: "git had the only copy": a command wipes the folder with its repository, or what git kept of staged work or
history; one command gives all of it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jobs.test_taken_back import add_git, add_private, fill, git, own_files, report, repository_state
from program.stage import PRICED, QUICK, Stage, calls, stage
from programs import need
from search import some, variant

from nexus_cli.sandbox.landlock import landlock_abi
from nexus_cli.undo.follow_repositories import EMPTIED_LOG

WIPES = ("rm -rf -- * .[!.]*", "rm -rf .git/objects *", "rm -rf .git; ls", "rm -rf .git/objects/* .git/HEAD src")


def model(body: Any) -> dict[str, Any]:
    """Run the command that the person asked for."""
    messages = body["messages"]
    if messages[-1]["role"] == "tool":
        return {"text": "Done."}
    return calls(("bash", {"command": str(messages[-1]["content"]).partition("RUN ")[2].partition(" END")[0]}))


@contextmanager
def open_project(tmp_path: Path, backend: str) -> Iterator[Stage]:
    """Yield a project with a repository and ignored files, whose commands run in this sandbox; skip without it."""
    if backend == "bwrap":
        need("bwrap")
    elif not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    with stage(tmp_path, model) as made:
        made.settings(f'{QUICK}{PRICED}\n[sandbox]\nbackend = "{backend}"\n')
        fill(made.folder)
        add_git(made.folder)
        add_private(made.folder)
        yield made


@pytest.fixture(params=["bwrap", variant("landlock")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with open_project(tmp_path, request.param) as made:
        yield made


def run(place: Stage, command: str, *more: str) -> dict[str, Any]:
    done = place.ask(*more, "--allow", "auto", "--json", f"RUN {command} END")
    assert done.status == 0 and done.result["text"] == "Done.", done
    return done.result


def read_commits(folder: Path) -> str:
    return git(folder, "log", "-p", "--all", "--format=%H %B") + git(folder, "fsck", "--strict")


@pytest.mark.parametrize("command", some(WIPES, 2))
def test_a_wiped_folder_and_its_repository_come_back_whole(place: Stage, command: str) -> None:
    before, seen, history = own_files(place.folder), repository_state(place.folder), read_commits(place.folder)
    index = (place.folder / ".git/index").read_bytes()
    assert ".git" in run(place, command)["files_changed"]
    shown = place.run("diff", "--turn", "1")
    assert shown.status == 0 and "/.git\n" not in shown.text
    value = report(place.run("undo", "--json"))
    assert ".git" in value["restored"] and not value["kept"] and not value["unfollowed"]
    assert own_files(place.folder) == before
    assert (place.folder / ".git/index").read_bytes() == index
    assert repository_state(place.folder) == seen and read_commits(place.folder) == history
    assert report(place.run("undo", "--json"))["turn"] is None
    git(place.folder, "commit", "-qam", "on it goes")
    run(place, "rm price.py", "-c")
    assert report(place.run("undo", "--json"))["restored"] == ["price.py"]


def test_an_added_folder_and_its_repository_come_back_whole(place: Stage) -> None:
    second = place.folder.parent / "second"
    second.mkdir()
    fill(second)
    add_git(second)
    before, seen, history = own_files(second), repository_state(second), read_commits(second)
    done = run(place, "cd ../second && rm -rf * .git", "--add-dir", "../second")
    assert {f"{second}/.git", f"{second}/price.py"} <= set(done["files_changed"])
    value = report(place.run("undo", "--json"))
    assert f"{second}/.git" in value["restored"] and not value["kept"] and not value["unfollowed"]
    assert own_files(second) == before and repository_state(second) == seen and read_commits(second) == history


def test_staged_work_that_was_collected_comes_back(place: Stage) -> None:
    before = own_files(place.folder)
    (place.folder / "staged.py").write_text("staged = 'only here'\n")
    git(place.folder, "add", "-A")
    run(place, "git reset -q --hard; git gc -q --prune=now")
    assert not (place.folder / "staged.py").exists()
    value = report(place.run("undo", "--json"))
    assert "staged.py" in value["restored"] and not value["kept"] and not value["unfollowed"]
    after = own_files(place.folder)
    assert after.pop("staged.py")[2] == b"staged = 'only here'\n" and after == before


def test_rewritten_history_can_be_gone_back_to(place: Stage) -> None:
    git(place.folder, "commit", "-qam", "second")
    before, history = own_files(place.folder), git(place.folder, "log", "-p", "--format=%H %B")
    name = "-c user.name=n -c user.email=n@x.org"
    clean = "git reflog expire --expire=now --all; git gc -q --prune=now"
    run(place, f"git rm -rqf .; git {name} commit -q --amend --allow-empty -m x; {clean}")
    value = report(place.run("undo", "--json"))
    assert not value["kept"] and own_files(place.folder) == before
    assert [EMPTIED_LOG in one for one in value["unfollowed"]] == [True]
    assert value["head_moved"] is None and all(one["restored"] for one in value["references"])
    assert git(place.folder, "log", "-p", "--format=%H %B") == history
    assert git(place.folder, "status", "--porcelain", "-uno") == ""


def test_a_new_repository_is_not_touched(place: Stage) -> None:
    commit = git(place.folder, "rev-parse", "HEAD").strip()
    before = own_files(place.folder)
    run(place, "rm -rf -- * .[!.]*")
    git(place.folder, "init", "-q", "-b", "other")
    git(place.folder, "commit", "-q", "--allow-empty", "-m", "new")
    value = report(place.run("undo", "--json"))
    assert ".git" not in value["restored"] and own_files(place.folder) == before
    assert git(place.folder, "symbolic-ref", "HEAD") == "refs/heads/other\n"
    (told,) = value["unfollowed"]
    assert place.shell(told.partition("`")[2].partition("`")[0]).status == 0, told
    assert git(place.folder, "log", "-1", "--format=%H", commit).strip() == commit
