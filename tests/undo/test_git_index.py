"""Git's index says which files are as their blobs, in every version of its format, and is never believed too much."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from undo.test_looks import git

from nexus_cli.sandbox.own_git import Git, find_git
from nexus_cli.tree.index_entries import read_index
from nexus_cli.undo.git_index import Tracked, find_tracked


def found(root: Path, *, attributes: bool = False) -> dict[str, Tracked]:
    own = find_git(root)
    assert isinstance(own, Git)
    files = {path.name: path.lstat() for path in root.iterdir() if path.is_file()}
    return find_tracked(own, root / ".git", files, attributes)


def committed(root: Path, *names: str, settings: tuple[str, ...] = ()) -> None:
    git(root, "init", "-q", *settings)
    for name in names:
        (root / name).write_text(f"{name}\n")
        os.utime(root / name, ns=(1, 1_000_000_123))
    time.sleep(0.1)  # what changed just before the index was written is never clean
    git(root, "add", "-A")


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_all_versions_give_the_same(tmp_path: Path, version: str) -> None:
    names = ["a", "a.long.name", "b" * 200, "caf\u00e9", "z"]
    committed(tmp_path, *names)
    if version == "3":
        (tmp_path / "later").write_text("x\n")
        git(tmp_path, "add", "-N", "later")
    git(tmp_path, "update-index", "--index-version", version)
    assert (tmp_path / ".git/index").read_bytes()[7:8] == version.encode().translate(bytes.maketrans(b"234", b"\2\3\4"))
    listed = dict(line.split(b"\t")[::-1] for line in git(tmp_path, "ls-files", "-s", "-z").split(b"\0")[:-1])
    index = dict(read_index((tmp_path / ".git/index").read_bytes(), 20))
    assert {os.fsencode(path): one.oid for path, one in index.items()} == {
        name: about.split(b" ")[1].decode() for name, about in listed.items()
    }
    assert {path for path, one in found(tmp_path).items() if one.is_clean} == set(names)


@pytest.mark.matrix
def test_a_repository_with_sha256(tmp_path: Path) -> None:
    committed(tmp_path, "a", "b", settings=("--object-format=sha256",))
    assert {path: (len(one.oid), one.is_clean) for path, one in found(tmp_path).items()} == {
        "a": (64, True),
        "b": (64, True),
    }


@pytest.mark.matrix
def test_what_may_differ_from_its_blob_is_not_clean(tmp_path: Path) -> None:
    committed(tmp_path, "same", "assumed", "skipped", "written", "swapped", "converted", "encoded")
    git(tmp_path, "update-index", "--assume-unchanged", "assumed")
    git(tmp_path, "update-index", "--skip-worktree", "skipped")
    about = (tmp_path / "written").stat()
    (tmp_path / "written").write_text("WRITTEN\n")
    os.utime(tmp_path / "written", ns=(about.st_atime_ns, about.st_mtime_ns))
    (tmp_path / "other").write_text("swapped\n")
    os.replace(tmp_path / "other", tmp_path / "swapped")
    (tmp_path / ".gitattributes").write_text("encoded working-tree-encoding=UTF-16LE\n")
    tracked = found(tmp_path, attributes=True)
    assert {path for path, one in tracked.items() if one.is_clean} == {"same", "converted"}
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/attributes").write_text("converted ident\n")
    assert {path for path, one in found(tmp_path).items() if one.is_clean} == {"same"}


def test_what_changed_just_before_the_index_is_not_clean(tmp_path: Path) -> None:
    committed(tmp_path, "old")
    (tmp_path / "new").write_text("new\n")
    git(tmp_path, "add", "-A")
    about = (tmp_path / "new").stat()
    os.utime(tmp_path / ".git/index", ns=(about.st_ctime_ns, about.st_ctime_ns + 1_000_000))
    assert {path: one.is_clean for path, one in found(tmp_path).items()} == {"old": True, "new": False}


@pytest.mark.matrix
def test_a_change_in_the_second_of_a_file_with_a_whole_time_is_not_clean(tmp_path: Path) -> None:
    committed(tmp_path, "a")
    os.utime(tmp_path / "a", ns=(1, 5_000_000_000))
    git(tmp_path, "update-index", "--refresh")
    index = tmp_path / ".git/index"
    later = (tmp_path / "a").stat().st_ctime_ns + 10_000_000_000
    os.utime(index, ns=(later, later))
    assert [one.is_clean for one in found(tmp_path).values()] == [True]
    data = bytearray(index.read_bytes())
    data[19] ^= 1  # the last byte of the nanoseconds of its change time
    index.write_bytes(data)
    os.utime(index, ns=(later, later))
    assert [one.is_clean for one in found(tmp_path).values()] == [False]


@pytest.mark.matrix
def test_a_file_whose_blob_is_not_there_is_not_clean(tmp_path: Path) -> None:
    committed(tmp_path, "a")
    (oid,) = {one.oid for one in found(tmp_path).values()}
    (tmp_path / ".git/objects" / oid[:2] / oid[2:]).unlink()
    assert [one.is_clean for one in found(tmp_path).values()] == [False]


@pytest.mark.matrix
@pytest.mark.parametrize("cut", [0, 8, 40, 100, -30])
def test_a_damaged_index_is_an_error(tmp_path: Path, cut: int) -> None:
    committed(tmp_path, "a", "b" * 50, "c")
    data = (tmp_path / ".git/index").read_bytes()
    with pytest.raises(ValueError, match="index"):
        list(read_index(data[:cut] if cut >= 0 else data[:12] + b"\xff" * 200, 20))


def test_an_entry_that_states_another_length_than_its_name_has_is_an_error(tmp_path: Path) -> None:
    committed(tmp_path, "abc")
    data = bytearray((tmp_path / ".git/index").read_bytes())
    data[73] = 2  # the lower byte of the flags of the first entry
    with pytest.raises(ValueError, match="damaged"):
        list(read_index(bytes(data), 20))


def test_a_split_index_is_an_error(tmp_path: Path) -> None:
    committed(tmp_path, "a")
    git(tmp_path, "update-index", "--split-index")
    with pytest.raises(ValueError, match="split"):
        list(read_index((tmp_path / ".git/index").read_bytes(), 20))


@pytest.mark.parametrize("version", ["2", "4"])
def test_an_index_that_is_cut_anywhere_is_an_error(tmp_path: Path, version: str) -> None:
    committed(tmp_path, "a", "b" * 200, "c")
    git(tmp_path, "update-index", "--index-version", version)
    data = (tmp_path / ".git/index").read_bytes()
    entries = len(data) - data[::-1].index(b"TREE"[::-1]) - 4 if b"TREE" in data else len(data) - 20
    for cut in range(entries):
        with pytest.raises(ValueError, match="index"):
            list(read_index(data[:cut], 20))
