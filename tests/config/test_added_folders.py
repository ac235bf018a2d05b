"""The folders that `--add-dir` takes, and those that a resumed session has."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.config.added_folders import check_folder, check_folders, merge_folders
from nexus_cli.core.errors import NexusError


def test_folders_that_overlap_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project, library = tmp_path / "work" / "project", tmp_path / "work" / "library"
    for folder in (project, library / "inner", tmp_path / "home"):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(library)
    assert check_folders([str(tmp_path / "link")], project) == (library,)
    for named, added, why in (
        (project.parent, (), "this folder contains the project"),
        (library / "inner", (library,), f"{library} is already added"),
        (library, (library / "inner",), "the subfolder .*/inner is already added"),
        (tmp_path, (), "home folder"),
    ):
        with pytest.raises(NexusError, match=why) as refused:
            check_folder(str(named), project, added)
        assert refused.value.kind == "usage"


def test_a_resumed_session_has_its_folders_and_says_which_are_gone(tmp_path: Path) -> None:
    project, library, more = (tmp_path / name for name in ("project", "library", "more"))
    for folder in (project, library, more):
        folder.mkdir()
    kept = [str(library), str(more), str(tmp_path / "gone")]
    folders, notices = merge_folders(kept, (more,), project)
    assert folders == (more, library)
    assert len(notices) == 1 and "gone" in notices[0] and "there is no such folder" in notices[0]


def test_a_kept_folder_that_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    project, library, other = (tmp_path / name for name in ("project", "library", "other"))
    for folder in (project, other):
        folder.mkdir()
    library.symlink_to(other)
    folders, notices = merge_folders([str(library), str(library / ".." / "library")], (), project)
    assert folders == () and all("contains a symbolic link" in one for one in notices) and len(notices) == 2, notices
