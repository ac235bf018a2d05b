"""`OrphanGuard`: the shell that ends a child's processes when we could not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.tools import process_tree
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import run_process
from nexus_cli.tools.process_tree import OrphanGuard

by_mark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc that shows environments")
MARK = "0123456789abcdef-guarded"


@contextmanager
def _sleeper(mark: str = "") -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": mark}, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _die(guard: OrphanGuard) -> None:
    """What the guard sees when we are killed: its pipe ends without a line."""
    assert guard._shell.stdin is not None
    guard._shell.stdin.close()
    guard._shell.wait(120)


def test_an_ordinary_end_leaves_everything_alone() -> None:
    with _sleeper(MARK) as child:
        with OrphanGuard(MARK) as guard:
            guard.watch(child.pid)
        with OrphanGuard(MARK):
            pass
        assert child.poll() is None


def test_when_we_are_gone_the_group_is_killed() -> None:
    with _sleeper() as child, _sleeper() as bystander:
        guard = OrphanGuard(MARK).__enter__()
        guard.watch(child.pid)
        assert child.poll() is None
        _die(guard)
        assert child.wait(120) == -9
        assert bystander.poll() is None


@by_mark
def test_processes_that_a_command_left_are_searched_for_once_if_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []
    find_marked = process_tree._find_marked

    def find(mark: str, first: int = 0) -> Any:
        searches.append(mark)
        return find_marked(mark, first)

    monkeypatch.setattr(process_tree, "_find_marked", find)
    assert run_process(["true"], cwd=tmp_path, env=os.environ, stop=StopFlag(), seconds=60).killed == 0
    assert len(searches) == 1


@pytest.mark.parametrize(
    ("first", "newest", "found"), [(0, "50", {10, 40}), (20, "50", {40}), (60, "50", {10, 40}), (20, "", {10, 40})]
)
def test_older_processes_are_not_searched_unless_the_numbers_may_have_begun_again(
    first: int, newest: str, found: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"self": "", "10": f"M={MARK}", "40": f"M={MARK}", "50": "M="}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "environ").write_text(text)
    if newest:  # else as in a /proc that shows processes alone
        (tmp_path / "loadavg").write_text(f"0.1 0.2 0.3 1/4 {newest}\n")
    monkeypatch.setattr(process_tree, "_PROC", tmp_path)
    assert process_tree._find_marked(MARK, first) == found


@pytest.mark.parametrize(("most", "searched"), [("32768\n", [7, 0, 0]), ("4194304\n", [7, 7, 0]), ("", [7, 0, 0])])
def test_all_processes_are_searched_after_a_time_in_which_the_numbers_may_begin_again(
    most: str, searched: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "pid_max").write_text(most)
    monkeypatch.setattr(process_tree, "_PROC", tmp_path)
    searches: list[int] = []
    monkeypatch.setattr(process_tree, "_find_marked", lambda mark, first: searches.append(first))
    monkeypatch.setattr(process_tree, "find_group", lambda pid: set())
    for seconds in (0.05, 0.5, 20):
        process_tree.find_remaining(7, MARK, seconds)
    assert searches == searched


@by_mark
def test_when_we_are_gone_who_left_the_group_is_killed_by_its_mark() -> None:
    with _sleeper() as child, _sleeper(MARK) as left, _sleeper() as bystander:
        guard = OrphanGuard(MARK).__enter__()
        guard.watch(child.pid)
        _die(guard)
        assert left.wait(120) == -9
        assert bystander.poll() is None


@by_mark
def test_when_we_are_gone_before_the_group_was_named_the_mark_is_enough() -> None:
    with _sleeper(MARK) as child, _sleeper() as bystander:
        _die(OrphanGuard(MARK).__enter__())
        assert child.wait(120) == -9
        assert bystander.poll() is None


@pytest.mark.matrix
@by_mark
def test_when_this_process_is_killed_outright_what_it_ran_ends(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from nexus_cli.tools.process import run_process; "
        "from nexus_cli.tools.cancellable_thread import StopFlag; "
        f"run_process(['/bin/sh', '-c', 'echo $$ > {tmp_path}/pid; kill -9 $PPID; exec sleep 60'], "
        "cwd=Path('/'), env=os.environ, stop=StopFlag(), seconds=60)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    pid = int((tmp_path / "pid").read_text())
    for _ in range(1000):
        if not process_tree.find_tree(pid):
            break
        time.sleep(0.01)
    else:
        os.kill(pid, signal.SIGKILL)
        raise AssertionError("it ran on")
