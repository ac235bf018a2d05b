"""Protected places in folders below the project's top: guarded as at the top, but in folders that the command makes."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sandbox.scene import IDENTITY, Ground, Scene, in_user, open_scene

from nexus_cli.config.paths import Places
from nexus_cli.config.protected_places import protected_name
from nexus_cli.sandbox import command_guard, guarded_places
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.bwrap import bwrap_arguments
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.guarded_places import GuardedFolder
from nexus_cli.sandbox.profile import SandboxProfile, make_profile
from nexus_cli.sandbox.protected_snapshot import MAX_BYTES, MAX_FILES, take_snapshot
from nexus_cli.sandbox.restore_protected import restore_protected
from nexus_cli.sandbox.restricted_thread import RestrictedThread, SignalScope
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.tree.real_tree import RealTree

GIT = "git " + " ".join(IDENTITY)


def prepare(scene: Scene) -> None:
    """Fill folders below the top: two repositories, a submodule, instructions and editor folders, a plain folder."""
    project = scene.project
    scene.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "advice.ignoredHook", "GIT_CONFIG_VALUE_0": "false"}
    scene.git("init", "-q", "-b", "main", cwd=project / "sub")
    scene.git("init", "-q", "--bare", "mirror.git")
    (project / ".git/modules/lib").mkdir(parents=True)
    for name, text in {
        "sub/.git/hooks/post-commit": "true\n",
        "sub/.git/info/attributes": "*.x filter=x\n",
        "mirror.git/hooks/post-receive": "#!/bin/sh\n",
        "lib/.git": "gitdir: ../.git/modules/lib\n",
        ".git/modules/lib/HEAD": "ref: refs/heads/main\n",
        ".git/modules/lib/config": "[core]\n\tworktree = ../../../lib\n",
        "src/AGENTS.md": "Be careful.\n",
        "src/one/two/CLAUDE.md": "Be quick.\n",
        "src/one/file": "1\n",
        "pkg/.vscode/tasks.json": "{}\n",
        "pkg/.vscode/deep/er": "x\n",
        "pkg/.envrc": "true\n",
        "plain/file": "1\n",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "mirror.git/hooks/post-receive").chmod(0o755)


def places(project: Path) -> dict[str, bytes]:
    """Return the contents of all protected files of a project, by path; no link is followed."""
    found = {}
    for folder, _, names in os.walk(project):
        for name in names:
            path = Path(folder, name)
            parts = path.relative_to(project).parts
            git = next((number for number, part in enumerate(parts) if part.endswith(".git")), len(parts))
            inner = parts[git + 1 :]
            of_git = not inner or inner[0] in ("config", "hooks", "modules") or inner[-1] == "attributes"
            if path.is_file() and not path.is_symlink() and of_git and (inner or protected_name(parts)):
                found["/".join(parts)] = path.read_bytes()
    return found


HARM = {
    "a new hook": "printf evil > sub/.git/hooks/pre-commit; chmod +x sub/.git/hooks/pre-commit",
    "a hook changed": "echo evil >> sub/.git/hooks/post-commit",
    "the configuration": "echo evil >> sub/.git/config; git -C sub config core.fsmonitor evil",
    "attributes": "echo '* filter=evil' > sub/.git/info/attributes; git -C sub config filter.evil.clean evil",
    "the git folder moved and made anew": "mv sub/.git sub/g2; mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/x",
    "a link in place of the git folder": "cp -r sub/.git e; echo evil > e/config; mv sub/.git g2; ln -s ../e sub/.git",
    "the folder moved and made anew": "mv sub s2; mkdir -p sub/.git/hooks; echo evil | tee sub/.git/hooks/x sub/.envrc",
    "a repository without a work tree": "echo evil >> mirror.git/config; echo evil > mirror.git/hooks/update",
    "a file in place of a submodule's": "echo 'gitdir: ../evil' > lib/.git",
    "a submodule": "cd .git/modules/lib; echo evil >> config; mkdir hooks; echo evil > hooks/x",
    "instructions": "echo evil >> src/AGENTS.md; rm src/one/two/CLAUDE.md; echo evil > src/one/two/CLAUDE.md",
    "other instructions": "echo evil > src/one/CLAUDE.md; echo evil > plain/agents.MD; ln -s file plain/NEXUS.md",
    "instructions replaced": "echo evil > n; mv -f n src/AGENTS.md",
    "folders of tools": "echo evil >> pkg/.vscode/tasks.json; mkdir plain/.idea; echo evil > plain/.idea/x",
    "a folder of a tool removed": "rm -rf pkg/.vscode; mkdir pkg/.vscode; echo evil > pkg/.vscode/launch.json",
    "start-up files": "echo evil > pkg/.envrc; echo evil > plain/.envrc; echo evil > src/.vimrc",
    "a folder removed and made anew": "rm -rf pkg; mkdir -p pkg/.vscode; echo evil > pkg/.vscode/tasks.json",
    "a link in place of a folder": "mv pkg p; ln -s $T pkg; echo evil > pkg/.vscode/deep/er",
    "a link higher up": "mv src s2; ln -s $T src; rm -rf src/one; echo evil > src/AGENTS.md",
    "a link in place of a plain folder": "mv plain p2; ln -s $T plain; echo evil > plain/AGENTS.md",
    "a folder that we may not read": "echo evil > plain/AGENTS.md; chmod 0 plain; echo evil > pkg/.envrc; chmod 0 pkg",
    "a folder that we may not write": "echo evil > plain/AGENTS.md; echo evil > src/.envrc; chmod 500 plain src",
    "a folder that is too deep for a path": "mkdir plain/.idea; cd plain/.idea; n=$(printf %0200d 1); "
    "for i in $(seq 30); do mkdir $n; cd $n; done; echo evil > x; chmod 0 .",
    "other letters": "mkdir -p plain/.Vscode; echo evil > plain/.Vscode/x; echo evil > plain/.GIT",
}


@cache
def after_harm(ground: Ground) -> dict[str, tuple[list[str], list[str], tuple[str, ...], str]]:
    """By name: protected files that obey the command, those that are not as they were, what was told and printed."""

    def act() -> dict[str, tuple[list[str], list[str], tuple[str, ...], str]]:
        found = {}
        with open_scene(ground) as scene:
            prepare(scene)
            for name in ("AGENTS.md", "one/two/CLAUDE.md", ".vscode/tasks.json", ".vscode/deep/er"):
                (scene.out / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
                (scene.out / "tree" / name).write_text("of strangers\n")
            shutil.copytree(scene.project, scene.base / "fresh", symlinks=True)
            (scene.out / "tree/.vscode").chmod(0o750)
            scene.environ["T"] = str(scene.out / "tree")
            outside = tree(scene.out / "tree")
            confinement = Confinement(scene.profile(), ground.probe)
            for name, words in HARM.items():
                shutil.rmtree(scene.project)
                shutil.copytree(scene.base / "fresh", scene.project, symlinks=True)
                before = places(scene.project)
                told, text = scene.start(words, confinement)
                if os.getuid():
                    for folder in ("plain", "pkg", "src"):
                        if (scene.project / folder).is_dir():
                            (scene.project / folder).chmod(0o755)
                after = places(scene.project)
                evil = [key for key in after if b"evil" in after[key] and not key.startswith("e/")]
                lost = [key for key in before if key not in after and (scene.project / key).parent.is_dir()]
                lost += [key for key in before if key in after and before[key] != after[key]]
                lost += [] if len(list(scene.project.rglob("file"))) == 2 else ["what is not protected"]
                lost += ["outside"] if tree(scene.out / "tree") != outside else []
                found[name] = evil, lost, told, text
            confinement.close()
        return found

    return in_user(ground.user, act)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of what is in a folder."""
    return {str(one): (one.stat().st_mode, one.read_bytes() if one.is_file() else b"") for one in folder.rglob("*")}


