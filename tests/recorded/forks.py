"""Runs of the program, each forked from a process that has imported what a run of it imports.

Which modules these are is seen in a first run, so nothing here names a part of the program: it is known by its entry
point alone. A run has its own folder, environment, descriptors and clock (`machine.c`). Run as a program this module is
the process that forks; `Forks` is the other end.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import entry_points
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

if __name__ == "__main__":  # started as a file, its folder is on the path instead of the one above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from server.play import ScriptedServer
from terminal.leader import lead

HERE = Path(__file__).resolve().parent
SECONDS = 600.0
"""After so long a run that was waited for is ended."""
OFFLINE = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
"""The library is imported in the process that forks as the program imports it: with nothing fetched or printed."""


class Run:
    """A run that has begun."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._read = b""
        self._status: int | None = None
        self.seconds = 0.0
        """CPU seconds of it and of what it started, once it has ended."""
        self.pid = self._number(SECONDS)

    def _number(self, timeout: float | None) -> int:
        self._channel.settimeout(timeout)
        while b"\n" not in self._read:
            try:
                piece = self._channel.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("nexus", timeout or 0.0) from None
            assert piece, "the process that forks has ended"
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return int(line)

    def wait(self, timeout: float | None = SECONDS) -> int:
        """Return the exit status, negative for a signal; raise `subprocess.TimeoutExpired` if it goes on so long."""
        if self._status is None:
            self._status = self._number(timeout)
            self.seconds = self._number(SECONDS) / 1000
            self._channel.close()
        return self._status

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Starts(Protocol):
    """Starts runs of the program."""

    def start(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str], clock: Path, streams: Sequence[int], **more: Any
    ) -> Run:
        """Begin a run; `streams` are its stdin, stdout and stderr. With `terminal=True` they are its terminal."""
        ...


class Forks:
    """The process that forks, and the library that it loads. Use it in a `with`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="nexus-forks-")))
        self.library = build_library(self._folder)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "forks.py"), str(theirs.fileno()), str(self._folder)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **OFFLINE, "LD_PRELOAD": str(self.library)},
            )
        self._stack.callback(self._process.wait, 120)
        self._stack.callback(self._ours.close)

    def start(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str], clock: Path, streams: Sequence[int], **more: Any
    ) -> Run:
        """Begin a run; `streams` are its stdin, stdout and stderr. With `terminal=True` they are its terminal."""
        ours, theirs = socket.socketpair()
        job = {"arguments": [*arguments], "cwd": str(cwd), "env": env, "clock": str(clock), **more}
        with theirs:
            socket.send_fds(self._ours, [json.dumps(job).encode()], [*streams, theirs.fileno()])
        return Run(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def build_library(folder: Path) -> Path:
    """Compile `machine.c` into `folder`; return the library."""
    library = folder / "machine.so"
    words: list[str | Path] = ["-shared", "-fPIC", "-O1", HERE / "machine.c", "-o", library, "-ldl", "-lm"]
    subprocess.run(["cc", *words], check=True)
    return library


# -- the process that forks


def main(control: socket.socket, folder: Path) -> None:
    """Import what a run imports, then fork a run for each job, until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever attends a run waits for it
    program: Callable[[], Any] = next(iter(entry_points(group="console_scripts", name="nexus"))).load()
    for name in modules_of_a_first_run(program, folder):
        with suppress(Exception):  # one that only its own package can import
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        words, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
        if not words:
            return
        if os.fork() == 0:
            control.close()
            attend(program, json.loads(words), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def modules_of_a_first_run(program: Callable[[], Any], folder: Path) -> list[str]:
    """Return the names of the modules that a session of one turn in a terminal has imported at its end."""
    seen = folder / "modules"
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    with ScriptedServer() as server:
        env = {"HOME": str(folder), "NEXUS_HOME": str(folder / "nexus"), "OPENAI_API_BASE": server.base("chat")}
        env |= {"NEXUS_MODEL": "openai/first", "OPENAI_API_KEY": "x", "CI": "true", "TERM": "dumb"}
        job = {"arguments": [], "cwd": str(folder), "env": {**env, "PATH": os.environ["PATH"]}, "clock": ""}
        if (pid := os.fork()) == 0:
            end = os._exit

            def leave(status: int) -> NoReturn:
                seen.with_suffix(".new").write_text("\n".join(sys.modules))
                seen.with_suffix(".new").rename(seen)
                end(status)

            vars(os)["_exit"] = leave
            be(program, job | {"terminal": True}, [slave, slave, slave])
        os.write(master, b"hello\r")
        deadline, left = time.monotonic() + SECONDS, False
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
            with suppress(OSError):
                os.read(master, 1 << 16)
            if not left and server.requests and server.requests[0].done:
                left = os.write(master, b"exit\r") > 0
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(slave)
    os.close(master)
    return seen.read_text().split()


def attend(program: Callable[[], Any], job: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Fork the run, tell its pid and, when it has ended, its status."""
    *streams, told = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(told)
        be(program, job, streams)
    for descriptor in streams:
        os.close(descriptor)
    with suppress(OSError):
        os.write(told, b"%d\n" % pid)
    _, status, used = os.wait4(pid, 0)
    milliseconds = int(1000 * (used.ru_utime + used.ru_stime))
    with suppress(OSError):
        os.write(told, b"%d\n%d\n" % (os.waitstatus_to_exitcode(status), milliseconds))
    os._exit(0)


def be(program: Callable[[], Any], job: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the program, once."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        os.setsid()
        if job.get("terminal"):
            lead()
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        time.tzset()
        tempfile.tempdir = None
        if job["clock"]:
            ctypes.CDLL(None).recorded_clock(os.fsencode(job["clock"]))
        sys.argv = ["nexus", *job["arguments"]]
        program()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(97)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
