"""Build the Landlock rule set of a profile: the paths that may be read, written and executed.

Rules can only allow. "Everything but the hidden paths" is therefore expanded: the siblings of each hidden path and of
its parents are allowed one by one, as of the time of building. `RuleCache` rebuilds the rules when such a folder has
changed.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nexus_cli.config.paths import is_below
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.syscalls import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    forbid_new_privileges,
    syscall,
)

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE, MAKE_DEVICE, MAKE_OTHER = 3 << 4, 1 << 6 | 1 << 11, 3 << 7 | 1 << 9 | 1 << 10 | 1 << 12
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE | MAKE_OTHER | REFER | TRUNCATE | IOCTL_DEVICE
OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE
"""Rights that a rule for a single file may have."""
NEWEST_ABI = 7
"""ABI versions above this are treated as this one."""
TRUNCATE_SINCE, SIGNALS_SINCE = 3, 6
"""ABI versions that first control truncation, and that first keep signals inside the sandbox."""
_RIGHTS_BY_ABI = (0, (1 << 13) - 1, REFER, TRUNCATE, 0, IOCTL_DEVICE)
"""Rights that each version of Landlock added."""

_TCP_BIND_AND_CONNECT, _SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 3, 1, 2
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1

READABLE_DEVICES = ("random", "urandom")
WRITABLE_DEVICES = ("null", "zero", "full")
"""The only accessible devices: no disk, no terminal of the person."""
SYSTEM_FACTS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "swaps", "sys", "uptime", "version")
"""The only readable entries of `/proc` in the profile `read`: no files of processes, not even its own."""


def landlock_abi() -> int:
    """Return the Landlock ABI version of this kernel, 0 if it has none or Landlock is disabled."""
    if sys.platform != "linux":
        return 0
    try:
        return syscall(LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict_signals() -> None:
    """Restrict signals of this thread and its children to processes in its scope; needs ABI version 6.

    The rules also allow REFER everywhere: each Landlock layer that does not would forbid moving files between folders.
    """
    attributes = struct.pack("=QQQ", REFER, 0, _SCOPE_SIGNALS)
    rules = syscall(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        allow(rules, "/", REFER)
        forbid_new_privileges()
        syscall(LANDLOCK_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


class RuleCache:
    """Caches the rule set of one profile until a folder that it depends on changes."""

    def __init__(self, profile: SandboxProfile, abi: int) -> None:
        self._profile, self._abi = profile, abi
        self._rules = -1
        self._split: list[str] = []
        self._stamp: list[tuple[int, ...]] = []

    def open_rules(self) -> int:
        """Return a descriptor of the rule set, which the caller must not close. Raises `OSError`."""
        if self._rules >= 0 and self._stamp == self._read_stamp():
            return self._rules
        self.close()
        self._rules, self._split = _build_rules(self._profile, self._abi)
        self._stamp = self._read_stamp()
        return self._rules

    def close(self) -> None:
        if self._rules >= 0:
            os.close(self._rules)
            self._rules = -1

    def _read_stamp(self) -> list[tuple[int, ...]]:
        """Return the identities of all paths with rules, with the mtime of folders that were expanded."""
        stamps: list[tuple[int, ...]] = []
        for name in (*self._split, *map(str, (*self._profile.roots, *self._profile.revealed))):
            try:
                status = os.stat(name)
            except OSError:
                stamps.append(())
                continue
            stamps.append((status.st_dev, status.st_ino, status.st_mtime_ns if name in self._split else 0))
        return stamps


@contextmanager
def open_ruleset(abi: int, *, network: bool) -> Iterator[tuple[int, int]]:
    """Yield the descriptor of a new rule set without rules, which is closed at the end, and the rights it controls."""
    handled = 0
    for rights in _RIGHTS_BY_ABI[: abi + 1]:
        handled |= rights
    attributes = struct.pack(
        "=QQQ",
        handled,
        0 if network else _TCP_BIND_AND_CONNECT,
        _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS,
    )[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = syscall(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        yield rules, handled
    finally:
        os.close(rules)


def _build_rules(profile: SandboxProfile, abi: int) -> tuple[int, list[str]]:
    """Build a rule set; return its descriptor, and the folders whose entries got a rule each."""
    split: list[str] = []
    with open_ruleset(abi, network=profile.network) as (rules, handled):
        hidden = [os.path.realpath(path) for path in profile.hidden]
        # Listing is allowed everywhere: Landlock rules always include subfolders, and `ls /` must work.
        allow(rules, "/", READ_DIR & handled)
        # /proc has the command lines of other processes, which may contain keys.
        closed = ["/dev", "/proc"] if profile.name == "read" else ["/dev"]
        for path in cover("/", [*hidden, *closed], split):
            allow(rules, path, READ & handled)
        for name in SYSTEM_FACTS if profile.name == "read" else ():
            allow(rules, f"/proc/{name}", READ & handled)
        revealed = list(map(str, profile.revealed))
        for path in (covered for place in revealed for covered in cover(place, hidden, split)):
            allow(rules, path, READ & handled)
        for name in READABLE_DEVICES + WRITABLE_DEVICES:
            rights = READ_FILE | IOCTL_DEVICE | (WRITE_FILE | TRUNCATE if name in WRITABLE_DEVICES else 0)
            allow(rules, f"/dev/{name}", rights & handled)
        secret = set(hidden) - set(map(os.path.realpath, profile.denied))
        for root in map(os.path.realpath, profile.roots):
            expanded: list[str] = []
            is_hidden = is_below(root, *hidden) and root not in revealed
            for path in [] if is_hidden else cover(root, hidden, expanded):
                allow(rules, path, WRITE & handled)
            for path in expanded:
                # A project with a denied file at its top stays writable; new files become readable at the next build.
                if not any(is_below(secret_path, path) for secret_path in secret):
                    allow(rules, path, WRITE & ~(READ_FILE | EXECUTE) & handled)
            split += expanded
        if profile.writable:
            # Semaphores of multiprocessing, shared memory of databases under test.
            for path in cover("/dev/shm", hidden, split):
                allow(rules, path, (WRITE & ~EXECUTE) & handled)
        return os.dup(rules), split


def cover(path: str, hidden: list[str], split: list[str]) -> Iterator[str]:
    """Yield paths that together cover `path` except the hidden ones; add the expanded folders to `split`."""
    if path in hidden:
        return
    inside = path.rstrip("/") + "/"
    below = [hidden_path for hidden_path in hidden if hidden_path.startswith(inside)]
    if not below:
        yield path
        return
    split.append(path)
    try:
        entries = list(os.scandir(path))
    except OSError:
        return
    for entry in entries:
        # Landlock checks the target of a link.
        if not entry.is_symlink():
            yield from cover(entry.path, below, split)


def allow(rules: int, path: str, rights: int) -> None:
    """Add a rule for `path`; do nothing if it cannot be opened."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        allow_open(rules, handle, rights)
    finally:
        os.close(handle)


def allow_open(rules: int, handle: int, rights: int) -> None:
    """Add a rule for an open file or folder."""
    if not stat.S_ISDIR(os.fstat(handle).st_mode):
        rights &= OF_FILES
    if rights:
        syscall(LANDLOCK_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
