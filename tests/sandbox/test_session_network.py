"""The network that the commands of a session share: its own loopback, and nothing of the person's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from programs import need

from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.landlock import NEWEST_ABI, landlock_abi
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.session_network import SessionNetwork, make_network

SERVE = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as one:
    print(one.getsockname()[1], flush=True)
    while True:
        one.accept()[0].close()
"""
CALL = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()
    print("reached")
except OSError as error:
    print(error.strerror)
"""
ESCAPE = """
import ctypes, os
libc = ctypes.CDLL(None)
print([libc.setns(handle, 0) for handle in range(3, 200)].count(0), libc.unshare(0x40000000), libc.unshare(0x10000000))
"""
OPENED = """
import os
def find(one):
    try:
        return os.fstat(one).st_ino and os.readlink(f"/proc/self/fd/{one}")
    except OSError:
        return ""
print([find(one) for one in range(3, 200) if find(one)])
"""


@pytest.fixture
def network(tmp_path: Path) -> Iterator[SessionNetwork]:
    made, why = make_network(Backend.BWRAP, tmp_path)
    if made is None:
        pytest.skip(why)
    yield made
    made.close()


@pytest.fixture(params=[Backend.BWRAP, Backend.LANDLOCK])
def confinement(request: pytest.FixtureRequest, tmp_path: Path, network: SessionNetwork) -> Iterator[Confinement]:
    if request.param is Backend.BWRAP:
        need("bwrap")
        probe = BackendProbe(Backend.BWRAP, program=Path("/usr/bin/bwrap"))
    else:
        probe = BackendProbe(Backend.LANDLOCK, abi=min(NEWEST_ABI, landlock_abi()))
    made = Confinement(SandboxProfile("write", tmp_path, tmp_path, writable=(tmp_path,)), probe, network)
    yield made
    made.close()


@contextmanager
def started(held: Confinement, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    child = held.start(
        [sys.executable, "-I", "-S", "-c", program, *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def said(held: Confinement, program: str, *arguments: str) -> str:
    with started(held, program, *arguments) as child:
        return child.communicate(timeout=60)[0].decode().strip()


@pytest.mark.matrix
def test_a_command_inherits_no_descriptor(confinement: Confinement) -> None:
    assert said(confinement, OPENED) == "[]"


@pytest.mark.matrix
def test_one_command_reaches_the_server_of_another_and_nobody_else_does(confinement: Confinement) -> None:
    with started(confinement, SERVE) as server, socket.create_server(("127.0.0.1", 0)) as own:
        assert server.stdout is not None
        port = server.stdout.readline().decode().strip()
        assert said(confinement, CALL, port) == "reached"
        assert said(confinement, CALL, str(own.getsockname()[1])) == "Connection refused"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)), 5)


@pytest.mark.matrix
def test_a_command_cannot_leave_the_network_or_make_another_one(confinement: Confinement) -> None:
    told = said(confinement, ESCAPE)
    assert told == "0 -1 -1"


def test_a_system_without_the_means_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made, why = make_network(Backend.BWRAP, tmp_path)
    assert made is None and "nsenter" in why and "cannot reach each other's servers" in why
    assert make_network(Backend.SEATBELT, tmp_path)[0] is None


def test_descriptors_are_released(tmp_path: Path) -> None:
    made, why = make_network(Backend.BWRAP, tmp_path)
    if made is None:
        pytest.skip(why)
    before = made.handles
    made.close()
    made.close()
    assert before and not made.handles
    for handle in before:
        with pytest.raises(OSError):
            os.fstat(handle)


@pytest.mark.matrix
def test_a_server_in_the_network_is_reached_by_a_socket_that_was_made_there(confinement: Confinement) -> None:
    network = confinement.network
    assert network is not None
    with started(confinement, SERVE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with network.connect("127.0.0.1", port, 60) as one:
            assert one.recv(1) == b"", "the server has closed it"
            assert not one.get_inheritable()
        with pytest.raises(ConnectionRefusedError):
            network.connect("::1", port, 60)
    network.close()
    with pytest.raises(OSError, match="closed"):
        network.connect("127.0.0.1", port, 60)
