"""What a path is comes back with an undo and a redo: kind, mode, owner, attributes, access lists and hard links."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from search import SEARCHES, in_turn, sample
from undo.test_attacks import bind, run_killed
from undo.test_only_copies import followed, not_root
from undo.world import World, attributes_of, owner_of, tree

from nexus_cli.commands.forms import find_form
from nexus_cli.reports.turn_diff import turn_diff
from nexus_cli.tree.file_state import FileState
from nexus_cli.undo.records import FileChange

FIXED = 0xFFFFFFFF


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An access list as the kernel takes it: tag, permissions and id of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


SHARED = acl((1, 7, FIXED), (2, 5, 1234), (4, 5, FIXED), (0x10, 5, FIXED), (0x20, 0, FIXED))
"""An access list by which the user 1234 may read too."""


def whole(world: World) -> dict[str, tuple[Any, ...]]:
    """Everything of the project that an undo restores, with the names that are hard links to the same file."""
    found, links = {}, dict[int, list[str]]()
    for name, about in tree(world.project).items():
        path = world.path(name)
        if stat.S_ISREG(about[0]):
            links.setdefault(path.stat().st_ino, []).append(name)
        found[name] = *about, owner_of(path.lstat()), attributes_of(path)
    groups = {name: tuple(sorted(group)) for group in links.values() for name in group}
    return {name: (*about, groups.get(name, ())) for name, about in found.items()}


def takes_attributes(folder: Path) -> bool:
    """True if the file system has attributes of users and access lists."""
    probe = folder / "probe"
    probe.mkdir()
    try:
        os.setxattr(probe, "user.probe", b"1")
        os.setxattr(probe, "system.posix_acl_default", SHARED)
    except OSError:
        return False
    finally:
        probe.rmdir()
    return True


def set_up(world: World) -> None:
    """A project with everything that a path can be."""
    world.write("private/key", "secret\n", 0o600)
    world.write("private/deep/er/key", "secret\n", 0o640)
    world.path("private/deep").chmod(0o711)
    world.path("private").chmod(0o700)
    world.write("shared/a", "a\n")
    world.path("shared").chmod(0o2775)
    world.write("closed/a", "a\n", 0o400)
    world.path("closed").chmod(0o555)
    world.path("uploads/empty").mkdir(parents=True)
    world.path("uploads").chmod(0o1777)
    os.mkfifo(world.path("pipe"))
    world.path("pipe").chmod(0o620)
    world.path("link").symlink_to("private/key")
    for pair in ("a b c", "other/x x"):
        first, *names = pair.split()
        world.write(first, f"{pair}\n", 0o664)
        for name in names:
            os.link(world.path(first), world.path(name))
    world.write("tagged", "tagged\n", 0o750)
    if takes_attributes(world.project):
        os.setxattr(world.path("tagged"), "user.origin", b"here\0")
        os.setxattr(world.path("tagged"), "system.posix_acl_access", SHARED)
        os.setxattr(world.path("shared"), "user.what", b"a folder")
        os.setxattr(world.path("shared"), "system.posix_acl_default", SHARED)
        os.setxattr(world.path("private/deep"), "system.posix_acl_access", SHARED)
    if os.geteuid() == 0:
        os.chown(world.path("private"), 1234, 4321)
        os.chown(world.path("private/key"), 1234, 4321)
        os.chown(world.path("a"), 1234, 0)
        os.chown(world.path("link"), 1234, 1234, follow_symlinks=False)


def chmod_all(world: World) -> None:
    for name in tree(world.project):
        if not world.path(name).is_symlink():
            world.path(name).chmod(0o777)


def break_pair(world: World) -> None:
    """As `sed -i` does."""
    world.write("draft", "other\n")
    world.path("draft").rename(world.path("b"))


def copy_over(world: World) -> None:
    """The same content, and no link any more."""
    shutil.copy2(world.path("b"), world.path("draft"))
    world.path("draft").rename(world.path("b"))


def swap(world: World) -> None:
    """Folders become files, links and pipes, and the other way round."""
    shutil.rmtree(world.path("private"))
    world.write("private", "a file\n")
    shutil.rmtree(world.path("shared"))
    world.path("shared").symlink_to("/etc")
    shutil.rmtree(world.path("uploads"))
    os.mkfifo(world.path("uploads"))
    for name in ("pipe", "tagged", "link", "a"):
        world.path(name).unlink()
        world.path(name).mkdir(mode=0o750)
        world.write(f"{name}/in/it", name)


def strip(world: World) -> None:
    """Remove and change attributes and lists."""
    for name in ("tagged", "shared"):
        for key, _ in attributes_of(world.path(name)):
            os.removexattr(world.path(name), key)
    with suppress(OSError):
        os.setxattr(world.path("x"), "user.new", b"new")


def remove(world: World, *names: str) -> None:
    for name in names:
        path = world.path(name)
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            continue
        for place, _, _ in os.walk(path):
            os.chmod(place, 0o700)
        shutil.rmtree(path)


def link_to_another(world: World) -> None:
    remove(world, "tagged")
    os.link(world.path("a"), world.path("tagged"))


def replace_tagged(world: World) -> None:
    remove(world, "tagged")
    world.write("tagged", "other\n", 0o600)


def chown(world: World) -> None:
    for name in ("private", "a", "tagged", "pipe") if os.geteuid() == 0 else ():
        os.chown(world.path(name), 77, 88)


TURNS: dict[str, Callable[[World], object]] = {
    "a private folder goes": lambda world: remove(world, "private"),
    "a folder with setgid and a default list goes": lambda world: remove(world, "shared"),
    "a folder that may not be written goes": lambda world: remove(world, "closed"),
    "an empty folder goes": lambda world: world.path("uploads/empty").rmdir(),
    "empty folders go": lambda world: remove(world, "uploads"),
    "empty folders come": lambda world: world.path("new/er").mkdir(parents=True),
    "folders with files come": lambda world: world.write("new/er/file", "new\n"),
    "a file comes in an empty folder": lambda world: world.write("uploads/empty/file", "new\n"),
    "all modes are opened": chmod_all,
    "a mode is closed": lambda world: world.path("private").chmod(0o500),
    "a pipe goes": lambda world: remove(world, "pipe"),
    "a pipe comes": lambda world: os.mkfifo(world.path("second")),
    "a pipe has another mode": lambda world: world.path("pipe").chmod(0o600),
    "a pair is written in place": lambda world: world.path("b").write_text("longer than before\n"),
    "a pair in folders is written in place": lambda world: world.path("x").write_text("other\n"),
    "one of a pair has another mode": lambda world: world.path("b").chmod(0o600),
    "one of a pair is replaced": break_pair,
    "one of a pair is replaced by a copy": copy_over,
    "the first of a pair goes": lambda world: remove(world, "a"),
    "one of a pair goes": lambda world: remove(world, "c"),
    "a pair goes": lambda world: remove(world, "x", "other/x"),
    "a pair comes": lambda world: os.link(world.path("tagged"), world.path("tagged too")),
    "a file becomes a pair with another": link_to_another,
    "an owner is another": chown,
    "attributes go and come": strip,
    "a file with attributes is replaced": replace_tagged,
    "a file with attributes is written in place": lambda world: world.path("tagged").write_text("other\n"),
    "folders and others change places": swap,
    "all goes": lambda world: remove(world, *os.listdir(world.project)),
}


@pytest.mark.parametrize(("name", "has_looks"), sample(in_turn(TURNS), 12))
def test_a_path_is_whole_after_an_undo_and_a_redo(world: World, name: str, has_looks: bool) -> None:
    set_up(world)
    before = whole(world)
    if has_looks:
        world.turns = 1
        with followed(world):
            TURNS[name](world)
    else:
        world.turn(lambda: TURNS[name](world))
    after = whole(world)
    for _ in range(2):
        preview, report = world.undo(dry_run=True), world.undo()
        assert whole(world) == before
        assert report["kept"] == [] and preview == report | {"dry_run": True}
        report = world.redo()
        assert whole(world) == after and report["kept"] == []


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name",
    ["folders and others change places", "all goes", "all modes are opened", "a pair is written in place"],
)
def test_an_undo_and_a_redo_that_are_killed_are_carried_on_whole(tmp_path: Path, name: str) -> None:
    number, was_killed = 0, True
    while was_killed:
        number += 1 if SEARCHES else 7
        base = Path(os.path.realpath(tmp_path))
        world = World(base / f"p{number}", base / f"d{number}")
        world.project.mkdir()
        set_up(world)
        before = whole(world)
        world.turn(lambda world=world: TURNS[name](world))  # type: ignore[misc]
        after = whole(world)
        was_killed = run_killed(world, number, World.undo)
        assert world.undo()["kept"] == [] and whole(world) == before, number
        run_killed(world, number, World.redo)
        assert world.redo()["kept"] == [] and whole(world) == after, number
    assert number > 14, "it was killed at some places"


def test_what_the_person_set_since_stays(world: World) -> None:
    set_up(world)
    world.turn(lambda: chmod_all(world))
    world.path("private").chmod(0o750)
    shutil.copy2(world.path("b"), world.path("mine"))
    world.path("mine").rename(world.path("b"))
    report = world.undo()
    assert stat.S_IMODE(world.path("private").stat().st_mode) == 0o750
    assert stat.S_IMODE(world.path("closed").stat().st_mode) == 0o555
    assert [stat.S_IMODE(world.path(name).stat().st_mode) for name in "abc"] == [0o664] * 3
    assert world.path("a").samefile(world.path("c")) and not world.path("a").samefile(world.path("b"))
    assert "private/" not in report["restored"] and report["kept"] == []


def test_a_made_folder_stays_with_what_the_person_put_there_and_a_redo_fills_it(world: World) -> None:
    world.turn(lambda: world.write("new/er/file", "new\n"))
    world.write("new/mine", "mine\n")
    assert world.undo()["removed"] == ["new/er/file"]
    assert set(tree(world.project)) == {"new", "new/mine"}
    assert world.undo()["turn"] is None
    assert world.redo()["restored"] == ["new/er/file"] and world.path("new/er/file").read_text() == "new\n"


def test_one_path_brings_its_private_folder_back(world: World) -> None:
    set_up(world)
    before = whole(world)
    world.turn(lambda: remove(world, "private"))
    assert world.undo("private/deep/er/key")["restored"] == ["private/deep/er/key"]
    names = ("private", "private/deep", "private/deep/er", "private/deep/er/key")
    assert {name: one for name, one in whole(world).items() if name in names} == {name: before[name] for name in names}
    assert world.undo()["restored"] == ["private/key"] and whole(world) == before


def test_what_a_command_removed_from_a_folder_that_it_closed_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        world = World(Path(os.path.realpath(place)) / "project", Path(os.path.realpath(place)) / "data")
        world.project.mkdir()
        monkeypatch.setenv("HOME", place)
        world.write("closed/in/kept", "kept\n")
        world.write("closed/gone", "gone\n")
        with not_root(world.project.parent):
            before = tree(world.project)
            world.turns = 1
            with followed(world):
                world.path("closed/gone").unlink()
                world.path("closed").chmod(0)
            assert world.undo()["kept"] == [] and tree(world.project) == before


def test_a_socket_that_was_removed_is_named(world: World) -> None:
    bind(world.path("socket"))
    world.turns = 1
    world.path("socket").unlink()
    world.record((FileChange("socket", FileState("special"), FileState("absent")),))
    (kept,) = world.undo()["kept"]
    assert kept["path"] == "socket" and "socket" in kept["why"] and kept["aside"] is None


def test_what_a_file_system_refuses_is_told_in_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        os.setxattr(world.write(name, "old\n"), "user.x", b"1") if takes_attributes(world.project) else None
        if not attributes_of(world.path(name)):
            pytest.skip("no attributes here")
    world.turn(lambda: remove(world, "one", "two"))

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patched:
        patched.setattr(os, "setxattr", refuse)
        report = world.undo()
    assert report["restored"] == ["one", "two"]
    assert report["kept"] == [
        {
            "path": "one",
            "why": "restored without attributes (operation not supported); also 1 more",
            "aside": None,
        }
    ]


def test_modes_of_folders_are_counted_and_shown(world: World) -> None:
    set_up(world)
    world.turn(lambda: chmod_all(world))
    _, shown, unread = turn_diff(world.request())
    assert "mode of private: 0700 -> 0777\n" in shown and not unread
    report = world.undo()
    assert {"private/", "private/deep/", "shared/", "closed/", "uploads/"} <= set(report["restored"])
    count = sum(path.endswith("/") for path in report["restored"])
    assert f"files and {count} folders restored" in " ".join(find_form("undo")(report, 200).split())


def test_an_empty_file_that_came_or_went_is_shown(world: World) -> None:
    world.path("__init__.py").touch()

    def work() -> None:
        world.path("__init__.py").unlink()
        world.path("made").touch()

    world.turn(work)
    _, shown, unread = turn_diff(world.request())
    assert shown == "--- a/__init__.py\n+++ /dev/null\n--- /dev/null\n+++ b/made\n" and not unread


@pytest.mark.matrix
def test_the_modes_of_many_folders_come_back_with_few_system_calls(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(600):
        world.path(f"{number // 10}/{number}/in").mkdir(parents=True)
    before = whole(world)
    world.turn(lambda: chmod_all(world))
    count, real = 0, os.open

    def counted(*arguments: Any, **options: Any) -> int:
        nonlocal count
        count += 1
        return real(*arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    assert len(world.undo()["restored"]) == 1260 and whole(world) == before
    assert count < 30 * 1260
