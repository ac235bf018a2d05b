"""What nexus does after a command: nothing outside the project, nothing by a link, and all of it also if it is killed,
if it cannot, and if another session runs a command there."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project_files import write_files
from sandbox.scene import IDENTITY, ONE_EACH, Ground, Scene, in_user, open_scene
from search import sample, some

from nexus_cli.config.command_records import UncheckedError, is_unchecked
from nexus_cli.sandbox import command_guard
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.command_guard import CommandGuard, settle_project
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.git_files import is_safe_configuration, linked_repositories, named_files, object_length
from nexus_cli.sandbox.profile import make_profile

once_each = pytest.mark.parametrize("ground", sample(ONE_EACH, 2, 1), ids=lambda ground: ground.name, indirect=True)
GIT = "git " + " ".join(IDENTITY)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, modes and contents of everything in a folder, no link followed."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            about = path.lstat()
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(folder))] = about.st_mode, content
    return found


def plant_canaries(scene: Scene) -> None:
    """Fill the person's folders with what an attack would like to have removed, changed or put back."""
    names = (".ssh/config", "Documents/a/letter", ".vscode/tasks.json", "hooks/pre-commit", ".git/config", "AGENTS.md")
    for name in names:
        path = scene.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine\n")
        path.chmod(0o640)
    (scene.home / "Documents").chmod(0o750)
    (scene.project / "sub/deep").mkdir()
    (scene.project / ".vscode").mkdir()
    (scene.project / ".vscode/tasks.json").write_text("{}\n")


LEADS_OUT = {
    "an inclusion through a link": "ln -s ~ sub/h; mkdir sub/.git; "
    "printf '[include]\\npath = h/{}\\n' > sub/.git/config",
    "an inclusion through links upwards": "ln -s ~ sub/deep/h; mkdir sub/.git; "
    "printf '[include]\\npath = ../deep/../deep/h/{}\\n' > sub/.git/config",
    "hooks through a link": "ln -s ~ h; git init -q sub; git -C sub config core.hooksPath ../h/{}; "
    "printf '[core]\\nhooksPath = h/{}\\n' >> .git/config",
    "a git file through a link": "ln -s ~ sub/h; echo 'gitdir: h/{}' > sub/.git",
    "a work tree elsewhere": "mkdir sub/.git; printf '[core]\\nworktree = {home}\\n' > sub/.git/config",
    "a folder swapped for a link": "rm -rf sub; ln -s ~ sub",
    "a protected folder swapped for a link": "mv .vscode v; ln -s ~/{} .vscode; ln -s ~ sub/.vscode; "
    "ln -s ~/{} sub/.git",
    "a folder on the way swapped": "mv .git/info i; ln -s ~ .git/info; mv .git/hooks h; ln -s ~/hooks .git/hooks",
    "a parent moved": "mkdir a; mv sub a/sub; ln -s ~ sub; ln -s ~/{} a/sub/.idea",
    "hard links": "ln ~/.vscode/tasks.json .vscode/x; ln ~/AGENTS.md AGENTS.md; ln ~/{} sub/.envrc; "
    "chmod 777 AGENTS.md",
    "a new submodule that is a link": "ln -s ~ sub/m; git update-index --add --cacheinfo 160000,"
    "$(git rev-parse HEAD),sub/m; ln -s ~ .git/modules; mkdir -p .git/worktrees; ln -s ~/{} .git/worktrees/x",
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(LEADS_OUT, 3))
def test_nothing_outside_the_project_changes_whatever_leads_there(ground: Ground, name: str) -> None:
    def act() -> tuple[list[str], tuple[str, ...]]:
        with open_scene(ground) as scene:
            plant_canaries(scene)
            before = tree(scene.home)
            told: tuple[str, ...] = ()
            for place in some((".ssh", "Documents", "AGENTS.md", ".vscode"), 2):
                words = LEADS_OUT[name].replace("{home}", str(scene.home)).replace("{}", place)
                told += scene.run(words).restored
                told += scene.run("true").restored
            after = tree(scene.home)
            return [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)], told

    changed, told = in_user(ground.user, act)
    assert changed == [], told
    assert not any("NOT CHECKED" in line for line in told)


