"""Several processes that change one file: no change is lost, nobody waits for ever, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.tools import atomic_write
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.files import ToolError, read_file_at, sha256_hex

RACE = Path(__file__).with_name("race.py")


def start(folder: Path, path: str, name: str, rounds: int, *more: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(RACE), str(folder), path, name, str(rounds), *more]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.matrix
def test_no_edit_of_racing_processes_is_lost_also_through_a_link(desk: Any) -> None:
    path = desk.write("sub/a", "end\n")
    (desk.project / "link").symlink_to("sub/a")
    (desk.project / "elsewhere").symlink_to("sub")
    names = {"one": "sub/a", "two": "link", "three": "elsewhere/a"}
    started = [start(desk.project, place, name, 25) for name, place in names.items()]
    told = [process.communicate(timeout=120) for process in started]
    assert [out for out, _ in told] == ["done\n"] * 3, told
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted([*(f"{name} {number}" for name in names for number in range(25)), "end"])
    assert sorted(os.listdir(desk.project / "sub")) == ["a"]
    assert sorted(os.listdir(desk.project)) == ["elsewhere", "link", "sub"]


@pytest.mark.matrix
def test_a_lock_ends_with_its_process_and_waiting_for_it_ends_too(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a", "x")
    holder = start(desk.project, "a", "h", 0, "hold")
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        monkeypatch.setattr(atomic_write, "_WAIT", 0.05)
        for name, arguments in (("edit_file", {"edits": [{"old": "x", "new": "y"}]}), ("write_file", {"content": "y"})):
            path = "new" if name == "write_file" else "a"
            error = desk.run(name, path=path, **arguments).error
            assert "locked by another change" in error and "try again" in error
        assert os.listdir(desk.project) == ["a"]
        stop = StopFlag()
        stop.press()
        with pytest.raises(ThreadStopped), atomic_write.locked_folder(desk.project, stop):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert desk.run("edit_file", path="a", edits=[{"old": "x", "new": "y"}]).success


def test_threads_of_one_process_exclude_each_other_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write, "_WAIT", 0.02)
    refused = []

    def take() -> None:
        try:
            with atomic_write.locked_folder(tmp_path, StopFlag()):
                pass
        except ToolError:
            refused.append(True)

    with atomic_write.locked_folder(tmp_path, StopFlag()):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    take()
    assert refused == [True]


@pytest.mark.parametrize("keep_times", [False, True])
def test_what_another_program_writes_while_the_file_is_compared_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_times: bool
) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def read_then_changed(folder: int, name: str) -> Any:
        content = read_file_at(folder, name)
        status = os.stat(path)
        path.write_text("NEW")
        if keep_times:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return content

    monkeypatch.setattr("nexus_cli.tools.atomic_write.read_file_at", read_then_changed)
    with pytest.raises(ToolError, match="read it again"):
        atomic_write.replace_file(path, b"mine", StopFlag(), expected=sha256_hex(b"old"))
    assert path.read_text() == "NEW"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_takes_no_files_is_a_plain_error(desk: Any) -> None:
    path = desk.write("locked/a", "x")
    folder = path.parent
    folder.chmod(0o555)
    try:
        result = desk.run("edit_file", path="locked/a", edits=[{"old": "x", "new": "y"}])
        assert result.success if os.geteuid() == 0 else "denied" in result.error
    finally:
        folder.chmod(0o755)


def test_a_folder_without_locks_or_that_cannot_be_read_is_written_all_the_same(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.write("a", "x")

    def no_locks(*_: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert desk.run("edit_file", path="a", edits=[{"old": "x", "new": "y"}]).success
    assert path.read_text() == "y"
