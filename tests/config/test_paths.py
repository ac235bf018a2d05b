"""Which folder is the project: the repository around the working folder, never the home folder by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus_cli.config.paths import project_root, repository_root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is a git repository, and that HOME names by way of a link."""
    real = tmp_path / "disk" / "home"
    (real / ".git").mkdir(parents=True)
    (real / "work").mkdir()
    (tmp_path / "home").symlink_to(real)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return real


def test_the_home_folder_is_no_project_however_home_spells_it(home: Path) -> None:
    assert project_root(home / "work") == home / "work"
    assert project_root(Path(os.environ["HOME"]) / "work") == Path(os.environ["HOME"]) / "work"
    assert project_root(home) == home


def test_a_repository_below_the_home_folder_is_a_project(home: Path) -> None:
    (home / "work" / ".git").mkdir()
    (home / "work" / "deep").mkdir()
    assert project_root(home / "work" / "deep") == home / "work"


def test_a_parent_that_may_not_be_looked_into_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: object, **more: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "stat", denied)
    assert repository_root(tmp_path) is None