PIECES = (
    "ln -s ~{} {}",
    "mkdir -p {}",
    "mv {} {}",
    "rm -rf {}",
    "cp -r {} {}",
    "echo evil > {}",
    "ln {} {}",
    "(cd {} && [[ $(pwd -P) == $P* ]] && chmod {mode} .)",
    "printf '[include]\\npath = {}\\n' >> {}/config",
    "printf '[core]\\nhooksPath = {}\\n' >> .git/config",
    "printf 'gitdir: {}' > {}",
    "git init -q {}",
    "git add -f {}",
    "git worktree add -q {}",
    "ln -s {} {}",
    "mkfifo {}",
    "git update-index --split-index",
)
NAMES = ("", "/Documents", "/.git", "/.ssh/config", "/hooks")
PLACES = (
    "sub",
    "sub/.git",
    "sub/.vscode",
    "sub/deep",
    "sub/deep/.git",
    ".git",
    ".git/hooks",
    ".git/info",
    ".git/modules",
    ".git/modules/m",
    ".vscode",
    "AGENTS.md",
    "sub/AGENTS.md",
    "h",
    "h/Documents",
    ".own",
    ".own/hooks",
    "../out",
    ".",
    ".git/config",
    ".git/worktrees/x",
    "vendor/x",
    "~/Documents",
)


def random_words(seed: int) -> str:
    """A command of links, renames and plants in and around protected places.

    It changes no modes outside: Landlock does not keep a command from that.
    """
    chance = random.Random(seed)
    lines = []
    for _ in range(chance.randint(3, 12)):
        line = chance.choice(PIECES).replace("{mode}", chance.choice(("0", "500", "777", "4755")))
        line = line.replace("~{}", f"~{chance.choice(NAMES)}", 1)
        while "{}" in line:
            line = line.replace("{}", chance.choice(PLACES), 1)
        lines.append(line)
    return "; ".join(["P=$PWD", *lines])


@pytest.mark.matrix
def test_whatever_a_command_mixes_nothing_outside_the_project_changes(ground: Ground) -> None:
    """What was outside is the same in bytes, names and modes; what was not compared is compared by the next command."""

    def act() -> list[str]:
        with open_scene(ground) as scene:
            plant_canaries(scene)
            shutil.copytree(scene.project, scene.base / "fresh", symlinks=True)
            before = tree(scene.home), tree(scene.base / "fresh")
            confinement = Confinement(scene.profile(), ground.probe)
            for seed in range(25):
                words = random_words(seed)
                told = [*scene.start(words, confinement)[0], *scene.start("true", confinement)[0]]
                is_same = (tree(scene.home), tree(scene.base / "fresh")) == before
                if not is_same or any("NOT CHECKED" in one for one in told):
                    return [words, *told]
                hook = scene.project / ".git/hooks"
                if hook.is_dir() and any(b"evil" in path.read_bytes() for path in hook.iterdir() if path.is_file()):
                    return [words, *told]
                subprocess.run(["chmod", "-R", "u+rwx", str(scene.project)], check=False, capture_output=True)
                shutil.rmtree(scene.project)
                shutil.copytree(scene.base / "fresh", scene.project, symlinks=True)
            return []

    assert in_user(ground.user, act) == []


