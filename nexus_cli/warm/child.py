"""The fork's side of a call: a supervisor that reads the call and forks the run; the run, made like a cold process.

The supervisor passes signals on, ends the run when the caller dies, and tells the caller how it ended; all of that
without the warm process.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TextIO

from nexus_cli.warm import call as form
from nexus_cli.warm import place

NOT_KEPT = frozenset({"HOME", "USERPROFILE"})
"""Read during the imports, but only for a folder of the user's packages, in which nothing looks after the start."""
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
CONFINEMENT = ("Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
"""Lines of /proc/PID/status that confine a process."""
SECONDS = 5.0
"""Seconds after which a call that has not arrived whole is given up."""
PR_SET_PDEATHSIG = 1
"""Of Linux: the signal that a process gets when its parent dies."""


@dataclass
class World:
    """The state of a warm process: what it started with, and how often it was called."""

    identity: bytes
    environment: dict[str, str]
    """At its start."""
    minutes: float
    take_in_hand: Callable[[], None]
    """First step of the program, before a signal may reach it."""
    run: Callable[[], NoReturn]
    """The program, in the process that the call describes."""
    names: frozenset[str] | None = None
    """Names of the variables that were read during the imports; None: all of them."""
    pid: int = field(default_factory=os.getpid)
    begun: int = -1
    """The descriptor of a pipe that takes one byte for each run that begins."""
    calls: int = 0
    """Runs so far."""
    since: float = field(default_factory=time.monotonic)
    import_seconds: float = 0.0
    """Processor time of the imports, which no run repeats."""

    def end(self) -> None:
        """End the warm process; to be called in a fork of it."""
        if os.getppid() == self.pid:
            os.kill(self.pid, signal.SIGTERM)


def close_all_but(kept: tuple[int, ...]) -> None:
    """Close every descriptor of this process that is not kept."""
    most = os.sysconf("SC_OPEN_MAX")
    start = 0
    for number in sorted(kept):
        os.closerange(start, number)
        start = number + 1
    os.closerange(start, max(most, 1 << 16) if most < 1 << 20 else 1 << 20)


def open_null_streams() -> None:
    """Make /dev/null the three streams; their numbers are free."""
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.set_inheritable(number, True)


def supervise(connection: socket.socket, world: World) -> NoReturn:
    """Read a call in this fork, answer it, run it, report its end."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.settimeout(SECONDS)
        identity, body, descriptors = _receive(connection)
        if identity != world.identity:
            connection.sendall(form.REFUSED + form.OUTDATED.encode())
            world.end()
            os._exit(0)
        call = marshal.loads(body)
        if call["kind"] != "run":
            _answer(connection, call["kind"], world)
        if problem := find_problem(call, world, form.peer_credentials(connection)[0]):
            connection.sendall(form.REFUSED + problem.encode("utf-8", "replace"))
            os._exit(0)
        _run(connection, call, descriptors, world)
    except BaseException:  # the caller hung up or sent nonsense: nothing has been run
        pass
    os._exit(0)


def _receive(connection: socket.socket) -> tuple[bytes, bytes, list[int]]:
    """Return identity, call and descriptors."""
    data, ancillary, _, _ = connection.recvmsg(form.HEAD.size, socket.CMSG_SPACE(4 * array("i").itemsize))
    descriptors = array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    data += form.receive_exactly(connection, form.HEAD.size - len(data))
    magic, first, second = form.HEAD.unpack(data)
    if magic != form.MAGIC or first + second > form.MOST:
        raise ValueError("not a call")
    return form.receive_exactly(connection, first), form.receive_exactly(connection, second), list(descriptors)


def _answer(connection: socket.socket, kind: str, world: World) -> NoReturn:
    """Answer a question about the warm process, or end it."""
    seconds = time.monotonic() - world.since
    known = {"pid": world.pid, "minutes": world.minutes, "calls": world.calls, "seconds": seconds}
    known["saved"] = world.calls * world.import_seconds
    if kind == "stop":
        world.end()
    connection.sendall(form.KNOWN + marshal.dumps(known))
    os._exit(0)


def find_problem(call: dict[str, Any], world: World, peer: int) -> str:
    """Return the first difference between a fork of the warm process and the caller's process, "" if there is none."""
    if name := _other_variable(call["environment"], world):
        return f"the environment variable {name} was another one when the warm process started"
    if call["options"] != place.interpreter_options():
        return "the interpreter was started with other options"
    if call["nice"] < os.getpriority(os.PRIO_PROCESS, 0):
        return "the warm process runs at a lower priority"
    for name, (_, hard) in call["limits"].items():
        own = resource.getrlimit(getattr(resource, name))[1]
        if own != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or hard > own):
            return f"the warm process has a lower limit {name}"
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        if name in call["limits"] and call["limits"][name][0] != resource.RLIM_INFINITY:
            return f"{name} is limited"
    # The system knows no number for a caller outside of our namespace of processes.
    if sys.platform == "linux" and (not peer or _confinement(peer) != _confinement(os.getpid())):
        return "it would leave the caller's namespaces, groups or privileges"
    return ""


