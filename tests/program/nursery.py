"""Children of the program, cheaply: one interpreter imports it once, with the model library, then forks every run.

A run is a process of its own, with its own descriptors, folder, environment and arguments, that begins in the program's
entry point. The script, the start of the interpreter and the imports are not in it: tests of these start the
installed script. Run as a program this module is the interpreter that forks; `born` is the other end.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ENGINES = ("run_turn", "run_repl", "tour", "consolidate")
"""Modules that bring the engine along."""
FIRST_REQUEST = (
    "anyio._backends._asyncio",
    "httpcore",
    "litellm._service_logger",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.resources",
)
"""Modules that the model library imports with its first request: a fifth of a second in each run."""
REGISTRIES = ("nexus_cli.tools.builtin", "nexus_cli.context.sections.contributors")
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL


class Child:
    """A forked run; the part of `subprocess.Popen` that the tests use."""

    def __init__(self, channel: socket.socket, streams: list[IO[bytes] | None]) -> None:
        self._channel = channel
        self._lines = b""
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: Any = None
        self.pid = self._line(60.0)

    def _line(self, timeout: float | None) -> int:
        """The next number that comes from the other end; `subprocess.TimeoutExpired` when none comes in time."""
        self._channel.settimeout(timeout)
        while b"\n" not in self._lines:
            try:
                piece = self._channel.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("nexus", timeout or 0.0) from None
            assert piece, "the process that forks has ended"
            self._lines += piece
        line, _, self._lines = self._lines.partition(b"\n")
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative for a signal."""
        if self.returncode is None:
            self.returncode = self._line(timeout)
            self._channel.close()
        return int(self.returncode)

    def poll(self) -> int | None:
        """The same if it has ended, else None."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write `given` to its stdin, read its streams to their ends and wait; the timeout is for each silence."""
        feeder = threading.Thread(target=self._feed, args=(given or b"",), daemon=True)
        feeder.start()
        read = {stream: bytearray() for stream in (self.stdout, self.stderr) if stream}
        with selectors.DefaultSelector() as ready:
            for stream in read:
                ready.register(stream, selectors.EVENT_READ)
            while ready.get_map():
                events = ready.select(timeout)
                if not events:
                    raise subprocess.TimeoutExpired("nexus", timeout or 0.0)
                for key, _ in events:
                    piece = os.read(key.fd, 1 << 20)
                    if piece:
                        read[key.fileobj] += piece  # type: ignore[index]
                    else:
                        ready.unregister(key.fileobj)
        feeder.join(timeout)
        self.wait(timeout)
        stdout, stderr = (bytes(read[stream]) if stream else b"" for stream in (self.stdout, self.stderr))
        return stdout, stderr

    def _feed(self, given: bytes) -> None:
        if self.stdin:
            try:
                self.stdin.write(given)
                self.stdin.close()
            except BrokenPipeError:
                pass


@cache
def _nursery(kind: str) -> tuple[socket.socket, threading.Lock]:
    """The control socket of the process that forks, started when it is first needed."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, __file__, kind, str(theirs.fileno())],
        stdin=DEVNULL, stdout=DEVNULL, pass_fds=[theirs.fileno()],
    )  # fmt: skip
    theirs.close()

    def close() -> None:
        ours.close()
        process.wait(20)

    atexit.register(close)
    return ours, threading.Lock()


def born(
    arguments: list[str], *, cwd: Path, env: dict[str, str], code: str = "", kind: str = "whole", **streams: Any
) -> Child:
    """A run of the program that has just begun; `code` is run in it first. Streams are PIPE, DEVNULL or descriptors.

    With the kind `light` the engine and the model library are not imported yet.
    """
    control, lock = _nursery(kind)
    theirs: list[int] = []
    ours: list[IO[bytes] | None] = []
    for name, mode in (("stdin", "wb"), ("stdout", "rb"), ("stderr", "rb")):
        given = streams.get(name, DEVNULL)
        if given == PIPE:
            read, write = os.pipe()
            mine, other = (write, read) if name == "stdin" else (read, write)
            ours.append(os.fdopen(mine, mode, buffering=-1 if name == "stdin" else 0))
        else:
            other = os.open(os.devnull, os.O_RDWR) if given == DEVNULL else os.dup(given)
            ours.append(None)
        theirs.append(other)
    channel, far = socket.socketpair()
    with lock:
        socket.send_fds(control, [b"+"], [*theirs, far.fileno()])
    far.close()
    for descriptor in theirs:
        os.close(descriptor)
    job = {"arguments": arguments, "cwd": str(cwd), "env": env, "code": code, "session": bool(streams.get("session"))}
    channel.sendall(json.dumps(job).encode() + b"\n")
    return Child(channel, ours)


def main(kind: str, control: socket.socket) -> None:
    """Import everything, then fork a supervisor for each run that is asked for, until the other end closes."""
    for name in modules_in("nexus_cli.cli"):
        if kind == "whole" or not name.endswith(ENGINES):
            importlib.import_module(name)
    if kind == "whole":
        warm()
    signal.signal(signal.SIGCHLD, collect)
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not word:
            return
        if os.fork() == 0:
            control.close()
            supervise(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def warm() -> None:
    """Import what a run with a request would import, so that its forks need not."""
    from nexus_cli.context.tokens import counter
    from nexus_cli.provider.litellm_backend import litellm

    litellm()
    counter._load("o200k_base")
    for name in (*FIRST_REQUEST, *(name for package in REGISTRIES for name in modules_in(package))):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page of this process


def modules_in(package: str) -> list[str]:
    """Return the full names of the modules of a package."""
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.iter_modules(path, f"{package}.")]


def collect(*_: Any) -> None:
    """Collect the supervisors that have ended; so what the runs cost counts as ours."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def supervise(stdin: int, stdout: int, stderr: int, number: int) -> NoReturn:
    """Fork one run, tell its pid and, when it has ended, its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = socket.socket(fileno=number)
    with channel.makefile("rb") as lines:
        job = json.loads(lines.readline())
    pid = os.fork()
    if pid == 0:
        channel.close()
        live(job, (stdin, stdout, stderr))
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    try:
        channel.sendall(b"%d\n" % pid)
        channel.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    finally:
        os._exit(0)


def live(job: dict[str, Any], streams: tuple[int, int, int]) -> NoReturn:
    """Be the program, once."""
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if job["session"]:
            os.setsid()
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        random.seed()
        sys.argv = ["nexus", *job["arguments"]]
        import nexus_cli.__main__ as program

        exec(job["code"], {"program": program})
        program.main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(97)


if __name__ == "__main__":
    main(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
