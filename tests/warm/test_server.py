"""The warm process without its imports: when it begins, when it ends, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.cli import warm
from nexus_cli.warm import call, caller, place

SERVE = """
import os, signal, sys, threading, time
from nexus_cli.warm import server
what = sys.argv[3]
def prepare():
    if what == "thread":
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if what == "slow":
        open(os.path.join(sys.argv[1], "imported"), "w").close()
        time.sleep(1)
def take_in_hand():
    if what == "handler":
        time.sleep(0.2)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
def run(): time.sleep(60)
own, fork = os.getpid(), os.fork
def fork_once():
    if os.getpid() != own:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
if what == "full":
    os.fork = fork_once
server.serve(sys.argv[1], float(sys.argv[2]), prepare, take_in_hand, run)
"""


@pytest.fixture
def folder() -> Path:
    found = Path(place.own_folders()[1])
    found.mkdir(parents=True, mode=0o700)
    return found


def begin(folder: Path, minutes: float, what: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SERVE, str(folder), str(minutes), what], stderr=subprocess.PIPE)


def listens(folder: Path) -> bool:
    end = time.monotonic() + 120
    while not os.path.exists(place.socket_path(str(folder))) and time.monotonic() < end:
        time.sleep(0.01)
    return os.path.exists(place.socket_path(str(folder)))


def test_it_ends_after_its_idle_time_and_takes_its_socket_with_it(folder: Path) -> None:
    begun = time.monotonic()
    process = begin(folder, 0.05)
    assert listens(folder) and process.wait(120) == 0
    assert time.monotonic() - begun > 2.5 and [path.suffix for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
def test_it_ends_when_it_is_told_to(how: str, folder: Path) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    assert os.stat(place.socket_path(str(folder))).st_mode & 0o777 == 0o600
    known = caller.ask_warm_process("status")
    assert known and (known["minutes"], known["calls"]) == (5, 0) and known["pid"] == process.pid
    if how == "stop":
        assert caller.ask_warm_process("stop")
    else:
        process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0 and not os.path.exists(place.socket_path(str(folder)))
    assert caller.ask_warm_process("status") is None


def test_there_is_one_at_a_time_and_a_killed_one_is_followed(folder: Path) -> None:
    first = begin(folder, 5)
    assert listens(folder)
    assert begin(folder, 5).wait(120) == 0
    assert (caller.ask_warm_process("status") or {})["pid"] == first.pid
    first.kill()
    first.wait(120)
    second = begin(folder, 5)
    end = time.monotonic() + 120
    while (known := caller.ask_warm_process("status")) is None and time.monotonic() < end:
        time.sleep(0.02)
    assert known and known["pid"] == second.pid
    second.terminate()
    assert second.wait(120) == 0


def test_with_a_second_thread_or_in_a_folder_of_others_it_does_not_listen(folder: Path) -> None:
    assert begin(folder, 5, "thread").wait(120) == 0 and not os.path.exists(place.socket_path(str(folder)))
    folder.chmod(0o777)
    assert begin(folder, 5).wait(120) == 0 and not list(folder.glob("*.sock"))


def test_one_that_is_outdated_says_so_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    monkeypatch.setattr(place, "identity", lambda: b"newer")
    connection = caller.connect(str(folder))
    assert caller.request(connection, call.own_call("run", []), [0, 1, 2, 0], 300.0)[1:].decode() == call.OUTDATED
    assert process.wait(120) == 0


@pytest.fixture
def descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Streams and folder of a caller whose interpreter is like that of the warm process."""
    asked = "from nexus_cli.warm import place; print(place.interpreter_options(), end='')"
    options = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout
    monkeypatch.setattr(place, "interpreter_options", lambda: options)  # pytest was started with others
    made = [*(os.open(os.devnull, os.O_RDWR) for _ in range(3)), os.open("/", os.O_RDONLY)]
    yield made
    for number in made:
        os.close(number)


def answered(folder: Path, descriptors: list[int], **changes: Any) -> tuple[Any, bytes]:
    """The connection of a call, and what it was answered before the go-ahead."""
    connection = caller.connect(str(folder))
    return connection, caller.request(connection, call.own_call("run", []) | changes, descriptors, 300.0)


@pytest.mark.parametrize(("what", "status"), [("", signal.SIGTERM), ("handler", 143 << 8)])
def test_a_signal_that_comes_with_the_go_ahead_ends_the_run_as_the_program_does(
    what: str, status: int, folder: Path, descriptors: list[int]
) -> None:
    process = begin(folder, 5, what)
    assert listens(folder)
    connection, answer = answered(folder, descriptors)
    assert answer == call.READY
    connection.sendall(call.GO + bytes([signal.SIGTERM]))
    assert call.STATUS.unpack(call.receive_exactly(connection, call.STATUS.size)) == (status,)
    process.terminate()
    assert process.wait(120) == 0


def test_without_a_process_for_the_run_the_caller_hears_of_it_before_the_go_ahead(
    folder: Path, descriptors: list[int]
) -> None:
    process = begin(folder, 5, "full")
    assert listens(folder)
    assert answered(folder, descriptors)[1] != call.READY
    process.terminate()
    assert process.wait(120) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="processors are known on Linux alone")
def test_a_run_that_cannot_be_made_like_its_caller_is_refused(folder: Path, descriptors: list[int]) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    _, answer = answered(folder, descriptors, scheduling=([1_000], 0, 0))
    assert answer[:1] == call.REFUSED and b"like the caller" in answer
    process.terminate()
    assert process.wait(120) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_run_whose_supervisor_was_killed_ends(folder: Path, descriptors: list[int]) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    connection, answer = answered(folder, descriptors)
    assert answer == call.READY
    connection.sendall(call.GO)
    (supervisor,) = children(process.pid)
    (run,) = children(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    assert connection.recv(1) == b""
    end = time.monotonic() + 120
    while is_running(run) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(run)
    process.terminate()
    assert process.wait(120) == 0


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_socket_appears_when_everything_is_imported(folder: Path) -> None:
    process = begin(folder, 5, "slow")
    end = time.monotonic() + 120
    while not (folder / "imported").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert [path.suffix for path in folder.iterdir() if path.is_socket()] == [".new"]
    assert listens(folder) and not list(folder.glob("*.new"))
    assert caller.ask_warm_process("stop") and process.wait(120) == 0


def test_nothing_is_imported_where_no_socket_can_be_bound(folder: Path) -> None:
    (folder / f"{place.socket_name()}.new").mkdir()
    assert begin(folder, 5, "slow").wait(120) != 0 and not (folder / "imported").exists()


def test_a_lock_that_leads_elsewhere_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / f"{place.socket_name()}.lock").symlink_to(tmp_path / "elsewhere")
    assert begin(folder, 5, "slow").wait(120) != 0 and not (tmp_path / "elsewhere").exists()


def test_the_commands_know_one_that_is_outdated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    monkeypatch.setattr(place, "identity", lambda: b"newer")
    assert warm.stop() == 0 and process.wait(120) == 0
    assert warm.stop() == 0
    assert capfd.readouterr().out.splitlines() == ["The warm process has ended.", "No warm process is running."]


def test_start_asks_before_it_launches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outdated process ends when it is asked; while it runs, no other can begin."""
    settings = Path(place.own_folders()[0])
    settings.parent.mkdir(parents=True)
    settings.write_text("[warm]\nminutes = 5\n")
    process = begin(folder, 5)
    assert listens(folder)
    monkeypatch.setattr(caller, "launch", lambda *given: pytest.fail("a second one was started"))
    assert warm.start() == 0
    process.terminate()
    assert process.wait(120) == 0
