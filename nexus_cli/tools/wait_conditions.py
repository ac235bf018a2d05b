"""Check the conditions outside nexus that a run may wait for: a file, a process, a server's answer.

The value of a wait has the state at its beginning, so that any process can notice a change, from any folder, even
after a reboot.
"""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from nexus_cli.config.stored_keys import read_secret
from nexus_cli.core.errors import NexusError
from nexus_cli.core.field_conditions import holds
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.proxy import open_connection, send_request
from nexus_cli.core.real_files import list_folder, open_folder, stat_at
from nexus_cli.tools.listeners import is_own_address
from nexus_cli.tools.process_tree import read_stat

CHANGES, APPEARS, DISAPPEARS = "changes", "appears", "disappears"
SECONDS = 10.0
"""Time limit of one request."""
MAX_BODY = 1 << 20
"""Most bytes of a body in which a field or text is looked for."""
MAX_FILES = 1000
"""Most files of a pattern."""
POLLED = {"file": (1.0, 5.0), "process": (1.0, 5.0), "url": (15.0, 60.0)}
"""By kind: seconds between two checks, at first and later."""

_PF_KTHREAD = 0x00200000  # include/linux/sched.h


Connect = Callable[[], socket.socket]
"""Makes a connection to the server of an address, in its network. Raises `OSError`."""


def look(kind: str, value: JsonObject, connect: Connect | None = None) -> JsonObject | None:
    """Check the condition of a wait; return the event if it holds, else None. Blocks; a request takes seconds.

    An address of a job is reached by `connect`, and gets no key.
    """
    match kind:
        case "file":
            return _look_at_file(value)
        case "process":
            return None if is_running(value) else {"process": value["process"]}
        case "url" if is_port(value["url"]):
            return {"url": value["url"], "status": None} if is_listening(value["url"], connect) else None
        case "url":
            return _look_at_page(value, connect)
    return None


def _look_at_page(value: JsonObject, connect: Connect | None) -> JsonObject | None:
    match = value.get("match", ())
    status, text = request_page(value["url"], MAX_BODY if match else 0, connect)
    fits_status = fnmatch.fnmatchcase(str(status), str(value["status"]).lower().replace("x", "?"))  # such as 2xx
    if status is None or not fits_status or not matches(match, text):
        return None
    return {"url": value["url"], "status": status, "match": list(match)}


def matches(match: Iterable[str], text: str) -> bool:
    """Return True if a body has every field (`core.field_conditions`) or text of `match`."""
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    return all(holds(condition, value) or condition in text for condition in match)


