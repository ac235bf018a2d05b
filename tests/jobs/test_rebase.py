"""The job: "rebase my branch": a conflict, nexus killed in the middle of the rebase, the rebase continued in the same
session without an editor, and undone turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs.test_killed import kill_in
from jobs.test_only_copy import open_project, run
from jobs.test_taken_back import git
from program.stage import Stage, calls
from search import variant

MERGED = "first\nmain\nbranch\n"


@pytest.fixture(params=["bwrap", variant("landlock")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with open_project(tmp_path, request.param) as made:
        yield made


def commit(folder: Path, text: str, message: str) -> None:
    (folder / "notes.txt").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)


def state(folder: Path) -> tuple[str, str, bool]:
    """Return the branches with their commits, the file, and whether a rebase goes on."""
    notes = (folder / "notes.txt").read_text()
    return git(folder, "branch", "-v", "--no-abbrev"), notes, (folder / ".git/rebase-merge").exists()


def prepare(place: Stage) -> tuple[str, str, bool]:
    """Let `rework` and `main` change the same line, and check out `rework`; return the state."""
    folder = place.folder
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@b.c")
    commit(folder, "first\n", "Note")
    git(folder, "branch", "-M", "main")
    git(folder, "switch", "-qc", "rework")
    commit(folder, "first\nbranch\n", "Note of the branch")
    git(folder, "switch", "-q", "main")
    commit(folder, "first\nmain\n", "Note of main")
    git(folder, "switch", "-q", "rework")
    place.environment["GIT_EDITOR"] = "vim"
    return state(folder)


def test_a_rebase_that_a_kill_cut_short_goes_on_and_is_undone_turn_by_turn(place: Stage) -> None:
    folder, before = place.folder, prepare(place)

    kill_in(place, "git rebase main", "cut")
    between = state(folder)
    assert "<<<<<<<" in between[1] and between[2]
    resolved = r"rm cut; printf 'first\nmain\nbranch\n' > notes.txt"
    result = run(place, f"{resolved}; git add -u && git rebase --continue", "-c")
    after = state(folder)
    assert after[1:] == (MERGED, False) and git(folder, "log", "-1", "--format=%s") == "Note of the branch\n", result
    assert git(folder, "merge-base", "--is-ancestor", "main", "rework") == ""

    for turn, expected in (("2", between), ("1", before)):
        undone = place.run("undo", "--turn", turn)
        assert (undone.status, state(folder)) == (0, expected), undone


def test_a_conflict_in_a_file_that_was_read_is_resolved_without_another_reading(place: Stage) -> None:
    folder, before = place.folder, prepare(place)
    (folder / "mine.txt").write_text("half done\n")
    branch = git(folder, "rev-parse", "--short", "rework").strip()
    marks = ("<<<<<<< HEAD\n", "=======\n", f">>>>>>> {branch} (Note of the branch)\n")
    place.script(
        [
            calls(("read_file", {"path": "notes.txt"})),
            calls(("bash", {"command": "git rebase main"})),
            calls(("edit_file", {"path": "notes.txt", "edits": [{"old": mark, "new": ""} for mark in marks]})),
            calls(("bash", {"command": "git add notes.txt && git rebase --continue"})),
            "Done.",
        ]
    )
    done = place.ask("--allow", "auto", "--json", "rebase my branch")
    assert (done.status, state(folder)[1:]) == (0, (MERGED, False)), done
    told = place.results
    assert told[2].startswith("[the file changed on disk since it was read"), told[2]
    assert place.run("undo").status == 0 and state(folder) == before
    assert (folder / "mine.txt").read_text() == "half done\n"
