"""What programs that we start are given: the person's environment, without the one that nexus runs in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nexus_cli.config.host_environment import add_own_program, host_environment, own_index
from nexus_cli.config.paths import places


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The virtual environment that nexus runs in."""
    folder = tmp_path / "apps" / "nexus" / ".venv"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project elsewhere."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    return folder


def spellings(own: Path, work: Path) -> list[str]:
    (work.parent / "link").symlink_to(own / "bin")
    (work.parent / "whole").symlink_to(own)
    return [
        f"{own}/bin",
        f"{own}/bin/",
        f"{own}//bin/.",
        str(work.parent / "link"),
        str(work.parent / "whole" / "bin"),
        os.path.relpath(own / "bin", work),
    ]


def test_every_spelling_of_the_folder_goes_and_every_other_entry_stays_in_its_place(own: Path, work: Path) -> None:
    others = ["/usr/local/bin", "", str(own), f"{own}/lib", "/usr/bin/", "~/.local/bin", "/usr/bin/"]
    for spelling in spellings(own, work):
        for place in (0, 3, len(others)):
            path = os.pathsep.join([*others[:place], spelling, *others[place:]])
            assert host_environment({"PATH": path}, work)["PATH"] == os.pathsep.join(others)


def test_an_activated_environment_of_ours_is_left_and_another_one_stays(own: Path, work: Path) -> None:
    rest = {"PYTHONPATH": "src", "PYTHONHOME": "/opt/python", "LANG": "C"}
    ours = {"VIRTUAL_ENV": f"{own}/", "VIRTUAL_ENV_PROMPT": "(x)", "__PYVENV_LAUNCHER__": f"{own}/bin/python3"}
    assert host_environment(ours | rest, work) == rest
    theirs = {"VIRTUAL_ENV": str(work), "VIRTUAL_ENV_PROMPT": "(w)", "__PYVENV_LAUNCHER__": "/usr/bin/python3"}
    assert host_environment(theirs | rest, work) == theirs | rest


def test_nothing_else_on_the_path_means_the_usual_folders_and_never_the_working_folder(own: Path, work: Path) -> None:
    assert host_environment({"PATH": f"{own}/bin"}, work)["PATH"] == os.defpath


@pytest.mark.parametrize("inside", [".venv", "services/api/.venv"])
def test_an_environment_of_the_project_itself_stays(inside: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = work / inside
    monkeypatch.setattr(sys, "prefix", str(own))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    (own.parent / "src").mkdir(parents=True)
    (own / "bin").mkdir(parents=True)
    path = {"PATH": f"{own}/bin:/usr/bin"}
    activated = path | {"VIRTUAL_ENV": str(own)}
    assert host_environment(activated, work) == activated
    assert host_environment(path, own.parent / "src") == path
    assert host_environment(activated, work.parent) == {"PATH": "/usr/bin"}


def test_an_environment_elsewhere_in_the_project_goes_unless_it_is_activated(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(work / "tools" / "nexus"))
    (work / "tools" / "nexus" / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert host_environment({"PATH": f"{work}/tools/nexus/bin:/bin"}, work) == {"PATH": "/bin"}


def test_a_python_without_a_virtual_environment_shares_its_folder_with_others(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    env = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "/usr"}
    assert host_environment(env, work) == env


def test_a_working_folder_that_has_vanished_is_no_error(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert host_environment({"PATH": f"{own}/bin:relative:/bin"}) == {"PATH": "relative:/bin"}


def test_the_link_to_nexus_passes_no_folder_that_walls_may_hide(
    own: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "bin/nexus").write_text("")
    (own / "bin/nexus").chmod(0o755)
    monkeypatch.setattr(sys, "prefix", f"{work}/../apps/nexus/.venv")
    env = {"PATH": str(work)}
    add_own_program(env, places())
    assert os.readlink(f"{env['PATH'].split(os.pathsep)[-1]}/nexus") == f"{own}/bin/nexus"


def test_the_repository_of_a_git_hook_is_told_to_programs_in_it_alone(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"GIT_DIR": f"{work}/.git", "GIT_INDEX_FILE": ".git/index", "GIT_PREFIX": "", "GIT_AUTHOR_NAME": "Ana"}
    (tmp_path / "worktree").mkdir()
    (tmp_path / "worktree" / ".git").write_text(f"gitdir: {work}/.git/worktrees/a\n")
    (work / "below").mkdir()
    monkeypatch.chdir(work / "below")
    assert host_environment(given, work) == given == host_environment(given, work / "below")
    assert host_environment(given, tmp_path / "worktree") == {"GIT_AUTHOR_NAME": "Ana"}


def test_a_reader_gets_no_index_outside_the_git_folder(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    for inside in (".git/index.lock", f"{work}/.git/index.lock"):
        assert own_index({"GIT_INDEX_FILE": inside}, work) == {"GIT_INDEX_FILE": f"{work}/.git/index.lock"}
    for other in (f"{tmp_path}/index", ".git/../index", ""):
        assert own_index({"GIT_INDEX_FILE": other}, work) == {}
    assert own_index({}, work) == {}
