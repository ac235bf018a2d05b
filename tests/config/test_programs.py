"""The programs that nexus starts itself are never those of a project, whatever the PATH or a link says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus_cli.config import programs
from nexus_cli.config.command_records import RECORD, records_folder
from nexus_cli.config.paths import places
from nexus_cli.config.programs import (
    ProgramRefused,
    find_named_program,
    find_program,
    git_command,
    git_environment,
    own_interpreter,
    program_environment,
)
from nexus_cli.config.worktree_record import WorktreeRecord, worktrees_of
from nexus_cli.sandbox.own_git import Git


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with an activated environment, in which a program `git` is planted; the work is done in `src`."""
    folder = tmp_path / "disk" / "shop"
    for name in (".git", "src", "node_modules/.bin"):
        (folder / name).mkdir(parents=True)
    plant(folder / ".venv" / "bin" / "git")
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "nexus"))
    monkeypatch.chdir(folder / "src")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with the person's own `git`."""
    return plant(tmp_path / "own" / "git").parent


def plant(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch '{path}.ran'\n")
    path.chmod(0o755)
    return path


def path_of(*entries: object) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, entries))}


def ways_in(project: Path) -> list[str]:
    """Spellings of a folder of programs in the project."""
    programs_folder = project / ".venv" / "bin"
    for name, target in (("link", programs_folder), ("whole", project), ("disk2", project.parent)):
        place = project.parent.parent / name
        if not place.is_symlink():
            place.symlink_to(target)
    up = project.parent.parent
    return [
        str(programs_folder),
        f"{programs_folder}/",
        f"{project}/src/../.venv//bin",
        str(up / "link"),
        str(up / "whole/.venv/bin"),
        str(up / "disk2/shop/.venv/bin"),
        "../.venv/bin",
        ".",
        "",
        "~/bin",
    ]


@pytest.mark.matrix
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_order_and_no_spelling_of_the_path_leads_into_the_project(
    project: Path, outside: Path, data: st.DataObject
) -> None:
    entries = data.draw(st.lists(st.sampled_from(ways_in(project)), max_size=6))
    place = data.draw(st.integers(0, len(entries)))
    for folder in (None, project, project / "src"):
        environ = path_of(*entries[:place], outside, *entries[place:])
        assert find_program("git", folder, environ) == str(outside / "git")
        assert find_named_program("git", folder, environ) == str(outside / "git")
        assert program_environment(environ, folder)["PATH"] == str(outside)
        assert find_program("git", folder, path_of(*entries)) is None
        assert program_environment(path_of(*entries), folder)["PATH"] == os.defpath


def test_a_link_outside_that_leads_to_a_program_of_the_project_does_not_count(project: Path, outside: Path) -> None:
    first = project.parent.parent / "bin"
    first.mkdir()
    (first / "git").symlink_to(project / ".venv/bin/git")
    assert find_program("git", environ=path_of(first, outside)) == str(outside / "git")
    with pytest.raises(ProgramRefused, match="from the project"):
        find_named_program("git", environ=path_of(first))


def test_a_way_that_leads_through_the_project_does_not_count(project: Path, outside: Path, tmp_path: Path) -> None:
    """Commands of the project can point a link in it at any folder that they may write."""
    cache = plant(tmp_path / "cache" / "git").parent
    (project / "tools").symlink_to(cache)
    (tmp_path / "to-tools").symlink_to(project / "tools")
    (tmp_path / "relative").symlink_to("to-tools")
    (project / "single").mkdir()
    (project / "single" / "git").symlink_to(cache / "git")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "git").symlink_to(project / "single" / "git")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for entry in (
        project / "tools",
        tmp_path / "to-tools",
        tmp_path / "relative",
        tmp_path / "one",
        loop,
        f"{outside}/../disk/shop/tools",
        f"{tmp_path}/one/../relative/.",
    ):
        environ = path_of(entry, outside)
        assert find_program("git", environ=environ) == str(outside / "git"), entry
        if entry != tmp_path / "one":
            assert program_environment(environ)["PATH"] == str(outside), entry
        with pytest.raises(ProgramRefused):
            find_named_program(f"{entry}/git", environ=environ)
    assert find_program("git", environ=path_of(cache)) == str(cache / "git")


def test_a_folder_that_everybody_may_write_does_not_count(project: Path, outside: Path) -> None:
    for mode, counts in ((0o777, False), (0o1777, False), (0o775, True), (0o755, True)):
        open_folder = plant(project.parent.parent / f"open-{mode:o}" / "git").parent
        inner = plant(open_folder / "inner" / "git").parent
        open_folder.chmod(mode)
        found = find_program("git", environ=path_of(open_folder, outside))
        assert found == str((open_folder if counts else outside) / "git"), oct(mode)
        # Others can put another folder in its place, unless the sticky bit keeps them from it.
        found = find_program("git", environ=path_of(inner, outside))
        assert found == str((inner if counts or mode & 0o1000 else outside) / "git"), oct(mode)


