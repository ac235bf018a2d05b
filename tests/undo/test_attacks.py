"""An undo never leaves the project, follows no link and writes no file in place, whatever is there by now."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from search import SEARCHES, sample
from undo.world import Tree, World, tree

from nexus_cli.core.errors import NexusError
from nexus_cli.tree import write_state
from nexus_cli.tree.file_state import FileState
from nexus_cli.undo import journal
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.records import FileChange, Step


@pytest.fixture
def victim(world: World) -> Path:
    """A folder of the person beside the project, with names as in the project."""
    folder = world.project.parent / "victim"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c", "passwd"):
        (folder / name).write_text(f"the person's {name}\n")
    (folder / "a").chmod(0o640)
    return folder


def wrecked(world: World) -> None:
    """A turn that edits `src/a`, deletes `src/b` and `src/deep/c`, and makes `src/new`."""
    for name in ("a", "b", "deep/c"):
        world.write(f"src/{name}", f"old {name}\n")

    def wreck() -> None:
        world.write("src/a", "new a\n")
        world.path("src/b").unlink()
        shutil.rmtree(world.path("src/deep"))
        world.write("src/new", "new\n")

    world.turn(wreck)


def test_a_folder_replaced_by_a_link_is_not_followed(world: World, victim: Path) -> None:
    wrecked(world)
    before = tree(victim)
    shutil.rmtree(world.path("src"))
    world.path("src").symlink_to(victim)
    report = world.undo()
    assert tree(victim) == before and os.readlink(world.path("src")) == str(victim)
    kept = {one["path"]: (one["why"], one["aside"]) for one in report["kept"]}
    why = "a parent folder is now a link or a file"
    put_aside = {f"src/{name}": (why, f"src.nexus-undo/{name}") for name in ("a", "b", "deep/c")}
    assert kept == put_aside | {"src/new": (why, None)}
    assert world.path("src.nexus-undo/deep/c").read_text() == "old deep/c\n"
    assert report["restored"] == report["removed"] == []
    assert world.redo()["kept"] == [] and not world.path("src.nexus-undo").exists()
    assert tree(victim) == before


def test_a_link_that_the_turn_made_for_a_folder_goes_and_the_folder_comes_back(world: World, victim: Path) -> None:
    for name in ("a", "deep/c"):
        world.write(f"src/{name}", f"old {name}\n")
    before, theirs = tree(world.project), tree(victim)

    def swap() -> None:
        shutil.rmtree(world.path("src"))
        world.path("src").symlink_to(victim)

    world.turn(swap)
    assert world.undo()["kept"] == []
    assert tree(world.project) == before and tree(victim) == theirs


REPLACEMENTS: dict[str, Callable[[Path, Path], object]] = {
    "a link to a file outside": lambda path, victim: path.symlink_to(victim / "passwd"),
    "a link to /etc/passwd": lambda path, victim: path.symlink_to("/etc/passwd"),
    "a dangling link": lambda path, victim: path.symlink_to(victim / "none"),
    "a link to itself": lambda path, victim: path.symlink_to(path.name),
    "a pipe": lambda path, victim: os.mkfifo(path),
    "a folder": lambda path, victim: path.mkdir(),
    "a folder with files": lambda path, victim: shutil.copytree(victim, path),
    "a hard link to a file outside": lambda path, victim: path.hardlink_to(victim / "passwd"),
    "a socket": lambda path, victim: bind(path),
}


def bind(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the whole path may be too long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(["src/a", "src/b", "src/new"], 3))
@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_what_is_there_instead_of_a_file_stays(world: World, victim: Path, kind: str, name: str) -> None:
    wrecked(world)
    theirs = tree(victim)
    world.path(name).unlink(missing_ok=True)
    REPLACEMENTS[kind](world.path(name), victim)
    about = world.path(name).lstat()
    report = world.undo()
    assert tree(victim) == theirs
    now = world.path(name).lstat()
    assert (now.st_ino, now.st_mode, now.st_size) == (about.st_ino, about.st_mode, about.st_size)
    (kept,) = (one for one in report["kept"] if one["path"] == name)
    earlier = None if name == "src/new" else f"{name}.nexus-undo"
    assert kept["aside"] == earlier
    assert earlier is None or world.path(earlier).read_text() == f"old {name[-1]}\n"


def test_other_names_of_a_hard_link_keep_their_content(world: World, victim: Path) -> None:
    (victim / "a").unlink()
    world.write("a", "old\n")
    os.link(world.path("a"), victim / "a")

    def in_place() -> None:
        with open(world.path("a"), "r+") as file:
            file.write("new\n")

    world.turn(in_place)
    assert world.undo()["restored"] == ["a"]
    assert world.path("a").read_text() == "old\n" and (victim / "a").read_text() == "new\n"
    assert world.path("a").stat().st_nlink == 1


def test_a_project_that_is_now_a_link_is_left_alone(world: World, victim: Path) -> None:
    wrecked(world)
    theirs = tree(victim)
    world.project.rename(world.project.with_name("moved"))
    world.project.symlink_to(victim)
    report = world.undo()
    assert tree(victim) == theirs
    assert len(report["kept"]) == 4 and not any(one["aside"] for one in report["kept"])


FORGED = [
    "../victim/a",
    "/etc/passwd",
    "src/../../victim/a",
    "./a",
    "a//b",
    "",
    "a/",
    ".git/config",
    "sub/.GIT/hooks/x",
    "a\0b",
]


@pytest.mark.matrix
@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("is_begun", sample([False, True], 2))
def test_forged_paths_are_refused(world: World, victim: Path, name: str, is_begun: bool) -> None:
    world.write(".git/config", "the person's\n")
    world.write("sub/.GIT/hooks/x", "the person's\n")
    theirs, ours = tree(victim), tree(world.project)
    state = FileState("file", 0o755, world.store.put(b"evil\n"), 5)
    path = world.path(name) if "\0" not in name else world.path("none")
    before = world.state(path) if path.is_file() else FileState("absent")
    world.turns = 1
    if is_begun:
        step = Step(
            id="undo.x-1",
            session=world.session,
            turn=1,
            call="",
            what="undo turn 1",
            at="",
            root=str(world.project),
            changes=(FileChange(name, before, state),),
            undoes=("s1",),
        )
        journal.begin_step(world.data, step)
    else:
        world.record((FileChange(name, state, before),))
    report = world.undo()
    assert tree(victim) == theirs and tree(world.project) == ours
    assert report["restored"] == report["removed"] == [] and [one["aside"] for one in report["kept"]] == [None]


@pytest.mark.parametrize("root", ["", "relative", "/", "/proc/self/cwd", "{project}/../victim"])
def test_forged_roots_are_refused(world: World, victim: Path, root: str) -> None:
    theirs = tree(victim)
    state = FileState("file", 0o755, world.store.put(b"evil\n"), 5)
    world.turns = 1
    world.record((FileChange("a", state, FileState("absent")),), root=root.format(project=world.project) or "//")
    assert world.undo()["restored"] == [] and tree(victim) == theirs


@pytest.mark.matrix
def test_a_folder_that_is_swapped_for_a_link_all_the_time_leads_nowhere(world: World, victim: Path) -> None:
    """A command that was left running swaps `src` for a link to the person's folder and back, as fast as it can."""
    names = [f"src/{number}" for number in range(150)]
    for number in range(150):
        (victim / str(number)).write_text("the person's\n")
    theirs = tree(victim)
    for _ in range(3):
        for name in names:
            world.write(name, "old\n")
        world.turn(lambda: [world.write(name, "new\n") for name in names])
        stop = threading.Event()

        def swap(stop: threading.Event = stop) -> None:
            src, moved, link = world.path("src"), world.path("src-moved"), world.path("src-link")
            while not stop.is_set():
                with suppress(OSError):  # the undo makes the folder where it is missing for a moment
                    link.unlink(missing_ok=True)
                    link.symlink_to(victim)
                    src.rename(moved)
                    link.rename(src)
                    src.unlink()
                    moved.rename(src)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            report = world.undo()
        finally:
            stop.set()
            thread.join()
        assert tree(victim) == theirs
        done = {*report["restored"], *(one["path"] for one in report["kept"])}
        assert done == set(names)
        world.path("src").unlink() if world.path("src").is_symlink() else None