def _other_variable(environment: dict[bytes, bytes], world: World) -> str:
    """Return the name of a variable that the imports depend on and that differs, or ""."""
    theirs = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    own = world.environment
    for name in sorted((theirs.keys() | own.keys()) - NOT_KEPT):
        counts = world.names is None or name in world.names or form.is_read_at_start(name)
        if counts and theirs.get(name) != own.get(name):
            return name
    return ""


def _confinement(pid: int) -> tuple[object, ...]:
    """Return the restrictions of a process, as the kernel reports them."""
    folder = f"/proc/{pid}/ns"
    namespaces = [
        (name, os.stat(f"{folder}/{name}").st_ino) for name in NAMESPACES if os.path.exists(f"{folder}/{name}")
    ]
    root = os.stat(f"/proc/{pid}/root")
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        lines = [line for line in file if line.partition(":")[0] in CONFINEMENT]
    return namespaces, root.st_dev, root.st_ino, lines, _label(pid)


def _label(pid: int) -> bytes:
    """Return the AppArmor or SELinux label of a process, b"" if neither is active."""
    try:
        with open(f"/proc/{pid}/attr/current", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _run(connection: socket.socket, call: dict[str, Any], descriptors: list[int], world: World) -> NoReturn:
    """Fork the run, which waits for GO; then pass signals on and tell the caller how it ended."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    begun, started = os.pipe()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # none is lost until the run is itself
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        _become(connection, call, [*descriptors, started], world)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    close_all_but((connection.fileno(), read, write, begun, world.begun))
    if not os.read(begun, 1):
        os._exit(0)  # the caller was told why, or has left
    os.write(world.begun, b"+")
    connection.settimeout(None)
    waiting = select.poll()
    waiting.register(read, select.POLLIN)
    waiting.register(connection, select.POLLIN)
    while True:
        for number, _ in waiting.poll():
            if number == read:
                os.read(read, 4096)
            elif not _pass_on(connection, pid):
                waiting.unregister(connection)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            connection.sendall(form.STATUS.pack(status))
            os._exit(0)


def _pass_on(connection: socket.socket, pid: int) -> bool:
    """Send the caller's signals to the run; return False if the caller has died, and end the run."""
    try:
        numbers = connection.recv(64)
    except OSError:
        numbers = b""
    for number in numbers or (signal.SIGCONT, signal.SIGTERM):
        # The run leads a session without a terminal, where SIGTSTP has no effect.
        os.kill(pid, signal.SIGSTOP if number == signal.SIGTSTP else number)
    return bool(numbers)


def _become(connection: socket.socket, call: dict[str, Any], descriptors: list[int], world: World) -> NoReturn:
    """Be the process that the caller would have been, from GO on. The last descriptor takes a byte at GO."""
    begun = False
    try:
        parent = os.getppid()
        os.setsid()
        high = [fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in (*descriptors, connection.fileno())]
        caller = socket.socket(fileno=high[5])
        caller.settimeout(SECONDS)
        close_all_but(tuple(high))
        for number, descriptor in enumerate(high[:3]):
            os.dup2(descriptor, number)
        os.fchdir(high[3])
        try:
            _take_over(call)
        except (OSError, ValueError) as error:
            caller.sendall(form.REFUSED + f"a fork cannot be made like the caller ({error})".encode())
            os._exit(0)
        if sys.platform == "linux":  # a run that nobody watches would go on without its caller
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        caller.sendall(form.READY)
        if caller.recv(1) != form.GO or os.getppid() != parent:
            os._exit(0)
        begun = os.write(high[4], b"+") == 1
        caller.close()
        os.closerange(3, max(high) + 1)
        world.take_in_hand()
        signal.pthread_sigmask(signal.SIG_SETMASK, call["blocked"])
        world.run()
    except BaseException as error:  # a bug: nothing may go back to the supervisor's code
        if begun:
            os.write(2, f"nexus: internal error: {error!r}. Run it again with NEXUS_WARM=0.\n".encode())
    os._exit(1)


def _take_over(call: dict[str, Any]) -> None:
    """Take what the caller's process had: environment, arguments, limits, processors, ignored signals, streams."""
    for number in signal.valid_signals():
        if number in (signal.SIGPIPE, signal.SIGXFSZ):
            continue
        try:
            signal.signal(number, signal.SIG_IGN if number in call["ignored"] else signal.SIG_DFL)
        except (OSError, ValueError):
            pass
    os.environ.clear()
    os.environb.update(call["environment"])
    sys.argv = [os.fsdecode(word) for word in call["arguments"]]
    sys.path[:] = [os.fsdecode(entry) for entry in call["path"]]
    os.umask(call["umask"])
    os.nice(call["nice"] - os.getpriority(os.PRIO_PROCESS, 0))
    if sys.platform == "linux" and call["scheduling"] != form.own_scheduling():
        processors, policy, priority = call["scheduling"]
        os.sched_setaffinity(0, processors)
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    for name, limits in call["limits"].items():
        resource.setrlimit(getattr(resource, name), limits)
    time.tzset()
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _open_stream(descriptor, name, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _open_stream(number: int, name: str, like: TextIO) -> TextIO:
    """Return the text stream that Python makes of a descriptor at its start, coded like the one before."""
    raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
    raw.name = f"<{name}>"
    binary: Any = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(binary, like.encoding, like.errors, newline="\n", line_buffering=lines)