@pytest.mark.matrix
def test_protected_places_below_the_top_are_as_they_were(ground: Ground) -> None:
    for name, (evil, lost, told, text) in after_harm(ground).items():
        assert not evil and not lost, (name, evil, lost, told, text)
        if ground.backend is Backend.LANDLOCK and "plain folder" not in name:
            assert told, f"{name}: what was put back is told"


@pytest.mark.matrix
def test_what_a_command_makes_of_its_own_stays(ground: Ground) -> None:
    words = (
        "git clone -q . clone && echo true > clone/.git/hooks/pre-commit && git -C clone config core.pager less; "
        "git init -q new/one; mkdir -p made/.vscode node_modules/x; echo x > made/.vscode/a; echo x > made/AGENTS.md; "
        "cp -r src copy; echo x > copy/AGENTS.md; echo x > node_modules/x/AGENTS.md; git worktree add -q tree"
    )
    kept = (
        "clone/.git/hooks/pre-commit",
        "clone/.git/config",
        "new/one/.git/config",
        "made/.vscode/a",
        "made/AGENTS.md",
        "copy/AGENTS.md",
        "node_modules/x/AGENTS.md",
        "tree/.git",
    )

    def act() -> tuple[tuple[str, ...], list[str], str]:
        with open_scene(ground) as scene:
            prepare(scene)
            done = scene.run(words)
            return done.restored, [name for name in kept if not (scene.project / name).exists()], done.output.decode()

    told, missing, text = in_user(ground.user, act)
    assert missing == [], text
    assert len(told) == 1 and told[0].startswith("clone: new repository"), "what git would run there is told"