def test_what_the_person_writes_during_the_undo_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wrecked(world)
    check = write_state._check

    def late(folder: int, name: str, now: Any) -> None:
        if name in ("a", "b", "new") and not world.path(f"done-{name}").exists():
            world.write(f"src/{name}", f"typed just now {name}\n")
            world.write(f"done-{name}", "")
        check(folder, name, now)

    monkeypatch.setattr(write_state, "_check", late)
    report = world.undo()
    assert {one["path"]: one["aside"] for one in report["kept"]} == {
        "src/a": "src/a.nexus-undo",
        "src/b": "src/b.nexus-undo",
        "src/new": None,
    }
    for name in ("a", "b", "new"):
        assert world.path(f"src/{name}").read_text() == f"typed just now {name}\n"
    assert world.path("src/a.nexus-undo").read_text() == "old a\n"
    assert report["restored"] == ["src/deep/c"]


CHANGING = (
    *("open", "rename", "link", "unlink", "rmdir", "symlink", "mkdir", "mkfifo"),
    *("fsync", "write", "replace", "chmod", "chown", "setxattr"),
)
"""Calls at which a process is killed, or the disk is full."""


def at_call(number: int, act: Callable[[str], object]) -> Callable[[], None]:
    """Let the call `number` of those that change something `act` first; return what takes that back."""
    count, real = 0, {name: getattr(os, name) for name in CHANGING}

    def wrap(name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            if name != "open" or args[1] & os.O_CREAT:
                count += 1
                if count == number:
                    act(name)
            return real[name](*args, **options)

        return call

    for name in CHANGING:
        setattr(os, name, wrap(name))

    def back() -> None:
        for name, function in real.items():
            setattr(os, name, function)

    return back


def prepare(world: World) -> tuple[Tree, Tree]:
    """A project in two states, between which a turn changed everything that can change."""
    world.write("kept", "kept\n")
    world.write("edited", "old\n", 0o755)
    world.write("gone/x/y", "y\n")
    world.write("place", "a file\n")
    world.path("link").symlink_to("kept")
    before = tree(world.project)

    def change() -> None:
        world.write("edited", "new\n", 0o644)
        shutil.rmtree(world.path("gone"))
        world.path("place").unlink()
        world.write("place/now/a", "folder\n")
        world.path("link").unlink()
        world.path("link").symlink_to("edited")
        world.write("made/z", "z\n")

    world.turn(change)
    return before, tree(world.project)


def run_killed(world: World, number: int, act: Callable[[World], object]) -> bool:
    """Run `act` in a child that is killed at a call; return False if it ended by itself."""
    child = os.fork()
    if not child:
        try:
            at_call(number, lambda name: os.kill(os.getpid(), signal.SIGKILL))
            act(world)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_an_undo_and_a_redo_that_are_killed_at_any_step_are_carried_on(tmp_path: Path, in_gate: bool) -> None:
    number, was_killed = 0, True
    while was_killed:
        number += 1 if SEARCHES else 7 if in_gate else 4
        assert number < 300
        world = World(Path(os.path.realpath(tmp_path)) / f"p{number}", Path(os.path.realpath(tmp_path)) / f"d{number}")
        world.project.mkdir()
        before, after = prepare(world)
        was_killed = run_killed(world, number, World.undo)
        assert world.undo()["kept"] == [], number
        assert tree(world.project) == before, number
        run_killed(world, number, World.redo)
        assert world.redo()["kept"] == [], number
        assert tree(world.project) == after, number
    assert number > 30, "it was killed at many places"


@pytest.mark.matrix
def test_a_full_disk_at_any_step_loses_nothing_and_the_undo_is_carried_on(tmp_path: Path) -> None:
    number, was_full = 0, True

    def full(reached: list[str], name: str) -> None:
        reached.append(name)
        if name in ("open", "link", "symlink", "mkdir", "fsync", "write"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    while was_full:
        number += 1
        assert number < 300
        world = World(Path(os.path.realpath(tmp_path)) / f"p{number}", Path(os.path.realpath(tmp_path)) / f"d{number}")
        world.project.mkdir()
        before, after = prepare(world)
        reached: list[str] = []
        back = at_call(number, partial(full, reached))
        try:
            world.undo()
        except NexusError as error:
            assert "Free some space" in error.hint, number
        finally:
            back()
        was_full = bool(reached)
        assert world.undo()["kept"] == [], number
        assert tree(world.project) == before, number
        world.redo()
        assert tree(world.project) == after, number


@pytest.mark.matrix
def test_folders_that_may_not_be_written_are_named(tmp_path: Path) -> None:
    """As an ordinary user: root may write everywhere."""
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from undo.world import World, tree
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
base = Path({str(tmp_path)!r})
world = World(base / "project", base / "data")
world.project.mkdir()
for name in ("closed/a", "closed/gone", "open/a", "locked"):
    world.write(name, "old\\n")
world.write("hidden", "old\\n")
def change():
    for name in ("closed/a", "open/a", "locked", "hidden"):
        world.write(name, "new\\n")
    world.path("closed/gone").unlink()
    world.path("locked").chmod(0o400)
world.turn(change)
world.path("closed").chmod(0o555)
world.path("hidden").chmod(0)
report = world.undo()
assert report["restored"] == ["hidden", "locked", "open/a"], report
assert {{one["path"]: one["aside"] for one in report["kept"]}} == {{"closed/a": None, "closed/gone": None}}, report
assert "permission denied" in report["kept"][0]["why"], report
assert world.path("locked").read_text() == "old\\n" and world.path("closed/a").read_text() == "new\\n"
world.path("closed").chmod(0o755)
"""
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:-2]:
        if parent.owner() == Path("/root").owner() and parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o005)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mark", ["CACHEDIR.TAG", "pyvenv.cfg"])
def test_a_command_cannot_mark_a_followed_folder_as_one_that_a_tool_fills(world: World, mark: str) -> None:
    world.write("src/a", "mine\n")
    follow = ChangeJournal(world.data)
    begun = follow.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
    world.write(f"src/{mark}")
    follow.end(begun)
    begun = follow.begin(StepOwner(world.session, 2), "bash", "c2", world.project)
    shutil.rmtree(world.path("src"))
    follow.end(begun)
    world.turns = 2
    assert "src/a" in world.undo()["restored"] and world.path("src/a").read_text() == "mine\n"


def test_a_folder_that_is_called_git_in_other_letters_is_told(world: World) -> None:
    world.write(".git/HEAD", "")
    if world.path(".GIT").exists():
        pytest.skip("the file system makes no difference between letters")
    world.write(".GIT/a", "mine\n")
    follow = ChangeJournal(world.data)
    begun = follow.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
    shutil.rmtree(world.path(".GIT"))
    follow.end(begun)
    world.turns = 1
    assert ".GIT/a" in {one["path"] for one in world.undo()["kept"]}
