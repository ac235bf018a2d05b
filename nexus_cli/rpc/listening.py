"""The socket of a server: an address, or a file that only the person can open."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing, suppress
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places
from nexus_cli.config.private_file import named_write_errors
from nexus_cli.config.server_token import UNIX
from nexus_cli.core.errors import NexusError, UsageError, reason_of

BACKLOG = 128
LOCK_SECONDS = 10.0
LONGEST_PATH = 100
"""Longest path of a socket file, in bytes, that every system accepts."""


def bind_address(host: str, port: int) -> socket.socket:
    """Return a listening socket on `host`; port 0 picks a free one. Raise `NexusError("config", ...)`."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except UnicodeError as error:
        raise UsageError(f"--host {host[:80]!r}", "not a valid host name") from error
    except OSError as error:
        raise _cannot_listen(f"{host} port {port}", error, "Choose another --port or --host") from error
    return listener


def bind_file(path: Path) -> socket.socket:
    """Return a listening socket at `path` with mode 0600; replace a socket that no process listens to any more."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(f"socket path too long (at most {LONGEST_PATH} bytes)", str(path), "Choose a shorter path")
    file = places().data / "serve" / "lock"
    with named_write_errors(file):
        # One server at a time: between `bind` and `listen` another one would take the socket for dead.
        lock = FileLock.wait_for(file, LOCK_SECONDS)
    try:
        with lock:
            _remove_stale_socket(path)
            return _bind_file(path)
    except OSError as error:
        raise _cannot_listen(f"socket {path}", error, "Choose another --socket") from error


def _bind_file(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        os.chmod(path, 0o600)  # before `listen`: until then nobody can connect
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def remove_file(path: Path, status: os.stat_result) -> None:
    """Remove a socket file that `status` describes; a different one in its place stays."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), status):
            os.unlink(path)


def _remove_stale_socket(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"socket {path}", "the path exists and is not a socket", "Choose another --socket")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)  # a blocking connect would hang if too many already wait
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
    raise NexusError("config", f"socket {path}", "another process listens there", "Choose another --socket")


def server_url(listening: socket.socket, host: str) -> str:
    """Return the address that a client uses."""
    if listening.family == socket.AF_UNIX:
        return f"{UNIX}{listening.getsockname()}"
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def _cannot_listen(address: str, error: OSError, hint: str) -> NexusError:
    return NexusError("config", f"cannot listen on {address}", reason_of(error), hint)