def other_process(act: Callable[[], Any]) -> int:
    """Run `act` in a process of its own; return its id."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child


PLANTS = ("NEXUS.md", ".envrc", ".vscode/tasks.json", "sub/AGENTS.md", ".git/hooks/pre-commit")
PLANT = "mkdir -p .vscode; for f in " + " ".join(PLANTS) + "; do echo evil > $f; done 2>/dev/null"


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize("place", sample(["the project", "a worktree of it", "a folder above it"], 3))
def test_a_session_does_not_restore_what_a_command_of_another_planted_meanwhile(ground: Ground, place: str) -> None:
    def act() -> list[str]:
        with open_scene(ground) as scene:
            project, mine = scene.project, scene.profile()
            if place == "a worktree of it":
                scene.git("worktree", "add", "-q", str(scene.base / "tree"))
                project = scene.base / "tree"
            elif place == "a folder above it":
                (scene.project / "inner/sub").mkdir(parents=True)
                scene.git("init", "-q", cwd=scene.project / "inner")
                mine = scene.profile(project=scene.project / "inner")
            other = scene.profile(project=project)
            first = Confinement(mine, ground.probe)
            ready, end = scene.base / "ready", scene.base / "end"

            def run_other() -> None:
                command_guard._last.clear()
                guard = CommandGuard(other)
                ready.touch()
                while not end.exists():
                    time.sleep(0.01)
                guard.end()

            with first.watch_command():
                options: dict[str, Any] = {"cwd": mine.project, "env": scene.environ, "stdout": subprocess.DEVNULL}
                first.start(["bash", "-c", PLANT], **options).wait()
                child = other_process(run_other)
                while not ready.exists():
                    time.sleep(0.01)
            end.touch()
            os.waitpid(child, 0)
            found = [path for folder in {mine.project, project} for path in folder.rglob("*") if path.is_file()]
            return [str(path) for path in found if b"evil" in path.read_bytes() and not path.is_symlink()]

    assert in_user(ground.user, act) == []


def killed_in_a_command(scene: Scene, words: str = PLANT) -> None:
    """Let another process run a command and be killed before that has ended."""
    ready = scene.base / "ready"

    def run() -> None:
        confinement = Confinement(scene.profile(), scene.ground.probe)
        with confinement.watch_command():
            confinement.start(["bash", "-c", words], cwd=scene.project, env=scene.environ).wait()
            ready.touch()
            time.sleep(60)

    child = other_process(run)
    while not ready.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.matrix
def test_what_a_killed_nexus_left_is_undone_before_the_project_is_read(ground: Ground) -> None:
    def act() -> tuple[list[bool], list[str], list[str], list[bool]]:
        with open_scene(ground) as scene:
            killed_in_a_command(scene)
            unchecked = [is_unchecked(scene.project, scene.own.data)]
            told = settle_project(scene.project, scene.own)
            unchecked.append(is_unchecked(scene.project, scene.own.data))
            left = [name for name in PLANTS if (scene.project / name).exists()]
            kept = [path.read_bytes() == b"evil\n" for path in (scene.own.data / "put_back").iterdir()]
            assert settle_project(scene.project, scene.own) == []
            return unchecked, told, left, kept

    unchecked, told, left, kept = in_user(ground.user, act)
    assert unchecked == [True, False] and left == []
    assert "interrupted command; copies" in told[0] and any("NEXUS.md: removed" in line for line in told)
    assert kept and all(kept), "what was there is kept"


@pytest.mark.matrix
@once_each
def test_the_next_command_compares_what_a_killed_one_left_and_tells_it(ground: Ground) -> None:
    def act() -> tuple[tuple[str, ...], str]:
        with open_scene(ground) as scene:
            killed_in_a_command(scene)
            done = scene.run("cat NEXUS.md")
            return done.restored, done.output.decode()

    told, text = in_user(ground.user, act)
    assert any("NEXUS.md: removed" in line for line in told) and "evil" not in text


@pytest.mark.matrix
@once_each
def test_a_project_that_was_made_anew_after_the_kill_stays_as_it_is(ground: Ground) -> None:
    def act() -> bool:
        with open_scene(ground) as scene:
            killed_in_a_command(scene)
            shutil.move(scene.project, scene.base / "old")
            write_files(scene.project, {".vscode/tasks.json": "mine"})
            settle_project(scene.project, scene.own)
            return (scene.project / ".vscode/tasks.json").exists()

    assert in_user(ground.user, act)


@pytest.mark.matrix
@once_each
def test_what_runs_elsewhere_or_still_runs_is_left_alone(ground: Ground) -> None:
    def act() -> list[bool]:
        with open_scene(ground) as scene:
            (scene.base / "other").mkdir()
            guard = CommandGuard(scene.profile())
            running = is_unchecked(scene.project, scene.own.data)
            os.close(guard._record)
            return [running, is_unchecked(scene.base / "other", scene.own.data)]

    assert in_user(ground.user, act) == [False, False]


LIMITS = {"NOFILE": resource.RLIMIT_NOFILE, "FSIZE": resource.RLIMIT_FSIZE, "AS": resource.RLIMIT_AS}


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize("limit", sample(LIMITS, 3))
def test_what_could_not_be_compared_stops_the_next_command_until_it_is(ground: Ground, limit: str) -> None:
    """A limit that makes it impossible to look, or to write: nothing is lost, nothing goes on as if all were well."""

    def act() -> dict[str, Any]:
        with open_scene(ground) as scene:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            config = scene.project / ".git/config"
            before = config.read_text()
            guard = CommandGuard(scene.profile())
            config.write_text("[core]\n\tfsmonitor = evil\n")
            (scene.project / "NEXUS.md").write_text("evil")
            soft, hard = resource.getrlimit(LIMITS[limit])
            resource.setrlimit(LIMITS[limit], (3 if limit == "NOFILE" else 0, hard))
            told = guard.end()
            refused = ""
            try:
                CommandGuard(scene.profile()).end()
            except OSError as error:
                refused = type(error).__name__
            resource.setrlimit(LIMITS[limit], (soft, hard))
            failed = any("NOT CHECKED" in line for line in told)
            unchecked = is_unchecked(scene.project, scene.own.data)
            after = scene.run("true").restored if failed else ()
            is_as_before = config.read_text() == before and not (scene.project / "NEXUS.md").exists()
            return {"failed": failed, "refused": refused, "unchecked": unchecked, "after": after, "same": is_as_before}

    seen = in_user(ground.user, act)
    assert seen["same"], seen
    if limit != "AS":
        assert seen["failed"] and seen["refused"] and seen["unchecked"], seen
    assert seen["failed"] == seen["unchecked"]


@once_each
def test_a_record_that_cannot_be_made_leaves_no_lock_on_the_next_command(ground: Ground) -> None:
    def act() -> tuple[Any, ...]:
        with open_scene(ground) as scene, pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "rename", lambda old, new: (_ for _ in ()).throw(OSError(errno.EDQUOT, "full")))
            with pytest.raises(OSError, match="full"):
                CommandGuard(scene.profile())
            patched.undo()
            return scene.run("true").restored

    assert in_user(ground.user, act) == ()


@pytest.mark.matrix
@once_each
def test_nothing_is_compared_while_a_process_of_the_command_may_still_run(ground: Ground) -> None:
    def act() -> dict[str, Any]:
        with open_scene(ground) as scene:
            guard = CommandGuard(scene.profile())
            (scene.project / "NEXUS.md").write_text("evil")
            told = guard.end(OSError(errno.EBUSY, "a process of the command is still running"))
            left = (scene.project / "NEXUS.md").exists()
            after = scene.run("true").restored
            return {"told": told, "left": left, "after": after, "gone": not (scene.project / "NEXUS.md").exists()}

    seen = in_user(ground.user, act)
    assert "NOT CHECKED" in seen["told"][0] and "is still running" in seen["told"][0], seen
    assert seen["left"] and seen["gone"] and seen["after"], seen


@once_each
def test_a_damaged_record_refuses_and_says_which(ground: Ground) -> None:
    def act() -> str:
        with open_scene(ground) as scene:
            killed_in_a_command(scene)
            (record,) = (scene.own.data / "guarded").glob("*.state")
            record.write_bytes(record.read_bytes()[:-9])
            try:
                settle_project(scene.project, scene.own)
            except UncheckedError as error:
                return str(error.strerror)
            return ""

    assert "damaged" in in_user(ground.user, act)


def springs(scene: Scene, cwd: Path | None = None) -> bool:
    """True if the person's `git status` runs what was planted."""
    subprocess.run(["git", "status"], cwd=cwd or scene.project, env=scene.environ, capture_output=True)
    return (scene.base / "sprung").exists()


