"""The warm process without its imports: when it begins, when it ends, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nexus_cli.warm import call, caller, place

SERVE = """
import sys, threading, time
from nexus_cli.warm import server
def prepare():
    if sys.argv[3] == "thread":
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def run(): time.sleep(60)
server.serve(sys.argv[1], float(sys.argv[2]), prepare, run)
"""


@pytest.fixture
def folder() -> Path:
    found = Path(place.own_folders()[1])
    found.mkdir(parents=True, mode=0o700)
    return found


def begin(folder: Path, minutes: float, what: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SERVE, str(folder), str(minutes), what], stderr=subprocess.PIPE)


def listens(folder: Path) -> bool:
    end = time.monotonic() + 20
    while not os.path.exists(place.socket_path(str(folder))) and time.monotonic() < end:
        time.sleep(0.01)
    return os.path.exists(place.socket_path(str(folder)))


def test_it_ends_after_its_idle_time_and_takes_its_socket_with_it(folder: Path) -> None:
    begun = time.monotonic()
    process = begin(folder, 0.01)
    assert listens(folder) and process.wait(20) == 0
    assert time.monotonic() - begun > 0.5 and [path.suffix for path in folder.iterdir()] == [".lock"]


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
    assert process.wait(20) == 0 and not os.path.exists(place.socket_path(str(folder)))
    assert caller.ask_warm_process("status") is None


def test_there_is_one_at_a_time_and_a_killed_one_is_followed(folder: Path) -> None:
    first = begin(folder, 5)
    assert listens(folder)
    assert begin(folder, 5).wait(20) == 0
    assert (caller.ask_warm_process("status") or {})["pid"] == first.pid
    first.kill()
    first.wait(20)
    second = begin(folder, 5)
    end = time.monotonic() + 20
    while (known := caller.ask_warm_process("status")) is None and time.monotonic() < end:
        time.sleep(0.02)
    assert known and known["pid"] == second.pid
    second.terminate()
    assert second.wait(20) == 0


def test_with_a_second_thread_or_in_a_folder_of_others_it_does_not_listen(folder: Path) -> None:
    assert begin(folder, 5, "thread").wait(20) == 0 and not os.path.exists(place.socket_path(str(folder)))
    folder.chmod(0o777)
    assert begin(folder, 5).wait(20) == 0 and not list(folder.glob("*.sock"))


def test_one_that_is_outdated_says_so_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = begin(folder, 5)
    assert listens(folder)
    monkeypatch.setattr(place, "identity", lambda: b"newer")
    connection = caller.connect(str(folder))
    assert caller.request(connection, call.own_call("run", []), [0, 1, 2, 0], 5.0)[1:].decode() == call.OUTDATED
    assert process.wait(20) == 0


def test_a_signal_that_comes_with_the_go_ahead_ends_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "from nexus_cli.warm import place; print(place.interpreter_options(), end='')"
    options = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout
    monkeypatch.setattr(place, "interpreter_options", lambda: options)  # pytest was started with others
    process = begin(folder, 5)
    assert listens(folder)
    streams = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    where = os.open("/", os.O_RDONLY)
    connection = caller.connect(str(folder))
    assert caller.request(connection, call.own_call("run", []), [*streams, where], 5.0) == call.READY
    connection.sendall(call.GO + bytes([signal.SIGTERM]))
    (status,) = call.STATUS.unpack(call.receive_exactly(connection, call.STATUS.size))
    assert os.WTERMSIG(status) == signal.SIGTERM
    for number in (*streams, where):
        os.close(number)
    process.terminate()
    assert process.wait(20) == 0
