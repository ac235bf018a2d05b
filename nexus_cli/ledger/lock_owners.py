"""Name the processes that have sessions and runs locked: each writes a line about itself into the lock file.

A line counts only while its file is locked: the system unlocks it with the end of the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from nexus_cli.config.file_lock import FileLock, read_held
from nexus_cli.config.program_words import split_arguments

SUFFIX = ".lock"
LOCK_RETRY_SECONDS = 5.0
"""Most seconds to wait for processes that look for the owner of a lock."""

PROGRAM = "program"
SERVERS = ("serve", "acp", "schedule", "runs", PROGRAM)
"""Commands whose process has several sessions: ending one would end all."""
ENTRY = "nexus_cli.cli.process"
"""The module with which the program nexus starts; a Python program that opens sessions does not import it."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """The process that has a session or a run locked."""

    pid: int
    """0 if it is unknown: an older version, or a ledger on a server."""
    place: str
    """Machine and process namespace, outside which the pid means nothing."""
    terminal: str
    """Its terminal, such as `/dev/pts/3`; "" for none."""
    command: str
    """The subcommand of nexus, such as `ask`; "" for the REPL, `PROGRAM` for a program that uses nexus."""
    is_busy: bool
    """True while a turn or act runs in the session."""

    @property
    def is_here(self) -> bool:
        """True if `pid` is a process that this one could signal."""
        return bool(self.pid) and self.place == _place()

    @property
    def server(self) -> str:
        """Return the name of the process for people if it may have several sessions, else ""."""
        if self.command not in SERVERS:
            return ""
        return "a program" if self.command == PROGRAM else f"`nexus {self.command}`"


UNKNOWN_OWNER = LockOwner(0, "", "", "", False)


def describe_process(*, is_busy: bool) -> str:
    """Return this process as the line for a lock file."""
    terminal = ""
    for handle in (0, 1, 2):
        with suppress(OSError):
            terminal = terminal or os.ttyname(handle)
    command = split_arguments(sys.argv[1:])[0] if ENTRY in sys.modules else PROGRAM
    command = command if command.isalpha() and len(command) < 16 else ""
    return json.dumps(asdict(LockOwner(os.getpid(), _place(), terminal, command, is_busy)))


def find_owners(folder: Path) -> dict[str, LockOwner]:
    """Return the owner of each locked session and run of a folder of locks, by id."""
    owners: dict[str, LockOwner] = {}
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            owner = read_owner(folder / name) if name.endswith(SUFFIX) else None
            if owner is not None:
                owners[name.removesuffix(SUFFIX)] = owner
    return owners


def take_lock(path: Path) -> FileLock | None:
    """Return the lock of a session or run at `path`, None if another process has it; raise as `FileLock.take`.

    Whoever looks for the owner shares the lock for a moment, which only delays this.
    """
    end = time.monotonic() + LOCK_RETRY_SECONDS
    while (lock := FileLock.take(path)) is None and read_owner(path) is None and time.monotonic() < end:
        time.sleep(0.001)
    return lock


def read_owner(path: Path) -> LockOwner | None:
    """Return the process that has the file locked, None if nobody has."""
    with suppress(OSError):
        if (line := read_held(path)) is not None:
            return _parse(line)
    return None


def _parse(line: bytes) -> LockOwner:
    try:
        value = json.loads(line)
        place, terminal, command = (str(value[name]) for name in ("place", "terminal", "command"))
        owner = LockOwner(int(value["pid"]), place, terminal, command, bool(value["is_busy"]))
    except (ValueError, TypeError, KeyError):
        return UNKNOWN_OWNER
    return owner if owner.pid > 1 else UNKNOWN_OWNER


def end_owner(path: Path, owner: LockOwner) -> bool:
    """Send SIGTERM to the process that has the file locked; False if that is no longer `owner`.

    The lock is looked at again once the process is held, so that another one of the same number is never hit.
    """
    try:
        handle = os.pidfd_open(owner.pid) if sys.platform == "linux" else -1
    except OSError:
        return False
    try:
        now = read_owner(path)
        if now is None or (now.pid, now.place) != (owner.pid, owner.place):
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        else:
            os.kill(owner.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def _place() -> str:
    """Return the machine's name with the namespace of its process ids."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{os.uname().nodename} {namespace}".rstrip()