EVIL = "git -C {} config core.fsmonitor 'touch {sprung}; false'"
LINKS = {
    "a new repository in the index": f"git init -q evil; {EVIL}; cd evil; {GIT} commit -q --allow-empty -m x; cd ..; "
    "git add evil 2>/dev/null",
    "below what tools make": f"mkdir vendor; git init -q vendor/evil; {EVIL}; cd vendor/evil; "
    f"{GIT} commit -q --allow-empty -m x; cd ../..; git add -f vendor/evil 2>/dev/null",
    "six folders deep": f"mkdir -p a/b/c/d/e; git init -q a/b/c/d/e/evil; {EVIL}; cd a/b/c/d/e/evil; "
    f"{GIT} commit -q --allow-empty -m x; cd ../../../../../..; git add a 2>/dev/null",
    "an index of version 4": f"git init -q evil; {EVIL}; cd evil; {GIT} commit -q --allow-empty -m x; cd ..; "
    "git add evil 2>/dev/null; git update-index --index-version 4",
    "a split index": f"git init -q evil; {EVIL}; cd evil; {GIT} commit -q --allow-empty -m x; cd ..; "
    "git add evil 2>/dev/null; git update-index --split-index",
    "of a repository below": f"git init -q sub/evil; {EVIL}; cd sub/evil; {GIT} commit -q --allow-empty -m x; cd ..; "
    "git add evil 2>/dev/null",
}