def test_a_folder_may_be_removed_or_moved_with_what_is_protected_in_it(ground: Ground) -> None:
    if ground.backend is Backend.BWRAP:
        pytest.skip("what is mounted cannot be removed")

    def act() -> tuple[list[Any], list[str]]:
        with open_scene(ground) as scene:
            prepare(scene)
            runs = ("rm -rf src sub/.git mirror.git", "mv pkg moved", "rm -rf lib; echo x > lib", "rm -rf moved")
            told = [scene.run(words).restored for words in runs]
            return told, sorted(os.listdir(scene.project))

    told, names = in_user(ground.user, act)
    assert told[1:] == [(), (), ()], told
    assert names == [".git", "lib", "plain", "sub", "tracked"]
    assert len(told[0]) == 1 and told[0][0].startswith("sub/.git: no longer exists"), "its folder is there"


@pytest.mark.matrix
def test_files_move_between_folders_with_protected_names(ground: Ground) -> None:
    """Otherwise than over the edge of a mount."""

    def act() -> tuple[int, str]:
        with open_scene(ground) as scene:
            prepare(scene)
            done = scene.run("ln src/one/file pkg/linked && ln plain/file src/linked && mv plain src/one/plain")
            return done.status, done.output.decode()

    assert in_user(ground.user, act) == (0, "")


def test_a_denied_write_below_the_top_is_held_by_bwrap_while_the_command_runs() -> None:
    ground = Ground("ordinary", Backend.BWRAP)
    if ground.missing:
        pytest.skip(ground.missing)

    def act() -> tuple[str, ...]:
        with open_scene(ground) as scene:
            prepare(scene)
            words = "for f in src/AGENTS.md pkg/.vscode/tasks.json sub/.git/config; do echo x >> $f || echo $f; done"
            done = scene.run(f"{words} 2>/dev/null")
            return (*done.output.decode().split(), *done.restored)

    assert in_user(ground.user, act) == ("src/AGENTS.md", "pkg/.vscode/tasks.json", "sub/.git/config")


@pytest.mark.matrix
def test_a_repository_in_a_folder_that_was_there_stays_and_runs_nothing(ground: Ground) -> None:
    words = (
        "cd plain; git init -qb main; git add -A; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; "
        f"git remote add origin https://example.org/x; {GIT} commit -qnm x; git log --oneline | wc -l"
    )

    def act(more: str) -> tuple[str, list[str], str]:
        with open_scene(ground) as scene:
            prepare(scene)
            text = scene.text(words + more)
            git = scene.project / "plain/.git"
            config = git / "config"
            return text, os.listdir(git / "hooks"), config.read_text() if config.exists() else ""

    text, hooks, config = in_user(ground.user, lambda: act(""))
    assert text == "1\n" and all(name.endswith(".sample") for name in hooks) and "example.org" in config
    _, _, config = in_user(ground.user, lambda: act("; git config core.sshCommand evil"))
    assert config == ""


@pytest.mark.matrix
def test_work_in_a_repository_below_the_top_goes_on_as_ever(ground: Ground) -> None:
    words = "; ".join(
        (
            f"set -e; cd sub; echo 1 > a; git add a; {GIT} commit -qm one; git checkout -qb topic; echo 2 > a",
            f"{GIT} stash -q; {GIT} stash pop -q; {GIT} commit -qam two; git worktree add -q ../tree -b leaf",
            "git log --oneline | wc -l; cd ..; git push -q mirror.git main; git -C mirror.git rev-list --count main",
        )
    )

    def act() -> tuple[str, tuple[str, ...]]:
        with open_scene(ground) as scene:
            prepare(scene)
            done = scene.run(words)
            return done.output.decode(), done.restored

    assert in_user(ground.user, act) == ("2\n1\n", ())