def test_a_worktree_of_nexus_is_as_closed_as_the_project_that_it_was_made_of(
    project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = worktrees_of(project) / "fix"
    planted = plant(folder / "bin/git").parent
    record = WorktreeRecord("fix", folder, project, project / ".git", "b", "0")
    record.home.mkdir()
    record.save()
    both = path_of(planted, project / ".venv/bin", outside)
    assert find_program("git", project, both) == str(outside / "git")
    monkeypatch.chdir(project.parent)
    assert find_program("git", folder, both) == str(outside / "git")
    assert program_environment(both, folder)["PATH"] == str(outside)


def test_in_the_home_folder_the_programs_of_the_person_are_theirs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    own = project / ".venv/bin"
    assert find_program("git", project, path_of(own)) == str(own / "git")


def test_a_program_that_the_person_names_is_found_everywhere_but_in_the_project(project: Path, outside: Path) -> None:
    for name in (str(project / ".venv/bin/git"), "../.venv/bin/git", f"{project}/../shop/.venv/bin/git"):
        with pytest.raises(ProgramRefused) as refused:
            find_named_program(name)
        assert refused.value.strerror == "nexus does not run programs from the project"
    assert find_named_program(str(outside / "git")) == str(outside / "git")
    with pytest.raises(FileNotFoundError):
        find_named_program("no-such-program", environ=path_of(outside))


def test_git_gets_no_variable_of_its_own_and_none_of_its_settings_can_be_widened(project: Path) -> None:
    given_to = {
        "PATH": f"{project}/.venv/bin:/usr/bin",
        "HOME": "/h",
        "GIT_CONFIG_GLOBAL": "/g",
        "GIT_CONFIG_COUNT": "1",
        "GIT_DIR": "/x",
        "GIT_EXEC_PATH": "/x",
        "GIT_SSH_COMMAND": "x",
        "GIT_ALLOW_PROTOCOL": "ext",
    }
    env = git_environment(project, given_to)
    assert env["PATH"] == "/usr/bin" and env["GIT_ALLOW_PROTOCOL"] == "none" and env["GIT_CONFIG_GLOBAL"] == "/g"
    assert not {"GIT_DIR", "GIT_EXEC_PATH", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND"} & env.keys()


def test_git_starts_no_planted_helper(project: Path, tmp_path: Path) -> None:
    """An unknown command of git is looked for on the PATH, as `git-foo`."""
    git = shutil.which("git", path=os.defpath)
    if git is None:
        pytest.skip("git is not installed")
    planted = plant(project / ".venv/bin/git-foo")
    environ = {"PATH": f"{planted.parent}{os.pathsep}{os.defpath}", "HOME": str(tmp_path)}
    command = git_command(git, [project], "foo")
    assert subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True).returncode == 0
    done = programs.run_program(command, env=git_environment(project, environ), cwd=tmp_path)
    assert done.returncode == 1 and b"not a git command" in done.stderr
    assert Path(f"{planted}.ran").exists()  # only of the first run
    Path(f"{planted}.ran").unlink()
    programs.run_program(command, env=git_environment(project, environ), cwd=tmp_path)
    assert not Path(f"{planted}.ran").exists()


def test_git_is_not_started_where_a_command_was_not_compared(project: Path, tmp_path: Path) -> None:
    folder = records_folder(places().data)
    folder.mkdir(parents=True)
    (folder / f"left{RECORD}").write_text(json.dumps([str(project)]) + "\n")
    with pytest.raises(ProgramRefused, match="not been checked yet"):
        Git("/usr/bin/git", project / "src").prepare("status")
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert Git("/usr/bin/git", other).prepare("status")[0][0] == "/usr/bin/git"


def test_helpers_run_on_no_python_of_the_project(project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = project / ".venv" / "bin"
    here.mkdir(parents=True, exist_ok=True)
    (here / "python").symlink_to(outside / "python")
    monkeypatch.setattr(sys, "executable", str(here / "python"))
    monkeypatch.setattr(programs, "REAL_INTERPRETER", str(outside / "python"))
    assert own_interpreter(project) == str(outside / "python"), "a command could replace the link"
    (here / "python").unlink()
    (here / "python").symlink_to(outside.parent / "left-by-a-command")
    assert own_interpreter(project) == str(outside / "python"), "it was looked up when nexus started"
    monkeypatch.setattr(programs, "REAL_INTERPRETER", str(here / "python"))
    with pytest.raises(ProgramRefused, match="a folder that commands can change"):
        own_interpreter(project)
    monkeypatch.setattr(sys, "executable", str(outside / "python"))
    assert own_interpreter(project) == str(outside / "python")
