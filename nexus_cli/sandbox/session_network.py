"""A network of its own for the commands of one session: loopback alone, so that one command can reach the server of
another, but no command the person's servers.

Needs no process: descriptors keep its namespaces, which end with the last of them and with the commands in there, also
when this process is killed. Whoever connects to a server in there has a helper in the network make the socket: a socket
belongs to the network in which it was made, whoever uses it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

from nexus_cli.config.programs import find_program, own_interpreter, start_helper
from nexus_cli.sandbox.backend import Backend

_SECONDS = 20
_MAKE = """
import ctypes, fcntl, os, socket, struct, sys
user, group = os.geteuid(), os.getegid()
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40000000 | (0x10000000 if user else 0)):  # CLONE_NEWNET, CLONE_NEWUSER
    sys.exit(os.strerror(ctypes.get_errno()))
if user:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING
print(flush=True)
sys.stdin.read(1)
"""
"""Moves itself into a new network and prints a line; ends with its input. Root keeps its user namespace, because it
would lose its rights to other people's files in another one."""


_MAKE_SOCKETS = """
import socket
asks = socket.socket(fileno=0)
while asked := asks.recv(1):
    try:
        with socket.socket(socket.AF_INET6 if asked == b"6" else socket.AF_INET) as one:
            socket.send_fds(asks, [asked], [one.fileno()])
    except OSError:
        asks.send(b"!")
"""
"""Sends an unconnected socket for each byte that it receives; ends when nobody can ask any more."""


_CLOSE = """
import os, sys
for one in sys.argv[1].split(","):
    os.close(int(one))
os.execv(sys.argv[2], sys.argv[2:])
"""


class SessionNetwork:
    """A network namespace, and the user namespace that owns it."""

    def __init__(self, project: Path | None) -> None:
        """Make it. Raises `OSError` with the reason if this system does not let us."""
        program = find_program("nsenter", project)
        if program is None:
            raise OSError("nsenter is not on the PATH (package util-linux)")
        self.interpreter = own_interpreter(project)
        """The Python that runs helpers outside of the sandbox."""
        maker = start_helper(
            (self.interpreter, "-I", "-S", "-c", _MAKE), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._helper: tuple[socket.socket, subprocess.Popen[bytes]] | None = None
        self._lock = threading.Lock()
        self.handles: tuple[int, ...] = ()
        """Descriptors of the namespaces, which a command that joins must inherit."""
        try:
            assert maker.stdout is not None
            if maker.stdout.readline() == b"\n":
                kinds = ("net",) if os.geteuid() == 0 else ("net", "user")
                for kind in kinds:
                    opened = os.open(f"/proc/{maker.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                    self.handles = (*self.handles, opened)
        except OSError:
            self.close()
            raise
        finally:
            errors = _end(maker)
        if not self.handles:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            raise OSError(lines[-1][:200] if lines else f"exit status {maker.returncode}")
        joins = [f"--net=/proc/self/fd/{self.handles[0]}"]
        if len(self.handles) > 1:
            joins += ["--preserve-credentials", f"--user=/proc/self/fd/{self.handles[1]}"]
        self.prefix: tuple[str, ...] = (program, *joins, "--")
        """The beginning of the command line of a command that joins."""
        numbers = ",".join(map(str, self.handles))
        self.closing: tuple[str, ...] = (self.interpreter, "-I", "-S", "-c", _CLOSE, numbers)
        """The words after `prefix` for a program that does not close the descriptors itself."""

    @property
    def joins_threads(self) -> bool:
        """True if a thread of this process can join: no thread can enter the user namespace that others than root
        need."""
        return len(self.handles) == 1

    @property
    def name(self) -> str:
        """The name that /proc shows for the network of a process in there."""
        return os.readlink(f"/proc/self/fd/{self.handles[0]}") if self.handles else ""

    def open_socket(self, address: str) -> socket.socket:
        """Return a socket that can be connected to an address in there. Blocks; raises `OSError`."""
        with self._lock:
            asks = self._start_helper()
            asks.send(b"6" if ":" in address else b"4")
            _, descriptors, _, _ = socket.recv_fds(asks, 1, 1)
        if not descriptors:
            raise OSError(f"no socket for {address}")
        os.set_inheritable(descriptors[0], False)
        return socket.socket(fileno=descriptors[0])

    def connect(self, address: str, port: int, seconds: float) -> socket.socket:
        """Return a connection to a server in there. Blocks; raises `OSError`."""
        connection = self.open_socket(address)
        try:
            connection.settimeout(seconds)
            connection.connect((address, port))
        except OSError:
            connection.close()
            raise
        return connection

    def _start_helper(self) -> socket.socket:
        """Return the socket on which a helper in the network is asked for sockets. The caller must lock."""
        if self._helper is None:
            if not self.handles:
                raise OSError("the network is closed")
            asks, theirs = socket.socketpair()
            asks.settimeout(_SECONDS)
            with theirs:
                helper = start_helper(
                    (*self.prefix, *self.closing, self.interpreter, "-I", "-S", "-c", _MAKE_SOCKETS),
                    stdin=theirs,
                    pass_fds=self.handles,
                )
            self._helper = asks, helper
        return self._helper[0]

    def close(self) -> None:
        """Release the namespaces; commands in there keep them."""
        with self._lock:
            if self._helper is not None:
                self._helper[0].close()
                _end(self._helper[1])
                self._helper = None
        for handle in self.handles:
            os.close(handle)
        self.handles = ()


def _end(maker: subprocess.Popen[bytes]) -> bytes:
    """Let the maker end, and return what it wrote to stderr."""
    try:
        return maker.communicate(timeout=_SECONDS)[1]
    except (BrokenPipeError, subprocess.TimeoutExpired):
        maker.kill()
        return maker.communicate()[1]


def make_network(backend: Backend, project: Path) -> tuple[SessionNetwork | None, str]:
    """Make the network of a session; return it, or None and a note with the reason."""
    try:
        if backend not in (Backend.BWRAP, Backend.LANDLOCK):
            raise OSError(f"not supported with {backend}")
        return SessionNetwork(project), ""
    except OSError as error:
        return None, f"commands do not share a network here ({error}): they cannot reach each other's servers"
