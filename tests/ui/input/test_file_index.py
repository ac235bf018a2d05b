"""The list of a project's files: what is in it, how it is searched, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.ui.input import file_index
from nexus_cli.ui.input.file_index import MAX_NAMES, FileIndex, NameIndex, list_folder

NAME = st.text("abcAB/_. é", min_size=1, max_size=12)
QUERY = st.text("abcAB/_. é", max_size=6)


def scattered(query: str, name: str) -> bool:
    rest = iter(name)
    return all(char in rest for char in query)


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def repository(root: Path, *names: str) -> Path:
    made(root, *names)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def searched(index: FileIndex, query: str) -> list[str] | None:
    async def twice() -> list[str] | None:
        for _ in range(50):
            found = await index.search(query)
            if found is not None:
                return found
        return None

    return asyncio.run(twice())


@given(st.lists(NAME, unique=True), QUERY)
def test_a_match_has_the_letters_of_the_query_in_their_order_and_every_such_name_is_one(
    names: list[str], query: str
) -> None:
    expected = {name for name in names if scattered(query.lower(), name.lower())}
    assert set(NameIndex(names).best(query, len(names))) == expected


@given(st.lists(NAME, unique=True), QUERY, st.integers(1, 5))
def test_the_best_are_matches_each_once_and_as_many_as_there_are_up_to_the_limit(
    names: list[str], query: str, most: int
) -> None:
    found = NameIndex(names)
    best, matching = found.best(query, most), found.best(query, len(names))
    assert len(best) == len(set(best)) == min(most, len(matching))
    assert set(best) <= set(matching)


def test_hits_in_the_file_name_come_first_and_then_the_shorter_name() -> None:
    names = NameIndex(["main/other.py", "src/the_main.py", "src/deep/main.py", "src/main.py", "m/a/i/n.py"])
    assert names.best("main") == [
        *("src/main.py", "src/deep/main.py", "src/the_main.py", "main/other.py", "m/a/i/n.py"),
    ]


def test_a_repeated_letter_takes_linear_time() -> None:
    # Backtracking would take centuries here.
    assert NameIndex(["a" * 5000 + "b" + "a" * 5000]).best("a" * 40 + "bb") == []


@pytest.mark.matrix
def test_git_decides_what_is_listed_and_folders_end_in_a_slash(tmp_path: Path) -> None:
    root = repository(tmp_path, "src/a.py", "new.txt", "build/out.o", ".gitignore")
    (root / ".gitignore").write_text("build\n")
    assert set(searched(FileIndex(root, root), "") or []) == {".gitignore", "new.txt", "src/", "src/a.py"}


@pytest.mark.matrix
def test_without_git_ignore_files_are_heeded_all_the_same(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "skip/b.py", ".gitignore")
    (tmp_path / ".gitignore").write_text("skip/\n")
    assert searched(FileIndex(tmp_path, tmp_path), "py") == ["a.py"]


@pytest.mark.matrix
def test_names_are_written_as_seen_from_the_working_folder(tmp_path: Path) -> None:
    root = repository(tmp_path, "top.py", "lib/x.py", "app/web/here.py", "app/web/in/deep.py")
    folder = root / "app/web"
    found = searched(FileIndex(folder, root), "") or []
    assert set(found) == {"here.py", "in/", "in/deep.py", "../../top.py", "../../lib/", "../../lib/x.py"}
    assert all((folder / name).exists() for name in found)


def test_names_that_cannot_be_typed_are_not_offered(tmp_path: Path) -> None:
    made(tmp_path, "good.py", "two\nlines", "esc\x1b[31m", "c1\x9b31m")
    (tmp_path / os.fsdecode(b"stray\xff")).write_text("x")
    assert searched(FileIndex(tmp_path, tmp_path), "") == ["good.py"]


def test_nobody_waits_for_a_list_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "PATIENCE", 0.05)
    go_on = threading.Event()

    def slow(root: Path, project: Path, stop: StopFlag) -> Sequence[str]:
        go_on.wait(60)
        return ["late.py"]

    index = FileIndex(tmp_path, tmp_path, lister=slow)
    assert asyncio.run(index.search("l")) is None
    go_on.set()
    assert searched(index, "l") == ["late.py"]


def test_an_old_list_serves_while_a_new_one_is_made(tmp_path: Path) -> None:
    now, lists = [0.0], [["old.py"], ["new.py"]]
    made_lists = threading.Semaphore(0)

    def listed(root: Path, project: Path, stop: StopFlag) -> Sequence[str]:
        made_lists.release()
        return lists.pop(0)

    index = FileIndex(tmp_path, tmp_path, lister=listed, clock=lambda: now[0])
    assert searched(index, "py") == ["old.py"]
    assert searched(index, "py") == ["old.py"] and len(lists) == 1
    now[0] = 6.0
    assert made_lists.acquire(timeout=120)
    searched(index, "py")
    assert made_lists.acquire(timeout=120)
    found = None
    while found != ["new.py"]:
        found = searched(index, "py")


def test_a_list_that_cannot_be_made_is_given_up_and_not_tried_at_once_again(tmp_path: Path) -> None:
    tries = []

    def endless(root: Path, project: Path, stop: StopFlag) -> Sequence[str]:
        tries.append(stop)
        raise ThreadStopped

    index = FileIndex(tmp_path, tmp_path, lister=endless, clock=lambda: 0.0)
    assert asyncio.run(index.search("")) is None
    assert asyncio.run(index.search("")) is None and len(tries) == 1


def test_closing_stops_the_listing(tmp_path: Path) -> None:
    stopped = threading.Event()

    def watching(root: Path, project: Path, stop: StopFlag) -> Sequence[str]:
        while not stop.is_pressed:
            threading.Event().wait(0.01)
        stopped.set()
        raise ThreadStopped

    index = FileIndex(tmp_path, tmp_path, lister=watching)
    index.refresh()
    index.close()
    assert stopped.wait(60)


def test_at_most_fifty_names_are_given(tmp_path: Path) -> None:
    assert len(NameIndex(f"{n}.py" for n in range(500)).best("py")) == MAX_NAMES


def test_a_path_out_of_the_project_is_completed_in_its_folder(tmp_path: Path) -> None:
    made(tmp_path, "project/a.py", "other/notes.txt", "other/.hidden", "Outer.md")
    folder = tmp_path / "project"
    assert list_folder("../o", folder) == ["../Outer.md", "../other/"]
    assert list_folder("../other/", folder) == ["../other/notes.txt"]
    assert list_folder("../other/.", folder) == ["../other/.hidden"]
    assert list_folder(f"{tmp_path}/oth", folder) == [f"{tmp_path}/other/"]
    assert list_folder("../nowhere/", folder) == list_folder("a.py/", folder) == list_folder("\0/", folder) == []


def test_the_home_folder_is_completed_as_it_is_written(tmp_path: Path, _isolated: Path) -> None:
    made(_isolated, "thing.md")
    assert list_folder("~/th", tmp_path) == ["~/thing.md"]
