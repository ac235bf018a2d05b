"""The diff of the working folder: nothing that the repository's own configuration names is run for it."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from project_files import write_files

from nexus_cli.commands import diff
from nexus_cli.commands.diff import changes_to_review, folder_diff
from nexus_cli.ledger import Ledger


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose configuration names programs for everything, with one file that has changed."""
    folder, mark = tmp_path / "repo", tmp_path / "was-here"
    folder.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=folder, check=True)
    (folder / "a.txt").write_text("one\n")
    subprocess.run([*git, "add", "."], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=folder, check=True)
    (folder / "a.txt").write_text("two\n")
    write_files(folder, {".git/info/attributes": "* filter=evil diff=evil\n", ".gitattributes": "*.txt filter=other\n"})
    with open(folder / ".git" / "config", "a") as config:
        config.write(f'[filter "evil"]\n\tclean = "touch {mark}; cat"\n\trequired = true\n')
        config.write("[include]\n\tpath = more\n")
        config.write(f'[diff "evil"]\n\ttextconv = "touch {mark}; cat"\n\tcommand = "touch {mark}"\n')
        config.write(f'[core]\n\tfsmonitor = "touch {mark}; false"\n\tpager = "touch {mark}"\n')
    (folder / ".git" / "more").write_text(f'[filter "other"]\n\tprocess = "touch {mark}"\n\tclean = "touch {mark}"\n')
    return folder


def diff_of(folder: Path) -> dict[str, Any]:
    with closing(Ledger.open(None)) as ledger:
        made = ledger.create_session(folder="/f", project="/f", model="m", recipe="ask", at="2026-01-01T00:00:00.000Z")
        return {**folder_diff(folder, ledger, made.id)}


def test_no_filter_of_the_repository_runs(repository: Path) -> None:
    found = diff_of(repository)
    assert "-one\n+two\n" in found["text"] and found["source"] == "git"
    assert "+two" in asyncio.run(changes_to_review(repository, "HEAD")).text
    assert not (repository.parent / "was-here").exists()


def test_changes_in_a_submodule_are_in_the_diff_and_none_of_its_filters_runs(repository: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(above)]
    subprocess.run(["git", "init", "-q", str(above)], check=True)
    repository.rename(above / "lib")
    (above / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = ./lib\n')
    subprocess.run([*git, "add", ".gitmodules"], check=True)
    head = subprocess.check_output([*git[:-1], str(above / "lib"), "rev-parse", "HEAD"], text=True).strip()
    subprocess.run([*git, "update-index", "--add", "--cacheinfo", f"160000,{head},lib"], check=True)
    subprocess.run([*git, "-c", "core.fsmonitor=false", "commit", "-qm", "x"], check=True)
    (above / "lib" / "new.md").write_text("z\n")
    found = diff_of(above)
    assert "--- a/lib/a.txt\n+++ b/lib/a.txt\n@@ -1 +1 @@\n-one\n+two\n" in found["text"]
    assert "+++ b/lib/new.md" in found["text"] and "lib/new.md" in found["untracked"]
    assert not (tmp_path / "was-here").exists()


@pytest.mark.matrix
def test_a_link_where_a_submodule_was_leads_to_no_other_repository(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    head = subprocess.check_output(["git", "-C", str(folder), "rev-parse", "HEAD"], text=True).strip()
    (folder / ".gitmodules").touch()
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    (other / "secret.txt").write_text("private\n")
    for name, target in (("sub", other), ("here", folder)):
        entry = f"160000,{head},{name}"
        subprocess.run(["git", "-C", str(folder), "update-index", "--add", "--cacheinfo", entry], check=True)
        (folder / name).symlink_to(target)
    found = diff_of(folder)
    assert "private" not in found["text"] and found["text"].count("+two") == 1
    assert not [name for name in found["untracked"] if "/" in name]


def test_a_cut_diff_ends_with_a_whole_line_and_no_file_behind_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff, "MOST", 400)
    (repository / "a.txt").write_text("two\n" + "x" * 90 + "\n" + "y" * 400 + "\n")
    (repository / "new").write_text("z\n")
    found = diff_of(repository)
    assert found["text"].endswith("\n") and "+++ b/new" not in found["text"] and "new" in found["unread"]
    assert found["cut"].endswith(" more bytes") and len(found["text"]) <= 400


def test_a_filter_that_cannot_be_switched_off_ends_the_diff(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.txt filter=a=b\n")
    with open(repository / ".git" / "config", "a") as config:
        config.write(f'[filter "a=b"]\n\tclean = "touch {repository.parent / "was-here"}; cat"\n')
    found = diff_of(repository)
    assert found["source"] == "session" and "cannot be disabled" in found["why"]
    assert not (repository.parent / "was-here").exists()


def test_a_folder_that_was_moved_away_is_named_as_the_reason(repository: Path) -> None:
    repository.rename(repository.parent / "moved")
    assert diff_of(repository)["why"] == f"the folder {repository} no longer exists"
