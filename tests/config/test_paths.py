"""Which folder is the project: the repository around the working folder, never the home folder by accident."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nexus_cli.config.added_folders import check_folder
from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.paths import home_folder, places, project_root, repository_root, working_folder
from nexus_cli.core.errors import NexusError
from nexus_cli.sandbox.profile import make_profile


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


def test_the_folders_of_the_person_follow_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "log"}
    for name in ("NEXUS_HOME", *names):
        monkeypatch.delenv(name, raising=False)
    for home in ("one", "two", "one"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        found = places()
        assert all(getattr(found, kind).is_relative_to(tmp_path / home) for kind in names.values())
    for name, kind in names.items() if sys.platform == "linux" else ():
        before = places()
        monkeypatch.setenv(name, str(tmp_path / name))
        changed = {one for one in names.values() if getattr(places(), one) != getattr(before, one)}
        assert changed == {kind} and getattr(places(), kind).is_relative_to(tmp_path / name)
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "three"))
    assert places().data == tmp_path / "three/data"


def test_a_user_without_a_home_folder_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such is a user without a name, in a container."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "NEXUS_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(NexusError, match=r"HOME is not set, and user .* has none") as none:
        places()
    assert none.value.exit_status == 2 and "NEXUS_HOME" in none.value.hint
    assert "a bug in nexus" in report_bug(ValueError()).line, "it is told although there is no log file"
    for named in ("~", "~nobody-of-this-name/nexus"):
        monkeypatch.setenv("NEXUS_HOME", named)
        with pytest.raises(NexusError, match=f"NEXUS_HOME {named}: the home folder in its path is unknown"):
            places()
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path))
    assert places().data == tmp_path / "data"
    with pytest.raises(NexusError, match="there is no such folder"):
        working_folder("~nobody-of-this-name/project")


def test_a_user_without_a_home_folder_has_none_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_entry(user: int) -> object:
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", no_entry)
    project = tmp_path / "project"
    added = tmp_path / "added"
    for folder in (project, added):
        folder.mkdir()
    monkeypatch.chdir(project)
    profile = make_profile("write", project=project, cwd=project, own=places(), temp=None, added=(added,))
    assert project in profile.writable and not any("home folder" in note for note in profile.notes)
    monkeypatch.chdir(added)
    assert check_folder(str(added), project) == added
    assert home_folder() == "/nonexistent"
