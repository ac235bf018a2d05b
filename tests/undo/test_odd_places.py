"""What people have in projects and where these are: a command wrecks it, an undo gives it back byte for byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from search import sample
from undo.test_looks import git, repository
from undo.test_only_copies import command, not_root
from undo.world import World, files, tree

NAMES = ["new\nline", "esc\x1b[2J", "x" * 255, "caf\u00e9", "cafe\u0301", "\udcff\udcfe", "-rf", "a b", '"q"\\']


def own(world: World) -> dict[str, object]:
    return {name: one for name, one in files(tree(world.project)).items() if ".git" not in name.split("/")}


def check(world: World, line: str, *kept: str) -> None:
    """A command wrecks the project; the undo gives all back, and a redo takes it away again."""
    before = own(world)
    command(world, line)
    after = own(world)
    assert before != after
    report = world.undo()
    assert [one["path"] for one in report["kept"]] == [*kept] and not report["unfollowed"], report
    assert own(world) == before
    world.redo()
    assert own(world) == after
    world.undo()
    assert own(world) == before


@pytest.mark.matrix
def test_converted_files(world: World) -> None:
    """Line ends by the settings or mixed, LFS without its program, an identifier, an encoding: no blob is its file."""
    git(world.project, "init", "-q")
    git(world.project, "config", "core.autocrlf", "true")
    git(world.project, "config", "filter.lfs.clean", "sed s/.*/pointer/")
    git(world.project, "config", "filter.lfs.smudge", "cat")
    git(world.project, "config", "filter.lfs.required", "true")
    attributes = ("*.bin filter=lfs -text", "*.id ident", "*.u16 text working-tree-encoding=UTF-16LE")
    world.write(".gitattributes", "".join(f"{line}\n" for line in attributes))
    world.write("crlf.txt", b"one\r\ntwo\r\n")
    world.write("lf.txt", b"one\ntwo\n")
    world.write("mixed.txt", b"one\r\ntwo\nthree\r\n")
    world.write("large.bin", os.urandom(1000))
    world.write("a.id", b"$Id$\n")
    world.write("a.u16", "text\n".encode("utf-16-le"))
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "first")
    world.path("a.id").unlink()
    git(world.project, "checkout", "-q", "a.id")
    check(world, "for f in *.txt *.bin *.id *.u16; do tr -d '\\r' < $f > x; echo more >> x; mv x $f; done")
    check(world, "rm -f *.txt *.bin *.id *.u16; git config core.autocrlf false")


@pytest.mark.matrix
def test_submodules_and_repositories_inside(world: World, tmp_path: Path) -> None:
    repository(world.project)
    (other := tmp_path / "other").mkdir()
    repository(other)
    git(world.project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(world.project, "commit", "-qam", "submodule")
    world.write("sub/mine.txt", "not committed\n")
    world.write("sub/src/a.py", "changed\n")
    (world.project / "inner").mkdir()
    repository(world.project / "inner")
    check(world, "echo x > sub/src/b.py; rm sub/mine.txt sub/src/a.py; rm -rf inner/src inner/.env; echo > inner/new")


@pytest.mark.matrix
def test_an_ignore_file_that_changes_between(world: World) -> None:
    repository(world.project)
    before = own(world)
    command(world, "echo '*' > .gitignore; rm notes.txt .env; echo x > made; echo y > src/made.log")
    world.write(".gitignore", "made\nnotes.txt\nsrc/\n")  # the person's
    report = world.undo()
    assert report["removed"] == ["made", "src/made.log"]
    assert [one["path"] for one in report["kept"]] == [".gitignore"]
    world.path(".gitignore.nexus-undo").rename(world.path(".gitignore"))
    assert own(world) == before


@pytest.mark.matrix
@pytest.mark.parametrize("has_git", sample([True, False], 2))
def test_odd_names(world: World, has_git: bool) -> None:
    if has_git:
        git(world.project, "init", "-q")
    for name in NAMES:
        world.write(name, f"content of {name!a}")
        world.write(f"folder {name[:200]}/inner", name.encode("utf-8", "surrogateescape"))
    if has_git:
        git(world.project, "add", "-A")
    check(world, "rm -rf -- *; echo new > new; mkdir 'folder a b'")
    check(world, 'for f in ./*; do [ -d "$f" ] || echo more >> "$f"; done')
    command(world, "rm -f -- x*")
    world.write("x" * 255, "the person's\n")
    (kept,) = world.undo()["kept"]
    assert world.path(kept["aside"]).read_text().startswith("content of 'xxx") and len(kept["aside"]) == 255


def test_a_folder_that_is_read_only_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(os.path.realpath(place))
        monkeypatch.setenv("HOME", place)
        monkeypatch.setenv("NEXUS_HOME", place)
        world = World(folder / "project", folder / "data")
        world.project.mkdir()
        world.write("closed/a", "a\n")
        world.write("open", "o\n")
        with not_root(folder):
            command(world, "rm closed/a open; echo > closed/made")
            world.path("closed").chmod(0o500)
            report = world.undo()
            assert report["restored"] == ["open"]
            assert {one["path"]: one["why"] for one in report["kept"]} == dict.fromkeys(
                ("closed/a", "closed/made"), "permission denied"
            )
            world.path("closed").chmod(0o700)


@pytest.fixture
def far_world(world: World) -> Iterator[World]:
    """A project on another file system than the data."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        if os.stat(place).st_dev == os.stat(world.project).st_dev:
            pytest.skip("/dev/shm is on the same file system")
        far = World(Path(os.path.realpath(place)) / "project", world.data)
        far.project.mkdir()
        yield far


@pytest.mark.matrix
@pytest.mark.parametrize("has_git", [True, False])
def test_a_project_on_another_file_system(far_world: World, has_git: bool) -> None:
    if has_git:
        repository(far_world.project)
    for name in "abc":
        far_world.write(f"{name}/{name}", f"{name}\n", 0o750)
    check(far_world, "rm -rf a; echo x > b/b; mv c d; chmod 600 b/b")
