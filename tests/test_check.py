"""`tests/check.py quick` runs the tests of what changed, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from check import ALWAYS, changed_files, choose_tests


def test_a_change_in_a_room_runs_the_tests_of_that_room() -> None:
    assert choose_tests(["nexus_cli/commands/pin.py"]) == ["tests/commands", ALWAYS]
    assert choose_tests(["nexus_cli/cli/tour/sandbox.py", "nexus_cli/cli/ask.py"]) == ["tests/cli", ALWAYS]
    assert choose_tests(["nexus_cli/ui/input/box.py"]) == [ALWAYS, "tests/ui/input"]


def test_a_changed_test_runs_alone_and_documents_run_none() -> None:
    assert choose_tests(["tests/cli/test_tour.py", "README.md", "nexus_cli/__main__.py"]) == [
        "tests/cli/test_tour.py",
        ALWAYS,
    ]
    assert choose_tests(["tests/cli/test_gone.py"]) == [ALWAYS]
    assert choose_tests(["tests/cli/test_tour.py", "tests/cli/conftest.py"]) == ["tests/cli", ALWAYS]


def test_what_changed_is_committed_in_work_deleted_or_new(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("same", "gone", "in_work", "committed"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "work")
    (tmp_path / "committed").write_text("more")
    git("commit", "-am", "second")
    (tmp_path / "in_work").write_text("more")
    (tmp_path / "new").write_text("new")
    (tmp_path / "gone").unlink()
    assert changed_files(tmp_path) == ["committed", "gone", "in_work", "new"]