def this_machine() -> str:
    """Return an id of this machine, unique among those that share a ledger."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or socket.gethostname()
    except (OSError, ValueError):
        return socket.gethostname()


def file_state(path: Path) -> list[int] | None:
    """Return mtime in nanoseconds, size and inode of a file, to notice a change; None if it does not exist, or if a
    folder above it has become a link."""
    try:
        with open_folder(path.parent) as folder:
            status = stat_at(folder, path.name or ".")
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def is_glob(path: Path) -> bool:
    """Return True if the name of a path has `*`, `?` or `[`, and no file has that very name."""
    return glob.has_magic(path.name) and not os.path.lexists(path)


def glob_states(path: Path) -> dict[str, list[int] | None]:
    """Return the states of the files whose names match that of `path`, at most `MAX_FILES`."""
    names: list[str] = []
    with suppress(OSError):
        names = fnmatch.filter(list_folder(path.parent), path.name)
    visible_names = (name for name in names if path.name.startswith(".") or not name.startswith("."))
    return {
        file_path: file_state(Path(file_path))
        for file_path in sorted(f"{path.parent}/{name}" for name in islice(visible_names, MAX_FILES))
    }


def _look_at_file(value: JsonObject) -> JsonObject | None:
    event, before = value["event"], value["before"]
    if not isinstance(before, dict):
        return _compare(value["path"], event, before, file_state(Path(value["path"])))
    after = glob_states(Path(value["path"]))
    if event != CHANGES and bool(after) != (event == APPEARS):
        return None
    names = {**after, **before} or (value["path"],)
    states = (_compare(name, event, before.get(name), after.get(name)) for name in names)
    return next((state for state in states if state is not None), None)


def _compare(path: str, event: str, before: list[int] | None, now: list[int] | None) -> JsonObject | None:
    came = {
        CHANGES: now != before,
        APPEARS: now is not None,
        DISAPPEARS: now is None,
    }[event]
    if now is None:
        how = "has disappeared" if before else "is not there"
    else:
        how = "has appeared" if before is None else "is there" if event == APPEARS else "has changed"
    return {"path": path, "how": how, "size": now[1] if now else None} if came else None


def describe_event(kind: str, came: JsonObject) -> str:
    """Describe an event of `look` in a few words."""
    match kind:
        case "file":
            size = f" ({came['size']:,} bytes)" if came["size"] is not None else ""
            return f"{came['path']} {came['how']}{size}"
        case "process":
            return f"process {came['process']} has ended"
        case "url" if came["status"] is None:
            return f"{came['url']} accepts connections"
        case "url":
            has = came.get("match") and f" with {', '.join(came['match'])}"
            return f"{came['url']} answered {came['status']}{has or ''}"
        case "service":
            moment = f" at {came['came']}" if "came" in came else ""
            return f"{came['service']} has sent {came['event'] or 'an event'}{moment}"
    return "the time was reached"


def describe_process(pid: int) -> JsonObject | None:
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


def is_kernel_thread(pid: int) -> bool:
    """Return True for a thread of the kernel: a sandboxed command counts its processes from 1, so that root might take
    one of these for its own. The command line does not tell: a program that is just being started has none either."""
    try:
        return bool(int(read_stat(pid)[6]) & _PF_KTHREAD)
    except OSError:
        return False


def is_running(value: JsonObject) -> bool:
    """Return True while the process of a wait runs; False after a reboot."""
    started: str = value["started"]
    return _started(value["process"]) == started


def _started(pid: int) -> str:
    """Return boot id and start time of a process, "" if it has ended."""
    try:
        stat = read_stat(pid)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return "" if stat[0] in (b"Z", b"X") else f"{boot} {stat[19].decode()}"
    except (OSError, ValueError, IndexError):
        pass
    if os.path.exists("/proc/self/stat"):
        return ""
    return _started_by_ps(pid)


def _started_by_ps(pid: int) -> str:
    """Return the start time of a process from ps, for systems without /proc; "" if it has ended."""
    from nexus_cli.config.programs import run_program  # noqa: PLC0415

    process = run_program(["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)], env={"LC_ALL": "C"}, timeout=SECONDS)
    state, _, started = process.stdout.decode().strip().partition(" ")
    return "" if not state or state.startswith("Z") else started.strip()


def check_url(url: str) -> str:
    """Return the reason why `url` cannot be requested, "" if it can."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises for an invalid port)
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https", "tcp") or not parts.hostname:
        return "it must be http://HOST..., https://HOST... or tcp://HOST:PORT"
    if parts.scheme == "tcp" and (not parts.port or parts.path or parts.query):
        return "it must be tcp://HOST:PORT"
    if "@" in parts.netloc:
        return "it must not contain a user name or password"
    return "" if url.isprintable() and " " not in url else "it contains spaces or non-printable characters"


def is_port(url: str) -> bool:
    """Return True for `tcp://HOST:PORT`, which `check_url` has accepted: it gets a connection and no request."""
    return urlsplit(url).scheme == "tcp"


def is_listening(url: str, connect: Connect | None) -> bool:
    """Return True if a connection to `tcp://HOST:PORT` succeeds within `SECONDS`."""
    parts = urlsplit(url)
    try:
        (connect() if connect else socket.create_connection((parts.hostname or "", parts.port or 0), SECONDS)).close()
    except (OSError, ValueError):
        return False
    return True


def host_headers(url: str) -> dict[str, str]:
    """Return the header with the key that `[hosts."HOST"]` of the person's settings names for the host of `url`.

    A key is sent over TLS, or within this machine. Raises `NexusError` if it does not exist.
    """
    from nexus_cli.config.load_settings import own_settings  # noqa: PLC0415  (few waits are for addresses)

    parts = urlsplit(url)
    hosts = own_settings().hosts
    header_table = next((host_table for host, host_table in hosts.items() if host.lower() == parts.netloc.lower()), {})
    if not (name := header_table.get("key")):
        return {}
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise NexusError("config", name, "the key is only sent over TLS", "Use https://")
    if not (key := read_secret(name)):
        why = f"neither an environment variable nor a stored key (to store it: nexus login {name})"
        raise NexusError("config", name, why)
    header = header_table.get("header", "Authorization")
    return {header: header_table.get("prefix", "Bearer " if header == "Authorization" else "") + key}


def request_page(url: str, most: int, connect: Connect | None = None) -> tuple[int | None, str]:
    """Return the status of a GET of `url` and the first `most` bytes of its body; None without an answer within
    `SECONDS`. Follows no redirect, and uses no proxy to this machine. `connect` reaches a server of a job, which gets
    no key and any certificate is good enough for."""
    ends = time.monotonic() + SECONDS
    try:
        headers = {"User-Agent": "nexus", "Accept": "*/*", **({} if connect else host_headers(url))}
        proxies = not (connect or is_own_address(urlsplit(url).hostname or ""))
        opened = open_connection(url, SECONDS, connect and (lambda *_: connect()), proxies=proxies, checks=not connect)
        with send_request(opened, ends, headers) as answer:
            return answer.status, answer.read(most).decode("utf-8", "replace") if most else ""
    except (OSError, HTTPException, ValueError, NexusError):
        return None, ""
