"""The hint at a command that failed: the wall that it met, by what it printed."""

from __future__ import annotations

from dataclasses import replace
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
        ("cat: /h/.ssh/id_rsa: No such file or directory", "/h/.ssh/id_rsa is hidden"),
        ("error: could not write config file ../.git/config: Device or resource busy", ".git/config is protected"),
        ("bash: line 1: AGENTS.md: Read-only file system", "sub/AGENTS.md is protected"),
        ("OSError: [Errno 30] Read-only file system: '/p/.envrc'", ".envrc is protected"),
        ("error: remote unpack failed: unable to create temporary object directory\nTo ../../b.git", "write to /b.git"),
        ("bash: line 1: ./x.sh: Permission denied", ""),
        ("error: Permission denied", ""),
        ("fatal: could not create '../.git/objects/x': Permission denied", ""),
        ("1 failed, 2 passed", ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'roll.csv'", ""),
        ("ModuleNotFoundError: No module named 'requests'", ""),
        ("Error: getaddrinfo ENOTFOUND example.org", "no network"),
        ("  code: 'ECONNREFUSED',", "no network"),
        ("nexus: request failed: the connection to 10.0.0.1:80 was refused. Check the connection.", "no network"),
        ("Could not determine a usable local IP for this machine.", "no network"),
        ("curl: (6) Could not resolve host: example.org", "no network"),
        ("curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect to server", "no network"),
        ("npm error code ENOTCACHED", "no network"),
        ("As a reminder, you're using offline mode (--offline)", "no network"),
        ("dial unix /var/run/docker.sock: socket: operation not permitted", "no Unix or raw sockets"),
    ],
)
def test_a_failure_is_told_with_the_wall_it_met(output: str, wall: str) -> None:
    for backend in (Backend.BWRAP, Backend.LANDLOCK):
        assert wall in (line := describe_denial(WRITE, "make", f"{output}\n", backend)) and bool(wall) == bool(line)
        assert not line or "ask " in line
        unattended = describe_denial(WRITE, "make", f"{output}\n", backend, asks=False)
        assert wall in unattended and "ask " not in unattended and "network=true" not in unattended


def test_a_write_to_the_shared_temporary_folder_is_told_the_private_one() -> None:
    for asks in (True, False):
        line = describe_denial(WRITE, "make", "tee: /tmp/o.txt: Read-only file system", Backend.BWRAP, asks=asks)
        assert line == "[sandbox: write to /tmp/o.txt refused; write to $TMPDIR instead]"
    line = describe_denial(WRITE, "make", "cat: /proc/1/environ: Permission denied", Backend.LANDLOCK)
    assert line.startswith("[sandbox: access to /proc/1/environ refused; ")
    elsewhere = describe_denial(WRITE, "make", "tee: /tmp/site/o.txt: Read-only file system", Backend.BWRAP)
    assert (
        elsewhere
        == "[sandbox: write to /tmp/site/o.txt refused; ask to run it outside the sandbox with outside=REASON]"
    )


def test_a_failure_that_a_pipe_hides_is_told_if_the_command_names_the_path() -> None:
    refused = "mkdir: cannot create directory '/etc/x': Read-only file system"
    for line in ("mkdir /etc/x | cat", "mkdir /etc/x || true", "mkdir /etc/x; ls"):
        assert "write to /etc/x refused" in describe_denial(WRITE, line, refused, Backend.BWRAP, status=0)
    for line in ("mkdir /etc/x", "grep -rn refused logs | head"):
        assert describe_denial(WRITE, line, refused, Backend.BWRAP, status=0) == ""
    assert describe_denial(WRITE, "pip install x | tail -1", "ECONNREFUSED", Backend.BWRAP, status=0) == ""


def test_a_new_file_beside_a_hidden_one_is_told_as_unreadable_under_landlock_at_every_call() -> None:
    beside = replace(WRITE, denied=(Path("/p/sub/deep/key"),), hidden=(Path("/p/sub/deep/key"),))
    refused = "sed: couldn't open temporary file ./sedn42sYn: Permission denied"
    for _ in range(2):
        line = describe_denial(beside, "sed -i s/a/b/ app.py", refused, Backend.LANDLOCK, status=4)
        assert "a deny rule hides a file in /p/sub: new files there cannot be read" in line
    assert describe_denial(beside, "sed -i s/a/b/ app.py", refused, Backend.BWRAP, status=4) == ""
    elsewhere = replace(WRITE, denied=(Path("/p/key"),), hidden=(Path("/p/key"),))
    assert describe_denial(elsewhere, "sed -i s/a/b/ app.py", refused, Backend.LANDLOCK, status=4) == ""


