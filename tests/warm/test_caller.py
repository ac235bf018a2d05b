"""Everything that makes a run cold: settings, sockets that are stale, silent, foreign or break off."""

from __future__ import annotations

import os
import resource
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexus_cli.warm import call, caller, place


def try_warm(arguments: list[str]) -> str:
    return caller.try_warm(arguments, arguments)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the socket, with settings that ask for a warm process and stdin at a pipe's end."""
    settings, found = place.own_folders()
    Path(settings).parent.mkdir(parents=True)
    Path(settings).write_text("[warm]\nminutes = 10\n")
    Path(found).mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "isatty", lambda number: False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(caller, "_wait", lambda connection: pytest.fail("it was handed over"))
    return Path(found)


@contextmanager
def listening(folder: Path, answer: bytes | None, *, close: bool = True) -> Iterator[list[bytes]]:
    """A socket in `folder` that reads a call and answers so; None: never. Yields what came after the answer."""
    later: list[bytes] = []
    over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.socket_path(str(folder)))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is None:
                    over.wait(120)
                    return
                connection.sendall(call.HERE)
                _, first, second = call.HEAD.unpack(call.receive_exactly(connection, call.HEAD.size))
                call.receive_exactly(connection, first + second)
                connection.sendall(answer)
                later.append(b"" if close else connection.recv(1))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield later
        finally:
            over.set()
            thread.join(120)


def test_without_a_socket_nothing_is_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "connect", lambda path: pytest.fail("it tried to connect"))
    assert try_warm(["ask", "hi"]) == ""


def test_a_stale_socket_is_no_warm_process(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.socket_path(str(folder)))
    assert try_warm(["ask", "hi"]) == caller.NOT_RUNNING


def test_a_file_in_the_place_of_the_socket_is_no_warm_process(folder: Path) -> None:
    Path(place.socket_path(str(folder))).touch()
    assert try_warm(["ask", "hi"]) == caller.NOT_RUNNING


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "hung up"),
        (b"N" + call.OUTDATED.encode(), call.OUTDATED),
        (b"Nthe environment variable X differs", "variable X"),
        (b"nonsense", "onsense"),
    ],
)
def test_any_other_answer_than_ready_makes_the_run_cold(answer: bytes, why: str, folder: Path) -> None:
    with listening(folder, answer):
        assert why in try_warm(["ask", "hi"])


def test_silence_makes_the_run_cold_in_50_ms(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "PATIENCE", 0.05)
    with listening(folder, None):
        assert "did not answer in 50 ms" in try_warm(["ask", "hi"])


def test_a_fork_that_never_says_a_word_makes_the_run_cold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "FORK_PATIENCE", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.socket_path(str(folder)))
        listener.listen()
        held: list[socket.socket] = []

        def say_here() -> None:
            held.append(listener.accept()[0])
            held[0].sendall(call.HERE)

        thread = threading.Thread(target=say_here)
        thread.start()
        assert "did not answer in 100 ms" in try_warm(["ask", "hi"])
        thread.join(120)
        held[0].close()


def test_a_reason_is_a_line_on_stderr_only_with_v(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["ask", "hi"], ["ask", "-v", "hi"], ["ask", "--verbose", "hi"]):
        with listening(folder, b"Nit is busy"):
            try_warm(arguments)
        Path(place.socket_path(str(folder))).unlink()
        lines = capfd.readouterr().err.splitlines()
        assert lines == (["nexus: cold start: it is busy. See nexus warm status."] if len(arguments) == 3 else [])


@pytest.mark.parametrize("how", ["terminal", "background", "mode", "user"])
def test_nothing_is_sent_where_it_must_not_be(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "request", lambda *given: pytest.fail("it was sent"))
    if how in ("terminal", "background"):
        monkeypatch.setattr(os, "isatty", lambda number: True)
        monkeypatch.setattr(os, "tcgetpgrp", lambda number: os.getpgrp() + (how == "background"))
    if how == "mode":
        folder.chmod(0o770)
    if how == "user":
        monkeypatch.setattr(call, "peer_credentials", lambda connection: (1, os.getuid() + 1))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.socket_path(str(folder)))
        listener.listen()
        why = try_warm(["--json"] if how == "terminal" else ["ask", "hi"])
    assert bool(why) is (how in ("mode", "user"))