@pytest.mark.parametrize("name", sample(LINKS, 3))
def test_a_repository_that_a_command_put_into_an_index_runs_nothing(ground: Ground, name: str) -> None:
    def act() -> tuple[bool, str]:
        with open_scene(ground) as scene:
            if name == "of a repository below":
                scene.git("init", "-q", cwd=scene.project / "sub")
            place = LINKS[name].partition("git init -q ")[2].partition(";")[0]
            words = LINKS[name].replace("{sprung}", str(scene.base / "sprung")).replace("{}", place)
            done = scene.run(words)
            cwd = scene.project / "sub" if name == "of a repository below" else scene.project
            links = scene.git("ls-files", "-s", cwd=cwd)
            return springs(scene, cwd), links + done.output.decode()

    sprang, text = in_user(ground.user, act)
    assert "160000" in text and not sprang, text


@pytest.mark.parametrize("place", sample(["vendor/lib", "a/b/c/d/e/lib"], 2))
def test_the_git_file_of_a_submodule_is_guarded_wherever_it_lies(ground: Ground, place: str) -> None:
    words = f"git init -q evil; {EVIL.replace('{}', 'evil')}; echo 'gitdir: {{base}}/evil/.git' > "

    def act() -> tuple[bool, bool]:
        with open_scene(ground) as scene:
            scene.git("init", "-q", str(scene.base / "lib"))
            scene.git("commit", "-q", "--allow-empty", "-m", "x", cwd=scene.base / "lib")
            add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-f")
            scene.git(*add, str(scene.base / "lib"), place)
            before = (scene.project / place / ".git").read_text()
            line = words.replace("{sprung}", str(scene.base / "sprung")).replace("{base}", str(scene.project))
            scene.run(line + f"{place}/.git; git -C {place} config core.fsmonitor 'touch {scene.base}/sprung; false'")
            return springs(scene), (scene.project / place / ".git").read_text() == before

    assert in_user(ground.user, act) == (False, True)


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize("place", sample([".git/info", ".git/modules/n/objects/x", ".git/worktrees", "evil"], 3))
def test_a_new_git_file_does_not_lead_to_a_configuration_that_nobody_looks_at(ground: Ground, place: str) -> None:
    words = (
        f"git init -q e; {EVIL.replace('{}', 'e')}; mkdir -p {place} .git/modules/n/refs; "
        f"touch .git/modules/n/HEAD; cp -r e/.git/. {place}; rm -rf e; echo 'gitdir: ../{place}' > sub/.git"
    )

    def act() -> tuple[bool, bool]:
        with open_scene(ground) as scene:
            scene.run(words.replace("{sprung}", str(scene.base / "sprung")))
            return springs(scene, scene.project / "sub"), (scene.project / "sub/.git").exists()

    assert in_user(ground.user, act) == (False, False)


@pytest.mark.matrix
@once_each
def test_a_submodule_of_the_person_stays_after_a_kill_whatever_the_record_knew_before(ground: Ground) -> None:
    """The record is kept from command to command while nothing guarded changes: it must know the index all the same."""

    def act() -> bool:
        with open_scene(ground) as scene:
            scene.run("true")
            scene.git("init", "-q", "sub/mine")
            scene.git("commit", "-q", "--allow-empty", "-m", "x", cwd=scene.project / "sub/mine")
            scene.git("config", "core.pager", "less", cwd=scene.project / "sub/mine")
            scene.git("add", "sub/mine")
            killed_in_a_command(scene, "true")
            settle_project(scene.project, scene.own)
            return "less" in (scene.project / "sub/mine/.git/config").read_text()

    assert in_user(ground.user, act)