def test_a_file_that_is_there_is_refused_for_its_own_mode(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("x")
    hidden = replace(WRITE, project=tmp_path, cwd=tmp_path, writable=(tmp_path,), denied=(tmp_path / ".env",))
    for name, is_told in (("run.sh", False), ("new.sh", True)):
        line = describe_denial(hidden, f"./{name}", f"bash: ./{name}: Permission denied", Backend.LANDLOCK, status=126)
        assert ("a deny rule hides a file in" in line) == is_told, line


@pytest.mark.parametrize("listed", [" M key", "M\tkey", "\tmodified:   key", " M sub/key"])
def test_a_hidden_file_that_git_lists_as_changed_is_explained(listed: str) -> None:
    hidden = replace(WRITE, denied=(Path("/p/sub/key"),), hidden=(Path("/p/sub/key"),))
    line = describe_denial(hidden, "git status", f"{listed}\n?? new\n", Backend.BWRAP, status=0)
    assert line == "[sandbox: a deny rule hides /p/sub/key: git cannot compare it]"
    assert describe_denial(hidden, "git status", listed.replace("key", "app"), Backend.BWRAP, status=0) == ""
    assert describe_denial(hidden, "cat notes", f"{listed}\n", Backend.BWRAP, status=0) == ""


def test_a_refused_socket_is_one_of_unix_where_the_command_has_a_network_of_its_own() -> None:
    for output in (
        SOCKET,
        "/usr/lib/python3.11/socket.py:232: PermissionError",
        "Error: listen EPERM: operation not permitted 0.0.0.0:8123",
        "java.net.SocketException: Operation not permitted",
    ):
        assert "no Unix or raw sockets" in describe_denial(WRITE, "make", output, Backend.BWRAP)
        assert "not even loopback" in describe_denial(WRITE, "make", output, Backend.LANDLOCK)
    assert describe_denial(SandboxProfile("none", Path("/p"), Path("/p")), "make", SOCKET, Backend.LANDLOCK) == ""


SILENT = (
    "curl -s https://example.org/x.json",
    "cd sub && CI=1 /usr/bin/curl -sf https://example.org | jq .",
    "wget -q https://example.org",
    "pip install -q requests",
    "python3 -m pip -q download requests",
    "uv pip install requests",
    "npm --silent ci",
    "git -C sub fetch -q",
    "if true; then git clone -q https://example.org/x; fi",
    "cargo -q update",
    "go mod download",
    "curl -s localhost:8000; pip download -q requests",
    "echo 127.0.0.1 | curl -s https://example.org",
)
LOCAL = (
    "npm test",
    "git commit -qm 'curl https://example.org'",
    "grep -q curl Makefile",
    "cargo -q build",
    "pip list",
    "curl -sf http://127.0.0.1:8000/health",
    "curl -sf localhost:8000",
    "curl -s 'http://localhost:8000/?a=1&b=2' && wget -q 127.0.0.1:1",
    "./curl_all.sh",
)


@pytest.mark.parametrize(("command", "has_hint"), [*((one, True) for one in SILENT), *((one, False) for one in LOCAL)])
def test_a_program_of_the_network_that_fails_without_a_word_gets_the_hint(command: str, has_hint: bool) -> None:
    for backend in (Backend.BWRAP, Backend.LANDLOCK):
        assert ("network=true" in describe_denial(WRITE, command, "", backend)) == has_hint
        assert describe_denial(replace(WRITE, network=True), command, "", backend) == ""
        assert "network=true" not in describe_denial(WRITE, command, "", backend, asks=False)


def test_a_program_that_is_missing_or_reached_its_remote_gets_no_hint_of_the_network() -> None:
    assert describe_denial(WRITE, "gh pr list", "bash: gh: command not found", Backend.LANDLOCK, status=127) == ""
    said = "error: remote unpack failed: unable to create temporary object directory\nTo /b.git"
    told = describe_denial(WRITE, "git push origin a", said, Backend.LANDLOCK, status=1)
    assert told.startswith("[sandbox: write to /b.git refused") and "network" not in told


def test_what_is_not_writable_is_told_beside_the_missing_network() -> None:
    output = "pyenv: cannot rehash: /h/.pyenv/shims isn't writable\n"
    path, network = describe_denial(WRITE, "pip install -q requests", output, Backend.BWRAP).splitlines()
    assert "write to /h/.pyenv/shims refused" in path and "network=true" in network
    other = describe_denial(WRITE, "make", "error: '/opt/x' is not writable\n", Backend.BWRAP)
    assert "write to /opt/x refused" in other and "network" not in other


@pytest.mark.parametrize(
    ("output", "status", "is_told"),
    [
        ("sed: couldn't open file x: Read-only file system\n", 1, True),
        ("mkdir: cannot create directory: Permission denied\n", 0, True),
        ("", 4, True),
        ("", 1, False),
        ("< a\n> b\n", 1, False),
        ("a\nb\n", 0, False),
    ],
)
def test_a_reader_that_failed_or_was_refused_says_that_it_ran_read_only(
    output: str, status: int, is_told: bool
) -> None:
    read = replace(WRITE, name="read", writable=())
    line = describe_denial(read, "sed -n 'w x' f", output, Backend.BWRAP, status=status)
    assert line == (
        "[nexus: ran read-only: no writes, no network; write=true asks the person for write access]" if is_told else ""
    )
    again = describe_denial(read, "sed -n 'w x' f", output, Backend.BWRAP, status=status, is_told=True)
    assert ("ran read-only" in again) is ("denied" in output or "Read-only" in output)
    line = describe_denial(read, "sed -n 'w x' f", output, Backend.BWRAP, status=status, asks=False)
    assert ("write=true needs permission level auto, because nobody can be asked" in line) == is_told
    for asks in (True, False):
        line = describe_denial(read, "sed -n 'w x' f", output, Backend.BWRAP, status=status, asks=asks, is_auto=True)
        assert ("with write=true the command may write to the project" in line) == is_told and "ask" not in line
    assert not describe_denial(WRITE, "sed -n 'w x' f", output, Backend.BWRAP, status=0)


@pytest.mark.parametrize(
    "command",
    ["ps aux", "ls | xargs ps", "x; ss -tlnp", "docker ps -a", "/bin/mount", "if systemctl status x; then y; fi"],
)
def test_what_looks_at_the_machine_says_that_it_sees_the_sandbox_alone(command: str) -> None:
    for profile in (WRITE, replace(WRITE, name="read", writable=())):
        assert "processes and network outside it" in describe_denial(profile, command, "", Backend.BWRAP, status=0)
    assert not describe_denial(replace(WRITE, name="none"), command, "", Backend.BWRAP)
    for other in ("ls ps", "echo who", "cat mount.md", "grep -r lsof .", "git show ss-1"):
        assert not describe_denial(WRITE, other, "", Backend.BWRAP, status=0)