@pytest.mark.matrix
def test_of_too_many_folders_the_first_are_guarded_and_the_person_is_told(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_places, "MAX_FOLDERS", 8)

    def act() -> tuple[list[bool], list[list[str]]]:
        with open_scene(ground) as scene:
            for number in range(9):
                (scene.project / f"a{number}").mkdir()
            (scene.project / "a9/b").mkdir(parents=True)
            words = "echo evil > a0/AGENTS.md; echo evil > a9/b/AGENTS.md"
            told = [[line for line in scene.run(one).restored if "folders" in line] for one in ("true", words)]
            return [(scene.project / name).exists() for name in ("a0/AGENTS.md", "a9/b/AGENTS.md")], told

    kept, told = in_user(ground.user, act)
    assert kept == [False, True]
    assert [len(lines) for lines in told] == [1, 0], "once"


def test_folders_that_a_command_makes_do_not_push_older_ones_out_in_the_next_session(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_places, "MAX_FOLDERS", 8)

    def act() -> list[str]:
        with open_scene(ground) as scene:
            (scene.project / "src/deep/er").mkdir(parents=True)
            scene.run("for i in {1..20}; do mkdir a$i; done")
            command_guard._last.clear()  # as in a new process
            scene.run("echo evil > src/deep/er/AGENTS.md")
            return [str(path) for path in scene.project.rglob("AGENTS.md")]

    assert in_user(ground.user, act) == []


def test_folders_that_tools_make_or_links_lead_to_or_that_are_far_down_are_not_looked_at(tmp_path: Path) -> None:
    for name in ("a/b/c/d/e", "node_modules/x", "sub/.venv/lib", ".git/hooks", "a/.vscode/x", "Build/x"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("bare/objects/aa", "bare/refs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bare/HEAD").touch()
    (tmp_path / "link").symlink_to("a")
    found = [os.path.relpath(path, tmp_path) for path in find(tmp_path)]
    assert found == [".", "a", "bare", "sub", "a/b", "a/b/c", "a/b/c/d"]


def test_a_protected_name_is_known_in_the_spellings_of_lenient_file_systems(tmp_path: Path) -> None:
    """On some, `.g\u200cit` is `.git`, and letters of full width are those of ASCII."""
    for name in (".G\u200cit", "Sub"):
        (tmp_path / name).mkdir()
    for name in ("Nexus.MD", "\uff2eEXUS.md", "notes.md"):
        (tmp_path / name).touch()
    (folder,) = [one for path, one in find(tmp_path).items() if path == str(tmp_path)]
    assert folder.names == (".G\u200cit", "Nexus.MD", "\uff2eEXUS.md") and folder.folders == ("Sub",)


def test_folders_above_the_working_folder_take_no_place_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_places, "MAX_FOLDERS", 4)
    for name in ("a", "b", "c/d/e/f/g/h"):
        (tmp_path / name).mkdir(parents=True)
    chain = [str(tmp_path / name) for name in ("c", "c/d", "c/d/e", "c/d/e/f", "c/d/e/f/g")]
    with closing(RealTree([str(tmp_path)])) as tree:
        found, has_more = guarded_places.find_folders(tree, str(tmp_path), chain, {})
    assert has_more and found.keys() == {*chain, *(str(tmp_path / name) for name in (".", "a", "b"))}


@pytest.mark.matrix
def test_a_folder_in_the_place_of_a_file_that_was_too_large_is_taken_away_whole(tmp_path: Path) -> None:
    place = tmp_path / ".envrc"
    place.write_bytes(bytes(MAX_BYTES + 1))
    snapshot = take_snapshot(SandboxProfile("write", tmp_path, tmp_path, writable=(tmp_path,), guarded=(tmp_path,)))
    place.unlink()
    place.mkdir()
    for number in range(MAX_FILES + 10):
        (place / str(number)).touch()
    told = restore_protected(snapshot, time.time_ns())
    assert not place.exists() and len(told) < 5