@pytest.mark.matrix
@once_each
@pytest.mark.parametrize("named", ["own/hooks", "way/hooks"])
def test_a_command_that_changes_which_hooks_git_runs_leaves_neither_as_it_wants(ground: Ground, named: str) -> None:
    def act() -> tuple[str, bool]:
        with open_scene(ground) as scene:
            hook = scene.project / "own/hooks/pre-commit"
            hook.parent.mkdir(parents=True)
            hook.write_text("#!/bin/sh\ntrue\n")
            (scene.project / "sub/way").symlink_to("../own")
            (scene.project / "way").symlink_to("sub/way")
            scene.git("config", "core.hooksPath", named)
            scene.run(
                "git config core.hooksPath other; rm -rf own; mkdir -p own/hooks other; "
                "for f in own/hooks/pre-commit own/hooks/post-commit other/pre-commit; do echo evil > $f; done"
            )
            names = scene.git("config", "core.hooksPath").strip()
            return names, hook.exists() and "evil" not in hook.read_text() and len(os.listdir(hook.parent)) == 1

    assert in_user(ground.user, act) == (named, True)


@pytest.mark.matrix
@once_each
def test_a_split_index_that_is_written_in_place_is_seen(ground: Ground) -> None:
    def act() -> tuple[bool, bool]:
        with open_scene(ground) as scene:
            scene.git("update-index", "--split-index")
            (shared,) = (scene.project / ".git").glob("sharedindex.*")
            profile = make_profile("write", project=scene.project, cwd=scene.project, own=scene.own, temp=None)
            CommandGuard(profile).end()  # the next one knows the index
            guard = CommandGuard(profile)
            scene.git("init", "-q", "vendor/lib")
            scene.git(*IDENTITY, "-C", "vendor/lib", "commit", "-q", "--allow-empty", "-m", "x")
            (scene.project / "vendor/lib/.git/hooks/post-checkout").write_text("evil")
            other = scene.base / "other"
            environ = {**scene.environ, "GIT_INDEX_FILE": str(other)}
            subprocess.run(["git", "add", "-f", "vendor/lib"], cwd=scene.project, env=environ, check=True)
            shared.write_bytes(other.read_bytes())
            guard.end()
            git = scene.project / "vendor/lib/.git"
            return git.exists(), (git / "hooks/post-checkout").exists()

    assert in_user(ground.user, act) == (True, False)


