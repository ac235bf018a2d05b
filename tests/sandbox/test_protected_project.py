"""Protected places inside a writable project: what a command does to them is refused or put back; git still works."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sandbox.scene import IDENTITY, ONE_EACH, Ground, Scene, in_user, open_scene
from search import sample

from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.profile import find_worktree_folder

once_each = pytest.mark.parametrize("ground", sample(ONE_EACH, 2), ids=lambda ground: ground.name, indirect=True)
"""For what is the same for each user."""
GIT = "git " + " ".join(IDENTITY)


def prepare(scene: Scene) -> None:
    """Fill the project with one of each kind of protected place."""
    project = scene.project
    (project / ".git/hooks/post-commit").write_text("#!/bin/sh\n")
    for name, text in {
        ".git/info/attributes": "*.x filter=x\n",
        ".git/modules/a/b/config": "[core]\n",
        ".git/modules/a/b/HEAD": "ref: refs/heads/main\n",
        ".nexus/config.toml": 'allow = "read"\n',
        ".vscode/tasks.json": "{}\n",
        "AGENTS.md": "Be careful.\n",
        ".envrc": "true\n",
        ".husky/pre-commit": "true\n",
        ".own/hooks/pre-commit": "true\n",
        ".own/gitconfig": "[alias]\n\tx = status\n",
        "large/.mcp.json": "{}\n",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with (project / ".git/config").open("a") as file:
        file.write('[core]\n\thooksPath = ".own/hooks"\n[include]\n\tpath = ../.own/gitconfig\n')
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    (project / ".git/modules/a/b/hooks").mkdir()


def shape(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every protected node of the project with mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith(("a/", ".git/i2")):
            continue  # what a command made of its own
        if name.startswith((".git/objects", ".git/logs", ".git/refs")) or name in (
            ".git/index",
            ".git/HEAD",
            ".git/COMMIT_EDITMSG",
            ".git/ORIG_HEAD",
        ):
            continue
        if name.startswith(".") or path.name.isupper() or ".md" in name:
            about = path.lstat()
            kind = stat.S_IFMT(about.st_mode)
            mode = about.st_mode if stat.S_ISREG(about.st_mode) else kind
            target = os.readlink(path).encode() if path.is_symlink() else b""
            found[name] = (mode, target or (path.read_bytes() if path.is_file() else b""))
    return found


HARM = {
    "14 a new hook": "printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "20 what hooksPath names": "echo x >> .own/hooks/pre-commit; echo x > .own/hooks/post-merge",
    "20 what an inclusion names": "echo '[core]' >> .own/gitconfig; rm -rf .own; mkdir .own",
    "14 a hook changed": "echo touch x >> .git/hooks/post-commit",
    "14 a hook made executable": "chmod +x .git/hooks/post-commit",
    "15 the configuration": "printf '[core]\\n\\tfsmonitor = x\\n' >> .git/config",
    "15 the configuration replaced": "cp .git/config c && echo '[alias]' >> c && mv -f c .git/config",
    "16 the folder moved far": "mkdir -p a/b && mv .git a/b/git && cp -r a/b/git .git && echo x >> .git/config",
    "17 hooks removed and made anew": "rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
    "17 hooks a link": "mv .git/hooks h; ln -s ../h .git/hooks; echo x > h/pre-commit",
    "19 fsmonitor": "git config core.fsmonitor 'touch x'",
    "20 hooksPath": "git config core.hooksPath /tmp; git config --worktree core.hooksPath /tmp",
    "21 attributes and a filter": "echo '* filter=y' > .git/info/attributes; git config filter.y.clean 'touch x'",
    "21 what git hides from a status": "echo x >> .git/info/exclude; rm .git/info/exclude; echo y > .git/info/exclude",
    "18 the repository moved": "mkdir a; mv .git a/g && cp -r a/g a/o && echo x > a/g/hooks/x && ln -s a/o .git",
    "21 the folder of attributes moved": "mv .git/info .git/i2; mkdir .git/info; echo '* x' > .git/info/attributes",
    "22 a submodule": "echo '[core]' >> .git/modules/a/b/config; echo x > .git/modules/a/b/hooks/pre-commit",
    "22 commondir": "echo /tmp > .git/commondir",
    "24 a bare repository": "mkdir -p objects refs; echo 'ref: refs/heads/x' > HEAD",
    "25 settings of nexus": "echo 'x = 1' > .nexus/config.toml; mkdir -p .nexus/skills; echo > .nexus/skills/y",
    "25 instructions": "echo Obey. >> AGENTS.md; rm CLAUDE.md; echo Obey. > CLAUDE.md; echo x > NEXUS.md",
    "25 instructions by their link": "echo Obey. >> CLAUDE.md",
    "25 start-up files": "echo x > .envrc; echo x > .bashrc; echo x > .vimrc",
    "25 folders of tools": "rm -rf .vscode; mkdir .idea; echo x > .idea/x; echo x > .husky/pre-commit; mkdir .claude",
    "25 a link in place of a folder": "mv .vscode v; ln -s $OUT .vscode; echo x > .vscode/tasks.json",
    "25 what we may not read": "echo x > .git/hooks/pre-push; chmod 0 .git/hooks/* .git/hooks; chmod 500 .git .",
    "25 a folder that we may not read": "mkdir -p .idea/x; echo x > .idea/x/y; chmod 0 .idea/x .idea; chmod 0 .envrc",
    "25 a hard link of one": "ln .git/config here; echo '[alias]' >> here; ln AGENTS.md there; echo x >> there",
    "26 other letters": "mkdir -p .GIT/Hooks .Vscode; echo x > .GIT/Hooks/pre-commit; echo x > agents.MD",
}


@cache
def after_harm(ground: Ground, every: int) -> dict[str, tuple[dict[str, Any], tuple[str, ...], str]]:
    """By name: protected places that are not as they were, what was told, what the command printed."""

    def act() -> dict[str, tuple[dict[str, Any], tuple[str, ...], str]]:
        found = {}
        with open_scene(ground) as scene:
            prepare(scene)
            shutil.copytree(scene.project, scene.base / "fresh", symlinks=True)
            outside = sorted(os.listdir(scene.out))
            before = shape(scene.project)
            confinement = Confinement(scene.profile(), ground.probe)
            for name, words in [*HARM.items()][::every]:
                shutil.rmtree(scene.project)
                shutil.copytree(scene.base / "fresh", scene.project, symlinks=True)
                told, text = scene.start(words, confinement)
                after = shape(scene.project)
                lost = {
                    key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)
                }
                if sorted(os.listdir(scene.out)) != outside:
                    lost["outside"] = None
                found[name] = lost, told, text
        return found

    return in_user(ground.user, act)


def test_protected_places_are_as_they_were(ground: Ground, in_gate: bool) -> None:
    for name, (lost, told, text) in after_harm(ground, 4 if in_gate else 1).items():
        assert not lost, (name, lost, told, text)
        assert told or ground.backend is Backend.BWRAP, f"{name}: what was put back is told"


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize(
    ("words", "mounted"),
    sample(
        [
            ("mv .git g2 && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit", "pre-commit"),
            ("mv .git g2 && cp -r g2 .git && echo evil | tee g2/hooks/pre-commit g2/hooks/post-merge", "g2"),
            ("mkdir evil; mv .git g2; echo 'gitdir: evil' > .git", ""),
            ("mkdir -p a/b; mv .git a/b/c; echo evil > a/b/c/hooks/pre-commit; chmod 500 a/b/c", ""),
            ("rm -rf .git; ln -s g2 .git", ""),
        ],
        3,
    ),
)
def test_what_takes_the_place_of_a_git_folder_that_was_moved_is_not_obeyed(
    ground: Ground, words: str, mounted: str
) -> None:
    """bubblewrap refuses to move it; otherwise it is put back, and told."""

    def act() -> tuple[bool, str, tuple[str, ...], list[str]]:
        with open_scene(ground) as scene:
            before = (scene.project / ".git/config").read_text()
            done = scene.run(words)
            git = scene.project / ".git"
            kept = git.is_dir() and not git.is_symlink() and (git / "config").read_text() == before
            left = [str(path) for path in scene.project.glob("**/hooks/*") if b"evil" in path.read_bytes()]
            return kept, "link" if git.is_symlink() else "file" if git.is_file() else "", done.restored, left

    kept, kind, told, left = in_user(ground.user, act)
    assert kind == "" and left == []
    assert kept or words.startswith("rm") or mounted
    if ground.backend is not Backend.BWRAP:
        assert any(".git" in line for line in told), told


@pytest.mark.matrix
@once_each
def test_what_is_made_after_a_git_folder_was_removed_is_not_taken_for_it(ground: Ground) -> None:
    """The inode of the removed folder is often that of the next new one."""
    made = [f"made{number}" for number in range(20)]

    def act() -> tuple[list[str], bool]:
        with open_scene(ground) as scene:
            scene.run(f"rm -rf .git; mkdir {' '.join(made)}; mkfifo pipe")
            return [name for name in made if not (scene.project / name).is_dir()], (scene.project / "pipe").is_fifo()

    assert in_user(ground.user, act) == ([], True)


@once_each
def test_a_list_of_hidden_files_is_guarded_but_not_one_that_git_makes(ground: Ground) -> None:
    words = (
        "git init -q sub/n; git init -q sub/m; echo '*.py' >> sub/m/.git/info/exclude; echo evil >> .git/info/exclude"
    )

    def act() -> list[bool | str]:
        with open_scene(ground) as scene:
            (scene.project / "sub/n").mkdir()
            exclude = scene.project / ".git/info/exclude"
            before = exclude.read_text()
            scene.run(words)
            again = scene.run("true")
            made = [(scene.project / f"sub/{name}/.git/info/exclude").exists() for name in "nm"]
            return [exclude.read_text() == before, *made, *again.restored]

    assert in_user(ground.user, act) == [True, True, True]


@pytest.mark.matrix
@once_each
def test_a_protected_link_out_of_the_project_is_told_once(ground: Ground) -> None:
    def act() -> list[tuple[str, ...]]:
        with open_scene(ground) as scene:
            (scene.project / "CLAUDE.md").symlink_to(scene.home / "plain")
            (scene.project / "GEMINI.md").symlink_to("CLAUDE.md")
            return [scene.run("true").restored for _ in range(2)]

    assert in_user(ground.user, act) == [("these links point to unprotected files outside the project: CLAUDE.md",), ()]


@pytest.mark.matrix
@once_each
def test_a_new_submodule_stays_without_what_runs_programs(ground: Ground) -> None:
    words = (
        "git init -q --bare .git/modules/n; cd .git/modules/n; echo evil > hooks/pre-commit; git config core.pager x;"
        "git init -q --bare ../m; git -C ../m config core.worktree ../../../m; git -C ../m remote add origin /x"
    )

    def act() -> tuple[bool, bool, bool]:
        with open_scene(ground) as scene:
            scene.run(words)
            modules = scene.project / ".git/modules"
            return (
                (modules / "n/hooks/pre-commit").exists(),
                (modules / "n/config").exists(),
                (modules / "m/config").exists(),
            )

    assert in_user(ground.user, act) == (False, False, True)


@pytest.mark.matrix
@once_each
def test_git_works_as_ever(ground: Ground) -> None:
    """Wall 28, and no ghost files besides."""
    words = "; ".join(
        (
            "set -e",
            f"echo 2 > tracked; {GIT} stash -q; {GIT} stash pop -q; {GIT} commit -qam second",
            f"git checkout -qb topic; echo 3 > new; git add new; {GIT} commit -qm third",
            f"git checkout -q main; {GIT} merge -q topic; git tag v1",
            "git status --short; git log --oneline | wc -l; git diff HEAD~1 --stat",
        )
    )

    def act() -> tuple[str, int, tuple[str, ...], list[str]]:
        with open_scene(ground) as scene:
            done = scene.run(words)
            return done.output.decode(), done.status, done.restored, sorted(os.listdir(scene.project))

    text, status, told, names = in_user(ground.user, act)
    assert status == 0 and text.startswith("3\n") and not told, text
    assert names == [".git", "new", "sub", "tracked"]


@pytest.mark.matrix
@once_each
def test_a_worktree_commits_and_leaves_the_hooks_of_its_repository(ground: Ground) -> None:
    """Wall 23."""
    words = (
        f"echo 2 > tracked && {GIT} commit -qam second && git log --oneline | wc -l; "
        "main=$(git rev-parse --git-common-dir); echo x > $main/hooks/pre-commit; echo x >> $main/config; "
        "echo x > $main/worktrees/tree/config.worktree; echo / > $main/worktrees/tree/commondir; "
        "echo x > $main/../tracked"
    )

    def act() -> tuple[str, list[bool]]:
        with open_scene(ground) as scene:
            scene.git("worktree", "add", "-q", str(scene.base / "tree"))
            git = scene.project / ".git"
            before = (git / "config").read_text()
            text = scene.text(words, scene.profile(project=scene.base / "tree"))
            return text, [
                (git / "hooks/pre-commit").exists(),
                (git / "config").read_text() != before,
                (git / "worktrees/tree/config.worktree").exists(),
                (git / "worktrees/tree/commondir").read_text() == "/\n",
                (scene.project / "tracked").read_text() == "x\n",
            ]

    text, harm = in_user(ground.user, act)
    assert text.startswith("2\n"), text
    assert harm == [False] * 5


@pytest.mark.matrix
@once_each
def test_a_worktree_can_be_added_and_in_one_git_works_as_ever(ground: Ground) -> None:
    """Wall 28: `rebase` and `stash` lock the references of the whole repository."""
    words = "; ".join(
        (
            "set -e",
            f"git checkout -qb topic; echo 1 > new; git add new; {GIT} commit -qm one; git checkout -q -",
            f"echo 2 > other; git add other; {GIT} commit -qm two; git checkout -q topic; {GIT} rebase -q -",
            f"echo 3 > new; {GIT} stash -q; {GIT} stash pop -q; {GIT} commit -qam three",
            "git worktree add -q inner; git -C inner log --oneline | wc -l",
        )
    )

    def act() -> list[Any]:
        with open_scene(ground) as scene:
            scene.git("worktree", "add", "-q", str(scene.base / "tree"))
            tree = scene.profile(project=scene.base / "tree")
            done = [scene.run(words), scene.run(words.replace("topic", "leaf").replace("inner", "within"), tree)]
            entries = scene.git("worktree", "list").splitlines()
            return [[one.output.decode(), one.status, one.restored] for one in done] + [len(entries)]

    assert in_user(ground.user, act) == [["4\n", 0, ()], ["4\n", 0, ()], 4]


@pytest.mark.matrix
@once_each
def test_a_new_worktree_that_obeys_another_configuration_is_taken_away(ground: Ground) -> None:
    words = (
        "git worktree add -q one; git worktree add -q two; echo /tmp > .git/worktrees/one/commondir; "
        "git config extensions.worktreeConfig true; echo '[alias]' > .git/worktrees/two/config.worktree"
    )

    def act() -> tuple[list[str], list[str]]:
        with open_scene(ground) as scene:
            scene.run(words)
            first = os.listdir(scene.project / ".git/worktrees")
            scene.run(
                "git worktree prune; rm -rf one two; git worktree add -q two; echo x >> .git/worktrees/two/gitdir"
            )
            entries = scene.project / ".git/worktrees"
            return first, os.listdir(entries) if entries.exists() else []

    assert in_user(ground.user, act) == ([], [])


def test_a_project_cannot_open_a_repository_that_does_not_know_it(tmp_path: Path) -> None:
    repository = tmp_path / "other/.git/worktrees/x"
    project = tmp_path / "project"
    for folder in (repository, project):
        folder.mkdir(parents=True)
    (project / ".git").write_text(f"gitdir: {repository}\n")
    assert find_worktree_folder(project) is None
    (repository / "commondir").write_text("../..\n")
    (repository / "gitdir").write_text(f"{tmp_path}/elsewhere/.git\n")
    assert find_worktree_folder(project) is None
    (repository / "gitdir").write_text(f"{project}/.git\n")
    assert find_worktree_folder(project) == repository
    (repository / "gitdir").write_text("../../../../project/.git\n")
    assert find_worktree_folder(project) == repository, "a relative path counts from git's folder"
    (project / ".git").write_text("gitdir: " + "x" * 5000)
    assert find_worktree_folder(project) is None


@pytest.mark.matrix
@once_each
def test_a_repository_that_the_command_makes_stays_and_runs_nothing(ground: Ground) -> None:
    words = (
        f"git init -qb main && git add -A && {GIT} commit -qm x && echo x > .git/hooks/pre-commit && "
        "git remote add origin https://example.org/x && git log --oneline | wc -l"
    )

    def act(more: str) -> tuple[str, list[str], str]:
        with open_scene(ground) as scene:
            shutil.rmtree(scene.project / ".git")
            text = scene.text(words + more)
            hooks = os.listdir(scene.project / ".git/hooks")
            config = scene.project / ".git/config"
            return text, hooks, config.read_text() if config.exists() else ""

    text, hooks, config = in_user(ground.user, lambda: act(""))
    assert text == "1\n" and all(name.endswith(".sample") for name in hooks)
    assert "example.org" in config
    _, _, config = in_user(ground.user, lambda: act("; git config core.sshCommand 'touch x'"))
    assert config == ""


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize("longer", [True, False])
def test_a_command_that_begins_meanwhile_does_not_take_harm_for_the_state_to_keep(ground: Ground, longer: bool) -> None:
    def act() -> list[str]:
        with open_scene(ground) as scene:
            walls = [Confinement(scene.profile(name), ground.probe) for name in ("write", "net")]
            first, second = (one.watch_command() for one in walls)
            first.__enter__()
            scene_harm = "echo mine > .envrc; echo x > .git/hooks/pre-commit"
            child = walls[0].start(["bash", "-c", scene_harm], cwd=scene.project, env=scene.environ)
            child.wait()
            second.__enter__()
            for context in (first, second) if longer else (second, first):
                context.__exit__(None, None, None)
            return [name for name in (".envrc", ".git/hooks/pre-commit") if (scene.project / name).exists()]

    assert in_user(ground.user, act) == []


@pytest.mark.matrix
@once_each
def test_what_was_left_there_is_kept_for_the_person(ground: Ground) -> None:
    def act() -> list[str]:
        with open_scene(ground) as scene:
            scene.run("echo mine > .envrc")
            return [path.read_text() for path in (scene.own.data / "put_back").iterdir()]

    assert in_user(ground.user, act) == ["mine\n"]


def test_files_that_cannot_be_read_or_are_too_many_are_never_taken_away(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.sandbox.protected_snapshot.MAX_FILES", 5)

    def act(prepare: Callable[[Scene], None]) -> int:
        with open_scene(ground) as scene:
            prepare(scene)
            scene.run("true")
            return sum(".git" not in path.parts for path in scene.project.rglob("*"))

    def fill(scene: Scene) -> None:
        for number in range(20):
            (scene.project / ".vscode" / str(number)).mkdir(parents=True)
        (scene.project / "AGENTS.md").write_text("x")
        (scene.project / "AGENTS.md").chmod(0)

    assert in_user(ground.user, lambda: act(fill)) == 24


@pytest.mark.matrix
def test_a_folder_with_very_many_files_takes_nothing_from_the_protection_of_others(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.sandbox.protected_snapshot.MAX_FILES", 30)
    monkeypatch.setattr("nexus_cli.sandbox.protected_snapshot.MAX_BYTES", 900)
    monkeypatch.setattr("nexus_cli.sandbox.protected_snapshot.MAX_MOUNTS", 3)
    harm = (
        "echo x > .git/hooks/pre-merge; git config core.fsmonitor x; echo x >> .git/modules/a/b/config;"
        "echo x > .envrc; echo x >> .agents/top; echo x >> .vscode/tasks.json;"
        "for i in {1..50}; do echo > .husky/$i; done"
    )

    def act() -> bool:
        with open_scene(ground) as scene:
            prepare(scene)
            for number in range(60):
                path = scene.project / f".agents/deep/{number}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("x" * 100)
            (scene.project / ".agents/top").write_text("mine")
            before = shape(scene.project)
            scene.run(harm)
            return shape(scene.project) == before

    assert in_user(ground.user, act)
