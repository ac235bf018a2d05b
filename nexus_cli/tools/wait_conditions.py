"""Check the conditions outside nexus that a run may wait for: a file, a process, a server's answer.

The value of a wait has the state at its beginning, so that any process can notice a change, from any folder, even
after a reboot.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

CHANGES, APPEARS, DISAPPEARS = "changes", "appears", "disappears"
SECONDS = 10.0
"""Time limit of one request."""
POLLED = {"file": (1.0, 5.0), "process": (1.0, 5.0), "url": (15.0, 60.0)}
"""By kind: seconds between two checks, at first and later."""


def look(kind: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check the condition of a wait; return the event if it holds, else None. Blocks; a request takes seconds."""
    match kind:
        case "file":
            return _look_at_file(value)
        case "process":
            return None if is_running(value) else {"process": value["process"]}
        case "url":
            status = request_status(value["url"])
            return {"url": value["url"], "status": status} if status == value["status"] else None
    return None


def this_machine() -> str:
    """Return an id of this machine, unique among those that share a ledger."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or socket.gethostname()
    except (OSError, ValueError):
        return socket.gethostname()


def file_state(path: Path) -> list[int] | None:
    """Return mtime in nanoseconds, size and inode of a file, to notice a change; None if it does not exist."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def _look_at_file(value: Mapping[str, Any]) -> dict[str, Any] | None:
    now = file_state(Path(value["path"]))
    came = {
        CHANGES: now != value["before"],
        APPEARS: now is not None,
        DISAPPEARS: now is None,
    }[value["event"]]
    if now is None:
        how = "has disappeared" if value["before"] else "is not there"
    else:
        how = "has appeared" if value["before"] is None else "is there" if value["event"] == APPEARS else "has changed"
    return {"path": value["path"], "how": how, "size": now[1] if now else None} if came else None


def describe_event(kind: str, came: Mapping[str, Any]) -> str:
    """Describe an event of `look` in a few words."""
    match kind:
        case "file":
            size = f" ({came['size']:,} bytes)" if came["size"] is not None else ""
            return f"{came['path']} {came['how']}{size}"
        case "process":
            return f"process {came['process']} has ended"
        case "url":
            return f"{came['url']} answered {came['status']}"
    return "the time has come"


def describe_process(pid: int) -> dict[str, Any] | None:
    """Return the wait's value for a process, which distinguishes it from a later one with the same pid; None if there
    is none."""
    started = _started(pid)
    return {"process": pid, "started": started, "machine": this_machine()} if started else None


def owner_of(pid: int) -> int | None:
    """Return the user id of a process, None if unknown, our own if the process has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:
        return None
    except (OSError, OverflowError):
        return os.getuid()  # it has ended
    return os.getuid()


def is_running(value: Mapping[str, Any]) -> bool:
    """Return True while the process of a wait runs; False after a reboot."""
    started: str = value["started"]
    return _started(value["process"]) == started


def _started(pid: int) -> str:
    """Return boot id and start time of a process, "" if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return "" if stat[0] in "ZX" else f"{boot} {stat[19]}"
    except (OSError, ValueError, IndexError):
        pass
    if os.path.exists("/proc/self/stat"):
        return ""
    return _started_by_ps(pid)


def _started_by_ps(pid: int) -> str:
    """Return the start time of a process from ps, for systems without /proc; "" if it has ended."""
    from nexus_cli.config.programs import run_program  # noqa: PLC0415

    asked = run_program(["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)], env={"LC_ALL": "C"}, timeout=SECONDS)
    state, _, started = asked.stdout.decode().strip().partition(" ")
    return "" if not state or state.startswith("Z") else started.strip()


def check_url(url: str) -> str:
    """Return the reason why `url` cannot be requested, "" if it can."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises for an invalid port)
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must be http://HOST... or https://HOST..."
    if parts.username or parts.password:
        return "it must not contain a user name or password"
    return "" if url.isprintable() and " " not in url else "it contains spaces or control characters"


def request_status(url: str) -> int | None:
    """Return the status of a GET of `url`, None without an answer within `SECONDS`. Follows no redirect."""
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with socket.create_connection((host, parts.port or (443 if secure else 80)), SECONDS) as plain, _ended(plain):
            connection = (HTTPSConnection if secure else HTTPConnection)(host, parts.port)
            context = ssl.create_default_context() if secure else None
            connection.sock = context.wrap_socket(plain, server_hostname=host) if context else plain
            try:
                connection.request("GET", target, headers={"User-Agent": "nexus", "Accept": "*/*"})
                return connection.getresponse().status
            finally:
                connection.close()
    except (OSError, HTTPException, ValueError):
        return None


@contextmanager
def _ended(connection: socket.socket) -> Iterator[None]:
    """Shut down a connection after `SECONDS`, even if it keeps receiving data."""
    same = connection.dup()  # TLS takes over the other one

    def end() -> None:
        with suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)

    timer = Timer(SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        same.close()
