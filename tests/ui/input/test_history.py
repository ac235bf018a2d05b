"""The history: what comes back, what other processes and broken files do to it, and that it never stands in the way."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.message import replace_surrogates
from nexus_cli.ui.input import history as module
from nexus_cli.ui.input.history import ProjectHistory

HERE = Path("/some/project")


def loaded(history: ProjectHistory) -> list[str]:
    """Everything that comes back, newest first."""

    async def load() -> list[str]:
        return [text async for text in history.load()]

    return asyncio.run(load())


def opened(path: Path, project: Path = HERE, *, save: bool = True) -> tuple[ProjectHistory, list[str]]:
    told: list[str] = []
    return ProjectHistory(path, project, save=save, notice=told.append), told


@pytest.mark.matrix
@given(st.lists(st.text(st.characters(), min_size=1), max_size=6))
def test_any_text_comes_back_whole(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history")
        history, told = opened(path)
        for text in texts:
            history.append_string(text)
        kept = [replace_surrogates(text) for text in texts if text.strip()]
        expected = [text for number, text in enumerate(kept) if not number or kept[number - 1] != text]
        again, _ = opened(path)
        assert loaded(again) == expected[::-1] == loaded(history)
        assert told == []


def test_each_project_sees_its_own(tmp_path: Path) -> None:
    path = tmp_path / "history"
    opened(path)[0].append_string("here")
    opened(path, Path("/other"))[0].append_string("there")
    assert loaded(opened(path)[0]) == ["here"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["at", "project", "text"]] * 2


def test_the_same_words_twice_in_a_row_are_kept_once_also_over_processes(tmp_path: Path) -> None:
    path = tmp_path / "history"
    first, _ = opened(path)
    for text in ("a", "a", "b", "a"):
        first.append_string(text)
    second, _ = opened(path)
    assert loaded(second) == ["a", "b", "a"]
    second.append_string("a")
    assert loaded(second) == ["a", "b", "a"]


def test_what_is_typed_before_the_file_was_read_stands_after_it_once(tmp_path: Path) -> None:
    path = tmp_path / "history"
    opened(path)[0].append_string("old")
    history, _ = opened(path)
    history.append_string("new")
    assert loaded(history) == ["new", "old"] and history.get_strings() == ["old", "new"]


def test_file_and_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "history"
    opened(path)[0].append_string("secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    opened(path)[0].append_string("more")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_saving_nothing_is_written_and_the_old_is_there(tmp_path: Path) -> None:
    path = tmp_path / "history"
    opened(path)[0].append_string("old")
    before = path.read_bytes()
    history, _ = opened(path, save=False)
    history.append_string("new")
    assert loaded(history) == ["new", "old"] and path.read_bytes() == before


def test_without_saving_no_folder_is_made(tmp_path: Path) -> None:
    history, told = opened(tmp_path / "data" / "history", save=False)
    history.append_string("new")
    assert loaded(history) == ["new"] and not (tmp_path / "data").exists() and told == []


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "history"
    opened(path)[0].append_string("whole")
    with open(path, "ab") as file:
        file.write(b'{"at": "x", "project": "/some/project", "text": "to')
    opened(path)[0].append_string("after")
    assert loaded(opened(path)[0]) == ["after", "whole"]


@given(st.binary(max_size=300))
def test_garbage_is_passed_over(garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history")
        path.write_bytes(garbage + b"\n[]\n{}\n3\n" + b"[" * 5000 + b'\n{"project": "/some/project", "text": 3}\n')
        history, told = opened(path)
        history.append_string("fine")
        assert loaded(opened(path)[0]) == ["fine"] and told == []


def _folder(path: Path) -> None:
    path.mkdir()


def _unreadable(path: Path) -> None:
    path.write_text("{}\n")
    path.chmod(0)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("no folder")


@pytest.mark.parametrize("spoil", [_folder, _pipe, _below_a_file, _unreadable])
def test_a_history_that_cannot_be_used_is_told_once_and_done_without(tmp_path: Path, spoil: object) -> None:
    if spoil is _unreadable and os.geteuid() == 0:
        pytest.skip("nothing is unreadable for root")
    path = tmp_path / "data" / "history"
    path.parent.mkdir()
    spoil(path)  # type: ignore[operator]
    history, told = opened(path)
    assert loaded(history) == []
    for text in ("a", "b"):
        history.append_string(text)
    assert loaded(history) == ["b", "a"]
    assert len(told) == 1 and str(path) in told[0] and "\n" not in told[0]


def test_a_full_disk_is_told_once() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    history, told = opened(Path("/dev/full"))
    history.append_string("a")
    assert loaded(history) == ["a"] and len(told) == 1


@pytest.mark.matrix
def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    writer, _ = opened(path)
    for number in range(200):
        writer.append_string(f"entry {number}")
    monkeypatch.setattr(module, "TAIL", 1000)
    found = loaded(opened(path)[0])
    assert found[0] == "entry 199" and 5 < len(found) < 15
    assert found == [f"entry {number}" for number in range(199, 199 - len(found), -1)]


@pytest.mark.matrix
def test_a_file_that_grew_too_large_keeps_its_newest_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 4000)
    path = tmp_path / "history"
    writer, _ = opened(path)
    for number in range(300):
        writer.append_string(f"entry {number}")
        assert path.stat().st_size <= 4000
    found = loaded(opened(path)[0])
    assert found == [f"entry {number}" for number in range(299, 299 - len(found), -1)] and len(found) > 10
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and list(tmp_path.iterdir()) == [path]


def test_an_entry_too_long_for_the_file_is_remembered_by_this_process(tmp_path: Path) -> None:
    history, _ = opened(tmp_path / "history")
    history.append_string("x" * (module.LONGEST + 1))
    assert len(loaded(history)) == 1 and not (tmp_path / "history").exists()


@pytest.mark.matrix
def test_processes_that_write_at_once_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "history"
    code = (
        "import sys; from pathlib import Path; from nexus_cli.ui.input import history as h; h.LARGEST = 20_000_000\n"
        "for n in range(60): h.append(Path(sys.argv[1]), (sys.argv[2] * 3000 + str(n)).encode() + b'\\n')"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), letter]) for letter in "abc"]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    expected = sorted(letter * 3000 + str(number) for letter in "abc" for number in range(60))
    lines = path.read_text().splitlines()  # empty ones too: who meets half a line of another begins a new one
    assert sorted(line for line in lines if line) == expected


def test_a_link_to_the_history_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 200)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    history, _ = opened(tmp_path / "link")
    for number in range(10):
        history.append_string(f"entry {number}")
    assert (tmp_path / "link").is_symlink() and "entry 9" in (tmp_path / "real").read_text()