@pytest.mark.matrix
@once_each
def test_a_submodule_that_gives_its_git_folder_to_the_repository_keeps_it(ground: Ground) -> None:
    def act() -> tuple[int, str]:
        with open_scene(ground) as scene:
            scene.git("init", "-q", "lib")
            scene.git(*IDENTITY, "-C", "lib", "commit", "-q", "--allow-empty", "-m", "x")
            scene.git("add", "lib")
            (scene.project / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = ./lib\n')
            done = scene.run("git submodule absorbgitdirs")
            file = scene.project / "lib/.git"
            return done.status, file.read_text() if file.is_file() else str(done.restored)

    status, told = in_user(ground.user, act)
    if ground.backend is Backend.LANDLOCK:  # bwrap mounts the folder: it stays where it is
        assert (status, told) == (0, "gitdir: ../.git/modules/lib\n")


@once_each
def test_what_git_would_run_in_new_places_is_told(ground: Ground) -> None:
    words = (
        "git init -q plain; git init -q --bare bare; git init -q evil; git -C evil config core.pager x; "
        "mkdir -p bare2/objects bare2/refs; echo 'ref: refs/heads/x' > bare2/HEAD; printf '[core]\\nfsmonitor=x' > "
        "bare2/config; git worktree add -q tree; mkdir .git/rebase-merge; "
        "printf 'pick 1 x\nexec evil\n' > .git/rebase-merge/git-rebase-todo"
    )

    def act() -> tuple[str, ...]:
        with open_scene(ground) as scene:
            return scene.run(words).restored

    told = in_user(ground.user, act)
    named = sorted(line.partition(":")[0] for line in told)
    assert named == [".git/rebase-merge/git-rebase-todo", "bare2", "evil"], told


@pytest.mark.matrix
@once_each
def test_legitimate_work_is_not_touched(ground: Ground) -> None:
    words = "; ".join(
        (
            "set -e; git clone -q . c; git worktree add -q wt; git worktree remove wt; mkdir app app/src",
            "echo {} > app/package.json; git init -q app; echo 1 > x; git add x; git mv x y",
            f"{GIT} commit -qm y; git checkout -q -b b; echo 2 > y; {GIT} commit -qam z",
            "git checkout -q main; git rebase -q b",
            "mkdir m; git mv y m/y; mv sub sub2; rm -rf c app; git status --short | wc -l",
        )
    )

    def act() -> tuple[int, tuple[str, ...], str]:
        with open_scene(ground) as scene:
            done = scene.run(words)
            return done.status, done.restored, done.output.decode()

    status, told, text = in_user(ground.user, act)
    assert status == 0 and told == (), (told, text)


def test_what_a_configuration_of_git_says_is_read_in_one_pass() -> None:
    hostile = b" " * 3_000_000 + b"x\n" + b"[" * 1_000_000 + b"\n" + b'[remote "' * 200_000
    assert not is_safe_configuration(hostile, of_submodule=False) and list(named_files(hostile)) == []
    assert is_safe_configuration(b'[core]\n\tbare = false ; x\n[remote "o"]\n\turl = /x\n', of_submodule=False)
    for line in (
        b'[remote "a"] uploadpack = "x]',
        b"[core] fsmonitor = x]",
        b"\xef\xbb\xbf[core]\nfsmonitor = x",
        b"[core]\n x = y",
        b"[user]\nname = a\\\nb\n[diff]\nexternal = x",
        b'[core "x"] fsmonitor',
        b'[core "fsmonitor\0"] bare = x',
        b"[include]path=x",
        b"fsmonitor = x",
        b"[core]\nworktree = ../x\n",
    ):
        assert not is_safe_configuration(line, of_submodule=False), line
    named = b'[includeIf "gitdir:=x"] path = a # b\n[core]\n hooksPath = "b c" \n[include]path=d;e\n[x "]"] PATH = f\n'
    assert list(named_files(named)) == ["a", "b c", "d", "f"]
    escaped = b'[core]\n hooksPath = ho\\\\o"k\\"s #"x\\\n y ; z\n[include]\n path = g\n'
    assert list(named_files(escaped)) == ['ho\\ok"s #x y', "g"]


def test_an_index_that_is_none_or_names_what_is_elsewhere_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"DIRC", b"x" * 99, b"DIRC\0\0\0\2\0\0\0\1" + b"\0\0\xe0\0" * 9):
        with pytest.raises(ValueError):
            linked_repositories(data, 20)
    assert linked_repositories(b"DIRC\0\0\0\2\0\0\0\0" + b"\0" * 20, 20) == set()
    folder = b"\0" * 24 + (0o040000).to_bytes(4, "big") + b"\0" * 32 + b"\0\2d/" + b"\0" * 8
    with pytest.raises(ValueError, match="a whole folder"):  # git expands it where the folder is there
        linked_repositories(b"DIRC\0\0\0\2\0\0\0\1" + folder + b"\0" * 20, 20)


@pytest.mark.parametrize(
    ("configuration", "length"),
    [
        (b"[core]\n\tbare = false\n", 20),
        (b"[extensions]\n\tobjectformat = sha1\n", 20),
        (b"[core]\n\trepositoryformatversion = 1\n[Extensions]\n\tobjectFormat = sha256\n", 32),
        (b"[extensions]\nobjectformat = sha256\nobjectformat = sha1\n", 20),
        (b'[extensions]\nobjectformat = sha"256"\n', 32),
        (b'[extensions "x"]\nobjectformat = sha256\n', 20),
        (b"[extensions.x]\nobjectformat = sha256\n", 20),
        (b"[extensions]\nobjectformat = sha512\n", 0),
        (b"[extensions]\n; objectformat = sha256 \\\n x", 20),
    ],
)
def test_the_object_format_is_read_as_git_reads_it_or_not_at_all(configuration: bytes, length: int) -> None:
    if not length:
        with pytest.raises(ValueError):
            object_length(configuration)
    else:
        assert object_length(configuration) == length