@pytest.mark.parametrize(
    ("why", "minutes", "imported", "leaves"),
    [
        ("", 10, True, True),
        (caller.NOT_RUNNING, 10, True, True),
        (call.OUTDATED, 10, True, True),
        ("the environment variable X was another one", 10, True, False),
        ("", 0, True, False),
        ("", 10, False, False),
    ],
)
def test_a_process_is_left_only_where_it_is_wanted_and_none_runs(
    why: str, minutes: int, imported: bool, leaves: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(caller, "launch", lambda place, minutes: left.append(minutes))
    monkeypatch.setattr(os, "getpriority", lambda which, who: 0)  # the suite's own may be lowered
    Path(place.own_folders()[0]).write_text(f"[warm]\nminutes = {minutes}\n")
    monkeypatch.setitem(sys.modules, "litellm", None) if imported else monkeypatch.delitem(
        sys.modules, "litellm", raising=False
    )
    caller.leave_warm_process(why, ["ask", "hi"], 0.0)
    assert left == ([minutes] if leaves else [])


def test_a_run_of_lowered_priority_leaves_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    monkeypatch.setattr(caller, "launch", lambda place, minutes: left.append(minutes))
    Path(place.own_folders()[0]).write_text("[warm]\nminutes = 10\n")
    monkeypatch.setitem(sys.modules, "litellm", None)
    for nice in (5, 0):
        monkeypatch.setattr(os, "getpriority", lambda which, who, nice=nice: nice)
        caller.leave_warm_process("", ["ask", "hi"], 0.0)
    assert left == [10]


def test_no_process_is_started_under_limits_that_its_forks_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_spawn", lambda *given, **more: pytest.fail("it was started"))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**32, 2**32))
    assert not caller.launch("folder", 10)


def test_a_warm_process_gets_folder_and_import_path_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It leaves the working folder before it looks for either."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "posix_spawn", lambda path, command, *given, **more: commands.append(command))
    monkeypatch.setattr(sys, "path", ["/odd:name", "/b"])
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.chdir(tmp_path)
    assert caller.launch("relative/warm", 10)
    assert commands[0][4:] == [str(tmp_path / "relative" / "warm"), "10", "/odd:name", "/b"]


def test_a_system_that_starts_no_session_starts_it_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[bool] = []

    def spawn(*given: object, setsid: bool = False, **more: object) -> None:
        tries.append(setsid)
        if setsid:
            raise NotImplementedError("setsid")

    monkeypatch.setattr(os, "posix_spawn", spawn)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert caller.launch("folder", 10) and tries == [True, False]


def test_a_full_process_table_is_no_error_of_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **more: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setitem(sys.modules, "litellm", None)
    monkeypatch.setattr(os, "posix_spawn", fail)
    caller.leave_warm_process("", ["ask", "hi"], 0.0)


def test_a_megabyte_of_environment_arrives_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(16):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 65_536)
    with listening(folder, call.READY, close=False) as later, pytest.raises(pytest.fail.Exception):
        try_warm(["ask", "hi"])
    assert later == [call.GO]


def test_a_call_has_all_that_a_process_inherits(monkeypatch: pytest.MonkeyPatch) -> None:
    os.environb[b"ODD_\xff"] = b"\xfe value"
    try:
        made = call.own_call("run", ["ask", "\udcff"])
    finally:
        del os.environb[b"ODD_\xff"]
    assert made["environment"][b"ODD_\xff"] == b"\xfe value" and made["arguments"][-1] == b"\xff"
    assert {"umask", "nice", "limits", "ignored", "blocked", "path", "options"} <= made.keys()
    data = call.encode_call(made, b"who")
    magic, first, second = call.HEAD.unpack(data[: call.HEAD.size])
    assert (magic, first, second) == (call.MAGIC, 3, len(data) - call.HEAD.size - 3)


def test_the_peer_is_known_by_the_kernel() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid, uid = call.peer_credentials(ours)
    assert uid == os.getuid() and pid in (0, os.getpid()) and struct.calcsize("3i") == 12


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "LITELLM_MASTER_KEY", "LITELLM_TOKEN", "SSL_PASSWORD", "PATH"])
def test_a_warm_process_is_started_without_keys(name: str) -> None:
    assert not call.is_read_at_start(name)


@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "LITELLM_LOG", "TIKTOKEN_CACHE_DIR"]
)
def test_it_is_started_with_what_may_be_read_before_a_run(name: str) -> None:
    assert call.is_read_at_start(name)