def find(project: Path, known: dict[str, GuardedFolder] | None = None) -> dict[str, GuardedFolder]:
    """Return the guarded folders."""
    tree = RealTree([str(project)])
    try:
        return guarded_places.find_folders(tree, str(project), (), known or {})[0]
    finally:
        tree.close()


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders that were listed."""
    found: list[str] = []
    scan = RealTree.scan

    def count(self: RealTree, path: str) -> list[tuple[str, bool]]:
        found.append(os.path.basename(path))
        return scan(self, path)

    monkeypatch.setattr(RealTree, "scan", count)
    return found


def test_only_folders_that_changed_are_listed_again(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "top"
    for number in range(20):
        (project / f"a{number}/b").mkdir(parents=True)
    monkeypatch.setattr(guarded_places, "RACY", 0)
    before = find(project)
    assert len(listed) == len(before) == 41
    listed.clear()
    assert find(project, before) == before and listed == []
    (project / "a7/b/AGENTS.md").touch()
    (project / "a8/b").rmdir()
    again = find(project, before)
    assert sorted(listed) == ["a8", "b"] and again[f"{project}/a7/b"].names == ("AGENTS.md",)
    assert before.keys() - again.keys() == {f"{project}/a8/b"}


def test_a_folder_that_changed_just_before_it_was_listed_is_listed_again(tmp_path: Path, listed: list[str]) -> None:
    (tmp_path / "a").mkdir()
    find(tmp_path, find(tmp_path))
    assert listed.count("a") == 2


def test_mounts_are_few_and_those_near_the_top_come_first(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("AGENTS.md", "src/AGENTS.md", *(f"pkg/a{number}/.vscode/x" for number in range(70))):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "src/CLAUDE.md").symlink_to("AGENTS.md")
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    profile = make_profile("write", project=project, cwd=project, own=own, temp=None, environ={"HOME": "/nowhere"})
    mounts = take_snapshot(profile).mount_points()
    assert mounts[:2] == [project / "AGENTS.md", project / "src/AGENTS.md"] and len(mounts) == 60
    line = bwrap_arguments(profile, "/", 3, mounts)
    bound = [line[place + 1] for place, word in enumerate(line) if word in ("--bind", "--ro-bind")]
    assert str(project / "src/AGENTS.md") in bound and str(project / "src") not in bound
    line = seatbelt_arguments(profile, ["true"], mounts)
    values = dict(word.split("=", 1) for word in line if word.startswith("P") and "=" in word)
    named = next(key for key, value in values.items() if value == f"{project}/src")
    assert f'(deny file-write-unlink (literal (param "{named}")))' in line[2], "nothing follows a moved folder there"


@pytest.mark.matrix
def test_no_handle_stays_open_after_a_comparison() -> None:
    with open_scene(Ground("root" if not os.getuid() else "ordinary", Backend.NONE)) as scene:
        for number in range(20):
            (scene.project / f"a{number}/b").mkdir(parents=True)
            (scene.project / f"a{number}/b/AGENTS.md").touch()
        gc.collect()  # what earlier tests have left open is not closed in between
        before = len(os.listdir("/proc/self/fd"))
        guard = command_guard.CommandGuard(scene.profile())
        assert len(os.listdir("/proc/self/fd")) == before + 1, "the record of a command that runs"
        assert guard.end() == []
        assert len(os.listdir("/proc/self/fd")) == before


def test_walls_are_not_taken_down_while_a_command_starts_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground("root" if not os.getuid() else "ordinary", Backend.LANDLOCK, 7)
    if ground.missing:
        pytest.skip(ground.missing)
    starts, goes_on = threading.Event(), threading.Event()
    start_thread = SignalScope.start_thread

    def wait_and_start(self: SignalScope, confine: Any) -> RestrictedThread:
        starts.set()
        goes_on.wait(120)
        return start_thread(self, confine)

    monkeypatch.setattr(SignalScope, "start_thread", wait_and_start)
    with open_scene(ground) as scene:
        confinement = Confinement(scene.profile(), ground.probe)
        found: list[Any] = []
        runner = threading.Thread(target=lambda: found.append(scene.start("echo x", confinement)), daemon=True)
        runner.start()
        assert starts.wait(120)
        closer = threading.Thread(target=confinement.close, daemon=True)
        closer.start()
        closer.join(0.2)
        assert closer.is_alive()
        goes_on.set()
        runner.join(120)
        closer.join(120)
        assert found == [((), "x\n")] and not closer.is_alive()
