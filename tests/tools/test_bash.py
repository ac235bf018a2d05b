"""`bash` with real processes: what comes back, what is bounded, and that nothing stays running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from programs import need
from search import sample

from nexus_cli.config.host_environment import CHILD_MARK
from nexus_cli.tools import process, process_tree
from nexus_cli.tools.builtin import bash
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.process import BoundedOutput

by_mark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc that shows environments")
"""Elsewhere a process that left the session and lost its parents is not found."""


def _gone(pid: int) -> bool:
    return not process_tree.still_running({p for p in process_tree.find_tree(pid) if p.pid == pid})


def _await_pid(path: Path) -> int:
    """The number that a command wrote into `path`, once it is there."""
    for _ in range(12_000):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{path.name} was never written")


def _await_known(pid: int) -> None:
    """Wait until the thread that has started `pid` has noted it: the command may be ahead of it."""
    for _ in range(12_000):
        if pid in {number for number, _ in tuple(process_tree.RUNNING)}:
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} was never noted")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo a; echo b >&2; echo c", "a\nb\nc\n[exit status 0]"),
        ("printf x", "x\n[exit status 0]"),
        ("true", "[exit status 0]"),
        ("exit 3", "[exit status 3]"),
        ("kill -9 $$", "[exit status 137]"),
        ("no-such-command-at-all 2>/dev/null", "[exit status 127]"),
        ("[[ a == a ]] && echo bash", "bash\n[exit status 0]"),
        ("cat; echo end", "end\n[exit status 0]"),
        ("tty", "not a tty\n[exit status 1]"),
        ("exec >&- 2>&-; sleep 0.1; exit 4", "[exit status 4]"),
        (r"printf 'a\xffb\033[31m'", "aÿb\n[exit status 0; colour codes left out]"),
        (
            r"printf '\033[1;38:5:9mred\033[0m\033[K \033]0;title\007\033[2J'",
            "red \x1b]0;title\x07\x1b[2J\n[exit status 0; colour codes left out]",
        ),
    ],
)
def test_output_and_exit_status_come_back(desk: Any, command: str, output: str) -> None:
    result = desk.run("bash", command=command)
    assert (result.output, result.error) == (output, "")


@pytest.mark.parametrize("cut", range(1, 14))
def test_live_output_has_no_colour_codes_wherever_a_piece_ends(cut: int) -> None:
    shown: list[str] = []
    live = bash._Live(shown.append, StopFlag())
    for piece in (b"a\x1b[1;31mb\x1b[0m\x1b[Kc"[:cut], b"a\x1b[1;31mb\x1b[0m\x1b[Kc"[cut:]):
        live.feed(piece)
        live.flush()
    assert "".join(shown) == "abc"


@pytest.mark.matrix
def test_it_runs_in_the_working_folder_in_a_session_of_its_own(desk: Any) -> None:
    assert desk.run("bash", command="pwd").output.startswith(str(desk.project))
    sid = "import os; print(os.getsid(0) == os.getppid() or os.getsid(0) == os.getpid())"
    assert "True" in desk.run("bash", command=f'"{sys.executable}" -c "{sid}"').output
    assert "True" not in desk.run("bash", command=f'test "$(ps -o sid= -p $$)" = "{os.getsid(0)}" && echo True').output


def test_the_environment_is_the_persons_own(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ("SOME_API_KEY", "LITELLM_LOG", "LITELLM_MODE", "TIKTOKEN_CACHE_DIR")
    for name in theirs:
        monkeypatch.setenv(name, "kept")
    output = desk.run("bash", command="env").output
    assert [name for name in theirs if f"{name}=kept" not in output] == []
    assert "TERM=dumb" in output


def test_nothing_opens_an_editor(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_EDITOR", "EDITOR", "VISUAL"):
        monkeypatch.setenv(name, "vim")
    assert desk.run("bash", command="$EDITOR a || $VISUAL a").output == "[exit status 1]"
    git = "git -c user.name=a -c user.email=a@b.c"
    made = f"git init -q . && {git} commit -q --allow-empty -m first && {git} commit -q --amend --allow-empty"
    assert desk.run("bash", command=f"{made} && git log --format=%s").output == "first\n[exit status 0]"
    assert "empty commit message" in desk.run("bash", command=f"{git} commit --allow-empty").output


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="nexus runs in no virtual environment here")
def test_commands_have_the_programs_of_the_person_and_not_those_of_nexus(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.path.join(sys.prefix, "bin")
    monkeypatch.setenv("PATH", f"{own}/:{desk.project}:{os.defpath}")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    output = desk.run("bash", command='echo "$PATH,$VIRTUAL_ENV"; command -v nexus').output
    assert output == f"{desk.project}:{os.defpath},\n[exit status 1]"


def test_the_newest_letters_are_shown_whole_whatever_the_pieces() -> None:
    shown: list[str] = []
    live = bash._Live(shown.append, StopFlag())
    live._last = time.monotonic() + 3600
    for piece in ("€".encode() * 100_000, "é".encode()[:1], "é".encode()[1:]):
        live.feed(piece)
    live.flush()
    assert "".join(shown) == "€" * (bash._SHOW_MOST - 1) + "é"


def test_output_is_shown_while_it_comes(desk: Any, tmp_path: Path) -> None:
    class Watcher(list[str]):
        def append(self, text: str) -> None:
            super().append(text)
            if "two" in text:
                (tmp_path / "seen").touch()

    desk.live = Watcher()
    # It goes on only after its second line was shown, which follows the first at once.
    command = f"echo one; sleep 0.02; echo two; until [ -e {tmp_path}/seen ]; do sleep 0.02; done; echo three"
    assert "time limit" not in desk.run("bash", command=command, timeout=10).output
    assert "".join(desk.live) == "one\ntwo\nthree\n"


def test_a_working_folder_that_vanished_is_an_error(desk: Any) -> None:
    desk.project.rmdir()
    result = desk.run("bash", command="echo")
    assert "no longer exists" in result.error
    assert not result.ran


@pytest.mark.matrix
@pytest.mark.parametrize("command", ["echo \0", "echo " + "x" * 3_000_000])
def test_a_command_that_cannot_start_is_an_error(desk: Any, command: str) -> None:
    result = desk.run("bash", command=command)
    assert "could not be started" in result.error
    assert not result.ran


def test_the_time_limit_ends_the_whole_tree(desk: Any, tmp_path: Path) -> None:
    script = f"sleep 100 & echo $! > {tmp_path}/a; setsid sleep 100 & echo $! > {tmp_path}/b; echo before; wait"
    result = desk.run("bash", command=script, timeout=2)
    assert result.output == "before\n[ended after 2 s: time limit; exit status 143]"
    assert _gone(int((tmp_path / "a").read_text()))
    assert _gone(int((tmp_path / "b").read_text()))


@pytest.mark.matrix
def test_who_ignores_sigterm_is_killed(desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TERM", 0.2)
    command = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"
    assert "exit status 137" in desk.run("bash", command=command, timeout=2).output
    assert _gone(int((tmp_path / "pid").read_text()))


@pytest.mark.matrix
def test_background_processes_end_with_the_command_and_are_named(desk: Any, tmp_path: Path) -> None:
    result = desk.run("bash", command=f"sleep 100 & echo $! > {tmp_path}/pid; echo started")
    assert result.output == "started\n[exit status 0; 1 background process ended with the command]"
    assert _gone(int((tmp_path / "pid").read_text()))


def test_what_runs_on_briefly_behind_the_command_is_waited_for(desk: Any) -> None:
    result = desk.run("bash", command="echo all > >(cat)")
    assert result.output == "all\n[exit status 0]"


@pytest.mark.matrix
def test_a_grandchild_that_left_and_holds_the_pipe_open_keeps_nothing_waiting(desk: Any, tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(100)\n"
    )
    (tmp_path / "daemon.py").write_text(program)
    try:
        result = desk.run("bash", command=f"'{sys.executable}' {tmp_path}/daemon.py; echo done", timeout=60)
        assert result.output.startswith("done\n[exit status 0")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(_await_pid(tmp_path / "pid"), signal.SIGKILL)


@by_mark
def test_background_processes_that_left_the_session_end_with_the_command_too(desk: Any, tmp_path: Path) -> None:
    left = 'until [ "$(cut -d " " -f 6 /proc/$(cat pid)/stat)" = "$(cat pid)" ]; do :; done'  # its own session
    command = f"cd {tmp_path}; (setsid sleep 100 >/dev/null 2>&1 & echo $! > pid); {left}; echo hi"
    assert (
        desk.run("bash", command=command).output == "hi\n[exit status 0; 1 background process ended with the command]"
    )
    assert _gone(_await_pid(tmp_path / "pid"))


async def interrupted(desk: Any, folder: Path, command: str, times: int = 1) -> None:
    """Run a command that writes a number into `pid`, and cancel it so often from then on."""
    task = asyncio.create_task(desk.call("bash", command=command))
    await asyncio.to_thread(_await_pid, folder / "pid")
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.matrix
@by_mark
def test_a_cancelled_command_leaves_nothing_in_another_session(desk: Any, tmp_path: Path) -> None:
    asyncio.run(interrupted(desk, tmp_path, f"(setsid sleep 100 & echo $! > {tmp_path}/pid); sleep 100"))
    assert _gone(_await_pid(tmp_path / "pid"))


@by_mark
def test_a_run_within_a_run_carries_the_marks_of_both(tmp_path: Path) -> None:
    outer = {CHILD_MARK: "outermark"}
    argv = ["/bin/sh", "-c", f"echo ${CHILD_MARK}"]
    marks = process.run_process(argv, cwd=tmp_path, env=outer, stop=StopFlag(), seconds=60).output.decode().split()
    assert marks[0] == "outermark"
    assert len(marks) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("delay", sample([0.0, 0.003, 0.01, 0.03, 0.1, 0.3], 3))
async def test_a_cancelled_command_leaves_nothing_running(desk: Any, tmp_path: Path, delay: float) -> None:
    before = process_tree.find_tree(os.getpid())
    command = f"echo $$ > {tmp_path}/pid; sleep 100 & (sleep 100; echo) | cat"

    task = asyncio.create_task(desk.call("bash", command=command))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(12_000):
        # What a process that was there before has started meanwhile is another test's.
        others = {one for root in before if root.pid != os.getpid() for one in process_tree.find_tree(root.pid)}
        if not (left := process_tree.find_tree(os.getpid()) - before - others):
            break
        await asyncio.sleep(0.01)
    assert not left
    with contextlib.suppress(FileNotFoundError, ValueError):
        assert _gone(int((tmp_path / "pid").read_text()))


@pytest.mark.matrix
def test_a_second_cancellation_skips_the_grace(desk: Any, tmp_path: Path) -> None:
    command = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    asyncio.run(interrupted(desk, tmp_path, command, times=2))
    assert _gone(int((tmp_path / "pid").read_text()))


async def test_end_all_kills_what_runs_at_once(desk: Any, tmp_path: Path) -> None:
    # Written by the last process to begin: a shell that still starts some could start one that is not seen yet.
    command = f"sleep 100 | {{ echo $$ > {tmp_path}/pid; exec cat; }}"
    task = asyncio.create_task(desk.call("bash", command=command))
    pid = await asyncio.to_thread(_await_pid, tmp_path / "pid")
    await asyncio.to_thread(_await_known, pid)
    process_tree.kill_all()
    assert str((await task).output) == "[exit status 137]"
    process_tree.kill_all()


def test_memory_stays_bounded_and_what_is_beyond_is_counted(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "BoundedOutput", lambda keep: BoundedOutput(20_000))
    result = desk.run("bash", command="echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("x\nlast\n[exit status 0]")
    assert result.uncounted == 1_000_000 + len("first\n\nlast\n") - 20_000
    assert (
        f"[... {result.uncounted:,} more bytes of output exceeded the size limit and were not kept ...]"
        in result.output
    )


def test_head_and_tail_of_any_pieces_are_exact() -> None:
    data = bytes(i % 251 for i in range(5000))
    for limit in (0, 1, 2, 100, 4999, 5000, 6000):
        for size in (1, 7, 4096, 5000):
            kept = BoundedOutput(limit)
            for start in range(0, len(data), size):
                kept.add(data[start : start + size])
            half = limit // 2
            if 2 * half >= len(data):
                assert (kept.join(), kept.uncounted) == (data, 0)
            else:
                assert kept.join().startswith(data[:half])
                assert kept.join().endswith(data[len(data) - half :])
                assert kept.uncounted == len(data) - 2 * half


@pytest.mark.matrix
def test_output_in_tiny_pieces_takes_no_more_memory_than_in_large_ones() -> None:
    kept = BoundedOutput(40_000)
    tracemalloc.start()
    try:
        for i in range(60_000):
            kept.add(bytes((i % 251, 10)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 120_000
    assert kept.uncounted == 80_000


def test_a_stop_before_the_start_starts_nothing(tmp_path: Path) -> None:
    stop = StopFlag()
    stop.press()
    with pytest.raises(ThreadStopped):
        process.run_process(["touch", "made"], cwd=tmp_path, env={}, stop=stop, seconds=5)
    assert not list(tmp_path.iterdir())


def test_zombies_do_not_count_as_running() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    try:
        for _ in range(500):
            if not process_tree.find_tree(child.pid):
                break
            time.sleep(0.01)
        assert process_tree.find_group(child.pid) == set()
        assert process_tree.find_tree(child.pid) == set()
    finally:
        child.wait()


def test_the_table_of_ps_tells_the_same_as_proc() -> None:
    need("ps")
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        by_ps = process_tree._from_ps()
        assert by_ps[child.pid][1:] == (os.getpid(), child.pid)
        assert (
            process_tree.find_tree(child.pid)
            == {p for p in process_tree.find_tree(child.pid) if p.pid == child.pid}
            != set()
        )
    finally:
        child.kill()
        child.wait()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("data", "output"),
    [
        ("Le café préféré de l'élève\n".encode("cp1252"), "Le café préféré de l'élève\n"),
        (b"a.py\0src/b.py\0", "a.py\u2400src/b.py\u2400\n"),
        ("größer als 1\r\n".encode("utf-16"), "größer als 1\r\n"),
        ("plain words\n".encode("utf-16-le"), "plain words\n"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, "[binary output (a PNG image), 1,032 bytes: not shown"),
        (b"\x7fELF\2\1" + bytes(range(256)), "[binary output, 262 bytes: not shown"),
        (bytes(512) + b"ustar", "[binary output, 517 bytes: not shown"),
        (b"a few words before\n" + random.Random(1).randbytes(5000), "[binary output, 5,019 bytes: not shown"),
    ],
)
def test_output_is_decoded_and_binary_output_is_named(desk: Any, data: bytes, output: str) -> None:
    desk.write("data", data)
    shown = desk.run("bash", command="cat data").output
    assert shown.startswith(output) and shown.endswith("[exit status 0]") and "\ufffd" not in shown
    assert not any("\0" in live for live in desk.live)


@pytest.mark.parametrize("command", ["", " \n"])
def test_an_empty_command_is_an_error(desk: Any, command: str) -> None:
    assert "must not be empty" in desk.run("bash", command=command).error
