"""The hint at a command that failed: the wall that it met, by what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.denial import describe_denial
from nexus_cli.sandbox.profile import SandboxProfile

WRITE = SandboxProfile(
    "write",
    Path("/p"),
    Path("/p/sub"),
    writable=(Path("/p"),),
    hidden=(Path("/h/.ssh"),),
    guarded=(Path("/p"), Path("/p/sub")),
    temp=Path("/t"),
)
SOCKET = 'File "/usr/lib/python3.11/socket.py", line 232, in __init__\n    _socket.socket()\nPermissionError: [Errno 1]'


@pytest.mark.parametrize(
    ("output", "wall"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", "write to /etc/x"),
        ("PermissionError: [Errno 13] Permission denied: '/etc/foo'", "write to /etc/foo"),
        ("Error: EACCES: permission denied, open '/etc/foo'", "write to /etc/foo"),
        ("mkdir: cannot create directory '../../x': Permission denied", "write to /x"),
        ("cat: /h/.ssh/id_rsa: Permission denied", "/h/.ssh/id_rsa is hidden"),
        ("error: could not write config file ../.git/config: Device or resource busy", ".git/config is protected"),
        ("bash: line 1: AGENTS.md: Read-only file system", "sub/AGENTS.md is protected"),
        ("OSError: [Errno 30] Read-only file system: '/p/.envrc'", ".envrc is protected"),
        ("bash: line 1: ./x.sh: Permission denied", ""),
        ("error: Permission denied", ""),
        ("fatal: could not create '../.git/objects/x': Permission denied", ""),
        ("1 failed, 2 passed", ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'roll.csv'", ""),
        ("ModuleNotFoundError: No module named 'requests'", ""),
        ("Error: getaddrinfo ENOTFOUND example.org", "no network"),
        ("  code: 'ECONNREFUSED',", "no network"),
        ("curl: (6) Could not resolve host: example.org", "no network"),
        ("curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect to server", "no network"),
        ("npm error code ENOTCACHED", "no network"),
        ("As a reminder, you're using offline mode (--offline)", "no network"),
        ("dial unix /var/run/docker.sock: socket: operation not permitted", "no Unix sockets"),
    ],
)
def test_a_failure_is_told_with_the_wall_it_met(output: str, wall: str) -> None:
    for backend in (Backend.BWRAP, Backend.LANDLOCK):
        assert wall in (line := describe_denial(WRITE, f"{output}\n", backend)) and bool(wall) == bool(line)
        assert not line or "ask " in line
        unattended = describe_denial(WRITE, f"{output}\n", backend, asks=False)
        assert wall in unattended and "ask " not in unattended and "network=true" not in unattended


def test_a_refused_socket_is_one_of_unix_where_the_command_has_a_network_of_its_own() -> None:
    for output in (SOCKET, "Error: listen EPERM: operation not permitted 0.0.0.0:8123"):
        assert "no Unix sockets" in describe_denial(WRITE, output, Backend.BWRAP)
        assert "no loopback" in describe_denial(WRITE, output, Backend.LANDLOCK)
    assert describe_denial(SandboxProfile("none", Path("/p"), Path("/p")), SOCKET, Backend.LANDLOCK) == ""
