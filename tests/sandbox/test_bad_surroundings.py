"""Odd projects, odd command lines and a system that has nothing left: one clear line, and never fewer walls."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from programs import why_no_bwrap
from search import sample, variant
from session.played import MODEL, Played, say

from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.core.event import Notice, ToolResultEvent
from nexus_cli.sandbox import command_guard
from nexus_cli.sandbox.landlock import landlock_abi
from nexus_cli.sandbox.restricted_thread import RestrictedThread
from nexus_cli.sandbox.visible_places import hidden_in_tools
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

EVIL = '#!/bin/sh\ntouch "$0.ran"\nexec "$@"\n'


@pytest.fixture(params=["bwrap", variant("landlock")])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "bwrap" and (why := why_no_bwrap()):
        pytest.skip(why)
    if request.param == "landlock" and not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    return str(request.param)


def run(folder: Path, backend: str, *commands: str, allow: str = "auto", calls: Any = None) -> tuple[list[str], str]:
    """Run commands in a session in `folder`; return the results and the notices."""
    asked = calls or [("bash", {"command": command, "timeout": 20}) for command in commands]
    played = Played(lambda request: "done" if any(m["role"] == "tool" for m in request.messages) else asked)
    settings = Settings(models={MODEL: {"window": 400_000}}, sandbox=SandboxSettings(backend=backend))
    options = Options(folder, MODEL, allow=allow, save=False)
    events, _ = say(open_session(options, settings, approver=None, provider=played), "go")
    results = [one.result for one in events if isinstance(one, ToolResultEvent)]
    notices = "\n".join(one.text for one in events if isinstance(one, Notice))
    return [f"{one.text}{one.error}" for one in results], notices


ODD_LINES = {
    "a megabyte": ("echo " + "a" * 1_000_000, "Argument list too long"),
    "a NUL": ("echo a\0b; touch made", "hidden character (U+0000)"),
    "an escape": ("echo \x1b[31m; touch made", "hidden character (U+001B)"),
    "a bidi sign": ("echo \u202e; touch made", "hidden character (U+202E"),
    "half a string": ('touch made "x', "unexpected EOF"),
    "ten thousand parts": ("true x; " * 10_000, "exit status 0"),
    "deep nesting": ("(" * 20_000, "unexpected EOF"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(ODD_LINES, 3))
def test_an_odd_line_is_refused_or_fails_as_bash_says(tmp_path: Path, name: str) -> None:
    line, expected = ODD_LINES[name]
    (result,), _ = run(tmp_path, "auto", line)
    assert expected in result and not (tmp_path / "made").exists()
    (result,), _ = run(tmp_path, "auto", line, allow="ask")
    assert "not permitted" in result and not (tmp_path / "made").exists()


@pytest.mark.matrix
def test_a_project_with_pipes_and_sockets_holds_nothing_up(tmp_path: Path, backend: str) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    for name in (".envrc", "NEXUS.md", ".git/config", ".git/hooks/pre-commit", "pipe"):
        os.mkfifo(tmp_path / name)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / ".mcp.json"))
        calls = [
            ("bash", {"command": "echo x > made && rm -f .envrc; ls", "timeout": 20}),
            ("read_file", {"path": "pipe"}),
            ("write_file", {"path": "pipe", "content": "x"}),
            ("grep", {"pattern": "x"}),
        ]
        results, _ = run(tmp_path, backend, calls=calls)
    assert (tmp_path / "made").exists() and "exit status 0" in results[0]
    assert all("FIFO" in result for result in results[1:3])


@pytest.mark.matrix
def test_a_project_that_is_the_home_folder_is_read_and_says_so(_isolated: Path, backend: str) -> None:
    results, _ = run(_isolated, backend, "echo x > made; ls -a")
    assert "commands cannot write in" in results[0] and not (_isolated / "made").exists()


@pytest.mark.matrix
def test_a_project_that_is_the_whole_system_is_read_in_walls(tmp_path: Path, backend: str) -> None:
    results, notices = run(Path("/"), backend, f"echo x > {tmp_path}/made; echo here")
    assert "here" in results[0] and "cannot write in /" in results[0] and "sandbox" not in str(notices)
    assert not (tmp_path / "made").exists()


@pytest.mark.matrix
def test_a_command_that_empties_its_own_folder_does_not_remove_it(tmp_path: Path, backend: str) -> None:
    (tmp_path / "a").write_text("x")
    first, second = run(tmp_path, backend, f"rm -rf {tmp_path}; rm -rf {tmp_path}/*", "touch b && ls")[0]
    assert "cannot remove" in first and second.startswith("b\n")


@pytest.mark.matrix
def test_programs_of_the_project_are_not_run_in_the_place_of_the_systems(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bwrap", "sh", "bash", "git"):
        (tmp_path / name).write_text(EVIL)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((".", str(tmp_path), os.environ["PATH"])))
    results, notices = run(tmp_path, backend, "echo x > made; grep Seccomp: /proc/self/status")
    assert "Seccomp:\t2" in results[0] and "sandbox" not in notices.lower()
    assert not list(tmp_path.glob("*.ran"))


def test_where_no_thread_can_be_started_no_command_is(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == "sandbox":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    results, _ = run(tmp_path, backend, "touch made")
    assert (tmp_path / "made").exists() is (backend == "bwrap")
    assert backend == "bwrap" or "no sandbox" in results[0]
    with pytest.raises(OSError, match="new thread"):
        RestrictedThread(lambda: None)


def test_a_call_that_a_signal_ends_leaves_no_answer_to_the_next_one() -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupt() -> str:
        signal.pthread_kill(main, signal.SIGUSR1)
        assert is_ended.wait(60)
        return "first"

    main, is_ended, thread = threading.get_ident(), threading.Event(), RestrictedThread(lambda: None)
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.call(interrupt)
        is_ended.set()
        assert thread.call(lambda: "second") == "second"
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.end()


def test_having_no_process_left_is_no_bug_of_ours() -> None:
    told = report_bug(RuntimeError("can't start new thread"))
    assert "ulimit -u" in told.hint and "bug" not in str(told) and not (places().log / "nexus.log").exists()


@pytest.mark.parametrize("problem", ["a file is in its place", "the disk is full", "another holds it"])
def test_where_nothing_can_be_noted_a_command_says_which_folder_and_what_to_do(
    tmp_path: Path, backend: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = places().data / "guarded"
    hint = "Check the permissions"
    if problem == "a file is in its place":
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("")
    elif problem == "the disk is full":

        def fill(path: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(command_guard, "replace_private_file", fill)
        hint = "Free some space"
    else:
        monkeypatch.setattr(command_guard, "_PATIENCE", 0.0)
        held = FileLock.take(folder / "lock")
        hint = "Try again later"
        assert held is not None
    (result,), notices = run(tmp_path, backend, "touch made")
    for text in (result, notices):
        assert f"nexus cannot write {folder}: " in text and hint in text
    assert not (tmp_path / "made").exists()


def test_a_shown_place_that_cannot_be_looked_at_hides_nothing(tmp_path: Path) -> None:
    unseen = tmp_path / ("x" * 300)  # as without permission, which root never lacks
    assert hidden_in_tools([unseen], []) == ()