def test_an_index_is_read_with_the_length_of_its_repository_alone(tmp_path: Path) -> None:
    """An index whose own reading fails could be one that is sound with names of another length, as a stranger makes."""
    for words in (("init", "-q"), ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert linked_repositories((tmp_path / ".git/index").read_bytes(), 20) == {"sub"}
    with pytest.raises(ValueError):
        linked_repositories((tmp_path / ".git/index").read_bytes(), 32)


@pytest.mark.parametrize("mode", [0o160000, 0o160755, 0x1E000])
def test_a_link_of_an_index_is_found_whatever_else_its_mode_has(tmp_path: Path, mode: int) -> None:
    """Git takes all of them for another repository, and reads its configuration."""
    for words in (("init", "-q"), ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    index = (tmp_path / ".git/index").read_bytes()[:-20].replace((0o160000).to_bytes(4, "big"), mode.to_bytes(4, "big"))
    index += hashlib.sha1(index).digest()
    (tmp_path / ".git/index").write_bytes(index)
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=tmp_path, check=True, capture_output=True).stdout
    assert listed.startswith(f"{mode:o} 1111".encode())
    assert linked_repositories(index, 20) == {"sub"}


@pytest.mark.matrix
@once_each
def test_a_submodule_whose_folder_was_missing_runs_nothing_of_a_command(ground: Ground) -> None:
    """The index links to it before the command, and git obeys what the command puts there."""

    def act() -> tuple[bool, tuple[str, ...]]:
        with open_scene(ground) as scene:
            head = scene.git("rev-parse", "HEAD").strip()
            scene.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendor/lib")
            words = f"git init -q vendor/lib; {EVIL}".replace("{sprung}", str(scene.base / "sprung"))
            told = scene.run(words.replace("{}", "vendor/lib")).restored
            return springs(scene), told

    sprang, told = in_user(ground.user, act)
    assert not sprang and told


@pytest.mark.matrix
@once_each
def test_hooks_that_a_repository_names_are_guarded_in_its_worktrees_too(ground: Ground) -> None:
    def act() -> tuple[str, list[str]]:
        with open_scene(ground) as scene:
            hook = scene.project / ".own/pre-commit"
            hook.parent.mkdir()
            hook.write_text("#!/bin/sh\n")
            scene.git("add", "-f", ".own")
            scene.git(*IDENTITY, "commit", "-q", "--no-verify", "-m", "h")
            scene.git("config", "core.hooksPath", ".own")
            place = scene.base / "tree"
            scene.git("worktree", "add", "-q", str(place))
            profile = make_profile("write", project=place, cwd=place, own=scene.own, temp=None)
            guard = CommandGuard(profile)
            (place / ".own/pre-commit").write_text("evil")
            told = guard.end()
            return (place / ".own/pre-commit").read_text(), told

    hook, told = in_user(ground.user, act)
    assert hook == "#!/bin/sh\n" and told


@pytest.mark.matrix
@once_each
def test_a_name_that_is_too_long_hinders_no_comparison(ground: Ground) -> None:
    def act() -> list[tuple[str, ...]]:
        with open_scene(ground) as scene:
            link = f"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),{'A' * 300}"
            return [scene.run(link).restored, scene.run("true").restored]

    assert in_user(ground.user, act) == [(), ()]


@pytest.mark.matrix
@once_each
def test_a_large_file_that_cannot_be_put_back_is_not_taken_away_with_its_folder(ground: Ground) -> None:
    def act() -> tuple[int, tuple[str, ...]]:
        with open_scene(ground) as scene:
            large = scene.project / ".claude/big.bin"
            large.parent.mkdir()
            large.write_bytes(b"x" * (9 << 20))
            told = scene.run("mkdir -p .claude/z; for i in $(seq 2100); do : > .claude/z/$i; done").restored
            return large.stat().st_size if large.exists() else -1, told

    size, told = in_user(ground.user, act)
    assert size == 9 << 20, told


def test_a_record_that_is_no_list_is_an_error_and_names_its_file(tmp_path: Path) -> None:
    for number, text in enumerate(("", "5\n", "[1]\n", "nothing")):
        folder = tmp_path / str(number) / "guarded"
        write_files(folder, {"x.state": text})
        assert is_unchecked(tmp_path, folder.parent)
