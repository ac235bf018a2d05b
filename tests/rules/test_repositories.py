"""Repositories in which git runs a program or reads elsewhere, each built by git: ours does not run there unwalled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rules.rows import decide
from search import sample
from worktrees.repository import git

from nexus_cli.rules.decide import decide_command
from nexus_cli.rules.read_only_environment import ENVIRONMENT, UNSET
from nexus_cli.rules.rule_set import RuleSet
from nexus_cli.sandbox.git_files import UnsafeConfiguration
from nexus_cli.sandbox.git_repository import check_repository

NONE = RuleSet()
READS = (
    "git status",
    "git diff",
    "git log -p -1",
    "git show HEAD",
    "git --no-pager log",
    "git ls-files -m",
    "git blame f",
)


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "f").write_text("one\n")
    git(folder, "add", "f")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def configure(folder: Path, text: str) -> None:
    with (folder / "config").open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


FILTER = '[filter "x"]\n\tclean = "touch {flag}; cat"\n'
"""A filter that git runs to compare a file that has changed."""


def use_filter(folder: Path, git_folder: Path, flag: Path) -> None:
    (folder / ".gitattributes").write_text("* filter=x\n")
    configure(git_folder, FILTER.format(flag=flag))
    (folder / "f").write_text("two\n")


def plant_mark(project: Path, flag: Path) -> Path:
    use_filter(project, project / ".git", flag)
    config = project / ".git/config"
    config.write_bytes(b"\xef\xbb\xbf" + FILTER.format(flag=flag).encode() + config.read_bytes())
    return project


def plant_worktree_config(project: Path, flag: Path) -> Path:
    git(project, "worktree", "add", "-q", str(project.parent / "tree"))
    git(project, "config", "extensions.worktreeConfig", "true")
    tree = project.parent / "tree"
    use_filter(tree, project / ".git/worktrees/tree", flag)
    (project / ".git/worktrees/tree/config").rename(project / ".git/worktrees/tree/config.worktree")
    return tree


def plant_linked(project: Path, flag: Path) -> Path:
    nested = make_repository(project / "nested")
    git(project, "add", "nested")
    use_filter(nested, nested / ".git", flag)
    return project


def plant_nested_below(project: Path, flag: Path) -> Path:
    nested = make_repository(project / "nested")
    use_filter(nested, nested / ".git", flag)
    return nested


def plant_bare(project: Path, flag: Path) -> Path:
    git(project, "init", "-q", "--bare", str(project / "bare"))
    configure(project / "bare", f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {flag}\n")
    return project / "bare"


def plant_bare_at_the_top(project: Path, flag: Path) -> Path:
    (project / ".git").rename(project.parent / "away")
    shutil.copytree(project.parent / "away", project, dirs_exist_ok=True)
    (project / ".git").mkdir()
    configure(project, FILTER.format(flag=flag))
    return project


def plant_worktree_elsewhere(project: Path, flag: Path) -> Path:
    git(project, "config", "core.worktree", str(project.parent))
    return project


def plant_git_file(project: Path, flag: Path) -> Path:
    other = make_repository(project.parent / "other")
    shutil.rmtree(project / ".git")
    (project / ".git").write_text(f"gitdir: {other}/.git\n")
    return project


def plant_git_link(project: Path, flag: Path) -> Path:
    other = make_repository(project.parent / "other")
    shutil.rmtree(project / ".git")
    (project / ".git").symlink_to(other / ".git")
    return project


def plant_object_link(project: Path, flag: Path) -> Path:
    other = make_repository(project.parent / "other")
    shutil.rmtree(project / ".git/objects")
    (project / ".git/objects").symlink_to(other / ".git/objects")
    return project


def plant_alternates(project: Path, flag: Path) -> Path:
    other = make_repository(project.parent / "other")
    (project / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    return project


def setting(text: str) -> Callable[[Path, Path], Path]:
    def plant(project: Path, flag: Path) -> Path:
        configure(project / ".git", text)
        return project

    return plant


PLANTED: dict[str, Callable[[Path, Path], Path]] = {
    "a mark before the section": plant_mark,
    "a worktree's own configuration": plant_worktree_config,
    "a repository in the index": plant_linked,
    "a repository around the folder": plant_nested_below,
    "a bare repository": plant_bare,
    "a bare one beside an empty .git": plant_bare_at_the_top,
    "another work tree": plant_worktree_elsewhere,
    "a .git file": plant_git_file,
    "a .git link": plant_git_link,
    "linked objects": plant_object_link,
    "alternates": plant_alternates,
    "a pretty format": setting("[format]\n\tpretty = %GG\n[gpg]\n\tprogram = x\n"),
    "a named format": setting("[pretty]\n\tevil = %GG\n"),
    "upload-pack": setting('[remote "o"]\n\turl = .\n\tpromisor = true\n\tuploadpack = x\n'),
    "a remote helper": setting('[remote "o"]\n\tvcs = x\n'),
    "a pager": setting("[pager]\n\tlog = x\n"),
    "a merge driver": setting('[merge "x"]\n\tdriver = x\n'),
    "an include": setting("[include]\n\tpath = x\n"),
    "on the section's line": setting('[diff "x"] textconv = x # ]\n'),
    "attributes": setting("[core]\n attributesFile = /x\n"),
    "a continued line": setting("[user]\n\tname = a\\\nb\n[diff]\n\texternal = x\n"),
    "a NUL in a subsection": setting('[diff "external\0"]\n\ttool = x\n'),
    "a dotted section": setting("[diff.x]\n\ttextconv = x\n"),
    "an extension of lfs": setting('[lfs "extension.x"]\n\tclean = x\n'),
    "revisions elsewhere": setting("[blame]\n\tignoreRevsFile = ../../x\n"),
    "mailmap": setting("[mailmap]\n\tfile = /x\n"),
}


@pytest.mark.parametrize("name", sample(PLANTED, 4))
def test_a_repository_that_names_programs_or_other_places_is_not_plain(
    name: str, project: Path, tmp_path: Path
) -> None:
    folder = PLANTED[name](project, tmp_path / "ran")
    with pytest.raises((UnsafeConfiguration, OSError)):
        check_repository(str(folder))


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name",
    [
        "a mark before the section",
        "a worktree's own configuration",
        "a repository in the index",
        "a repository around the folder",
    ],
)
def test_what_is_not_plain_is_what_git_would_run(name: str, project: Path, tmp_path: Path) -> None:
    folder = PLANTED[name](project, tmp_path / "ran")
    env = {key: value for key, value in os.environ.items() if key not in UNSET} | {**ENVIRONMENT}
    subprocess.run(["git", "status"], cwd=folder, env=env, capture_output=True, check=False)
    assert (tmp_path / "ran").exists()


def test_git_is_free_in_an_ordinary_clone(project: Path) -> None:
    clone = project.parent / "clone"
    git(project.parent, "clone", "-q", str(project), str(clone))
    for words in (
        "user.email a@b.c",
        "branch.main.rebase true",
        "core.sshCommand ssh",
        "pull.rebase true",
        "alias.st status",
        "remote.origin.gh-resolved base",
        "credential.helper store",
        "blame.ignoreRevsFile f",
        "core.hooksPath .husky",
    ):
        git(clone, "config", *words.split(" ", 1))
    git(clone, "branch", "topic", "--track", "main")
    (clone / "src").mkdir()
    check_repository(str(clone))
    for command in READS:
        for folder in (clone, clone / "src"):
            found = decide_command(command, level="ask", rules=NONE, cwd=folder, project=clone, confined=True)
            assert found.decision == "allow", f"{command}: {found.why}"


def test_git_is_free_in_a_worktree_that_its_repository_knows(project: Path) -> None:
    tree = project.parent / "tree"
    git(project, "worktree", "add", "-q", str(tree))
    assert decide("git status", tree, rules=NONE).decision == "allow"
    (project / ".git/worktrees/tree/gitdir").write_text("/elsewhere/.git\n")
    assert decide("git status", tree, rules=NONE).decision == "ask", "only one side says so"


def test_a_submodule_whose_configuration_names_a_program_is_not_plain(project: Path) -> None:
    inner = make_repository(project.parent / "inner")
    git(project, "submodule", "add", "-q", str(inner), "lib")
    git(project, "commit", "-q", "-m", "second")
    check_repository(str(project))
    configure(project / ".git/modules/lib", '[filter "x"]\n\tclean = x\n')
    with pytest.raises(UnsafeConfiguration):
        check_repository(str(project))


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["a .git file", "a .git link"])
def test_git_asks_where_it_finds_a_repository_outside_the_project(name: str, project: Path, tmp_path: Path) -> None:
    PLANTED[name](project, tmp_path / "ran")
    assert {decide(command, project, rules=NONE).decision for command in READS} == {"ask"}
    (project / ".git").unlink()
    assert {decide(command, project, rules=NONE).decision for command in READS} == {"allow"}, "there is none"
    git(tmp_path, "init", "-q")
    assert {decide(command, project, rules=NONE).decision for command in READS} == {"ask"}, "one around the project"
