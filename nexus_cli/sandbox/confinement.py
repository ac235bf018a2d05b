"""Start a child process in the sandbox of a profile; `tools/process.run_process` takes a `Confinement`.

bwrap and seatbelt wrap the command line. Landlock, seccomp and capabilities apply to one thread and are inherited by
its children: a short-lived thread restricts itself and starts the child; this process stays unrestricted.
Every failure is an `OSError` before the command runs: no command ever starts with less than the requested sandbox.
"""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nexus_cli.sandbox import syscalls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bwrap import bwrap_arguments
from nexus_cli.sandbox.command_guard import CommandGuard
from nexus_cli.sandbox.landlock import RuleCache
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.protected_snapshot import take_snapshot
from nexus_cli.sandbox.restricted_thread import RestrictedThread, SignalScope, end_strays
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.seccomp import AF_INET, AF_INET6, AF_NETLINK, assemble_filter

_T = TypeVar("_T")
_ALL_NETWORKS = frozenset({AF_INET, AF_INET6, AF_NETLINK})
_TRUNCATE_SINCE, _SIGNALS_SINCE = 3, 6
"""Landlock ABI versions that first control truncation, and that first keep signals inside the sandbox."""


class SandboxError(OSError):
    """The requested sandbox could not be set up; nothing was started."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, f"the sandbox could not be set up: {why}")


class Confinement:
    """The sandbox of one profile, for any number of commands. Reuse it: it caches the Landlock rules."""

    def __init__(self, profile: SandboxProfile, probe: BackendProbe) -> None:
        """Prepare the sandbox of `profile` with the backend of `probe`; the profile `none` is not sandboxed.

        Raises `SandboxError` if another profile has no backend.
        """
        self.profile, self.backend = profile, probe.backend if profile.name != "none" else Backend.NONE
        if probe.backend is Backend.NONE and profile.name != "none":
            raise SandboxError(probe.why)
        self._program = probe.program
        self._lock = threading.Lock()
        self._scope_lock = threading.Lock()
        """Guards `_scope`. A second lock, because a thread that is started in the scope takes `_lock`."""
        self._abi = probe.abi
        self._watched: dict[int, list[tuple[RestrictedThread, int]]] = {}
        self._guards: dict[int, CommandGuard] = {}
        self._rules: RuleCache | None = None
        self._scope: SignalScope | None = None
        self._filter = b""
        if self.backend is Backend.LANDLOCK:
            self._rules = RuleCache(profile, probe.abi)
        if self.backend in (Backend.LANDLOCK, Backend.BWRAP):
            own_network = self.backend is Backend.BWRAP  # and a process table and IPC of its own
            self._filter = assemble_filter(
                _ALL_NETWORKS if profile.network or own_network else frozenset(),
                unix_sockets=profile.unix_sockets,
                keep_metadata=profile.name == "read",
                keep_sizes=not own_network and probe.abi < _TRUNCATE_SINCE,
                keep_others=not own_network,
                is_root=os.getuid() == 0,
            )

    def close(self) -> None:
        """Release the rules and the signal scope that further commands would reuse."""
        with self._scope_lock:
            if self._scope is not None:
                self._scope.close()
                self._scope = None
        with self._lock:
            if self._rules is not None:
                self._rules.close()

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` in the sandbox with `options` for `Popen`. Raises `OSError` as `Popen` does."""
        match self.backend:
            case Backend.NONE:
                return subprocess.Popen(argv, **options)
            case Backend.LANDLOCK:
                return self._start_in_landlock(argv, options)
            case Backend.BWRAP:
                return self._start_in_bwrap(argv, options)
            case Backend.SEATBELT:
                return subprocess.Popen(seatbelt_arguments(self.profile, argv, self._mount_points()), **options)

    @contextmanager
    def watch_command(self) -> Iterator[list[str]]:
        """Guard the protected places while a command runs; afterwards kill the processes that it left.

        The yielded list is filled when the context ends: a line for each protected place that the command changed, and
        for other warnings. Raises `OSError` if the places cannot be snapshotted before.
        """
        told: list[str] = []
        me = threading.get_ident()
        if self.profile.guarded and self.backend is not Backend.NONE:
            self._guards[me] = CommandGuard(self.profile)
        self._watched[me] = []
        try:
            yield told
        finally:
            strays = self._end_strays(me)
            if (guard := self._guards.pop(me, None)) is not None:
                told += guard.end(strays)

    def _end_strays(self, me: int) -> OSError | None:
        """Kill the processes that the commands of a thread left; return the error if some may still be running."""
        problem = None
        for thread, outside in self._watched.pop(me):
            try:
                with _no_collection():
                    end_strays(thread, outside)
            except OSError as error:
                problem = error
            thread.end()
        return problem

    def _mount_points(self) -> list[Path]:
        """Return the protected paths to mount read-only."""
        if not self.profile.guarded:
            return []
        guard = self._guards.get(threading.get_ident())
        return (guard.snapshot if guard else take_snapshot(self.profile)).mount_points()

    def _start_in_bwrap(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        assert self._program is not None
        handle = os.memfd_create("filter", os.MFD_CLOEXEC)
        try:
            os.write(handle, self._filter)
            os.lseek(handle, 0, os.SEEK_SET)
            cwd = str(options.get("cwd") or self.profile.cwd)
            line = bwrap_arguments(self._program, self.profile, argv, cwd, handle, self._mount_points())
            inherited = (*options.pop("pass_fds", ()), handle)
            return subprocess.Popen(line, **options, pass_fds=inherited)
        finally:
            os.close(handle)

    def _start_in_landlock(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        watched = self._watched.get(threading.get_ident())
        if watched is None or self._abi < _SIGNALS_SINCE:
            return self._in_walls(lambda: subprocess.Popen(argv, **options))
        with _no_collection():
            with self._scope_lock:
                self._scope = self._scope or SignalScope()
                thread = self._scope.start_thread(self._confine_thread)
                watched.append((thread, self._scope.outside))
            return thread.call(lambda: subprocess.Popen(argv, **options))

    def _in_walls(self, act: Callable[[], _T]) -> _T:
        """Call `act` in a thread that is restricted to the profile and ends afterwards."""
        with _no_collection():
            thread = RestrictedThread(self._confine_thread)
            try:
                return thread.call(act)
            finally:
                thread.end()

    def _confine_thread(self) -> None:
        """Restrict this thread to the profile, irrevocably; raise `SandboxError` if a test shows no effect."""
        assert self._rules is not None
        with self._lock:
            rules = self._rules.open_rules()
            syscalls.forbid_new_privileges()
            syscalls.drop_capabilities()
            syscalls.syscall(syscalls.LANDLOCK_RESTRICT_SELF, rules, 0)
        syscalls.install_filter(self._filter)
        if _can_write_to_device() or not syscalls.has_filter():
            raise SandboxError("the kernel accepted the rules and does not enforce them")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection, so that no finalizer of an unrelated object runs in a restricted thread."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _can_write_to_device() -> bool:
    """Return True if this thread can write /dev/urandom, which everyone may unless Landlock forbids it."""
    try:
        os.close(os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True
    return True
