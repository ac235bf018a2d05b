"""The job: "find the commit that broke it and take it back": a slow bisect, nexus killed before the end, the commit
reverted in the same session, and all of it undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs.test_killed import kill_in
from jobs.test_only_copy import open_project, run
from jobs.test_taken_back import git
from program.stage import Stage
from project_files import write_files
from search import variant

FILES = ("notes.txt", "setup.cfg", "src/other.py")
CHECK = "sleep 0.3; ! grep -q broken src/code.py\n"


@pytest.fixture(params=["bwrap", variant("landlock")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with open_project(tmp_path, request.param) as made:
        yield made


def make_history(folder: Path) -> None:
    """Commit five versions of three files, and between the second and the third one a broken code."""
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@b.c")
    write_files(folder, {"check.sh": CHECK, "src/code.py": "code\n"})
    for number in range(1, 6):
        for name in FILES:
            (folder / name).write_text(f"version {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"Version {number}")
        if number == 2:
            (folder / "src/code.py").write_text("code\nbroken\n")
            git(folder, "commit", "-qam", "Rework")
    git(folder, "tag", "good", "HEAD~5")


def state(folder: Path) -> tuple[str, ...]:
    """Return HEAD, the branches with their commits, what is not committed, and the files."""
    contents = [(folder / name).read_text() for name in (*FILES, "src/code.py")]
    return (
        git(folder, "rev-parse", "--symbolic-full-name", "HEAD"),
        git(folder, "show-ref"),
        git(folder, "status", "--porcelain"),
        *contents,
    )


def test_a_bisect_and_the_revert_that_it_led_to_are_undone_without_a_question(place: Stage) -> None:
    folder = place.folder
    make_history(folder)
    before = state(folder)
    found = run(place, "git bisect start HEAD good && git bisect run sh check.sh")
    assert git(folder, "log", "-1", "--format=%s", "refs/bisect/bad") == "Rework\n", found
    kill_in(place, "git bisect reset; git revert --no-commit $(git log --format=%h --grep=Rework)", "cut", "-c")
    result = run(place, "rm cut; git revert --continue", "-c")
    after = state(folder)
    assert (folder / "src/code.py").read_text() == "code\n" and after[2] == "", result
    shown = place.run("diff", "--turn", "1")
    assert "bisect: absent" in shown.text

    for turn in ("3", "2", "1"):
        undone = place.run("undo", "--turn", turn)
        assert undone.status == 0 and "Possibly yours" not in undone.text, undone
    assert state(folder) == before
