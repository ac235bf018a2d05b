"""Start a child process inside the walls of a profile; `tools/process.run_process` takes a `Confinement`.

bwrap and seatbelt are programs in front of the command. Landlock, seccomp and capabilities belong to a thread and are
inherited: a thread that lives for one start gives up its rights, starts the child, and ends; this process stays free.
Every failure is an `OSError` before the command runs: nothing is ever started with fewer walls than asked for.
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
from nexus_cli.sandbox.carve_outs import take_snapshot
from nexus_cli.sandbox.command_guard import CommandGuard
from nexus_cli.sandbox.landlock import RuleCache
from nexus_cli.sandbox.profile import Profile
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.seccomp import AF_INET, AF_INET6, AF_NETLINK, assemble_filter
from nexus_cli.sandbox.walled_thread import SignalScope, WalledThread, end_strays

_T = TypeVar("_T")
_ALL_NETWORKS = frozenset({AF_INET, AF_INET6, AF_NETLINK})
_TRUNCATE_SINCE, _SIGNALS_SINCE = 3, 6
"""Versions of Landlock that know truncation, and that keep signals inside."""


class WallError(OSError):
    """A wall that was asked for does not stand; nothing was started."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, f"the sandbox could not be set up: {why}")


class Confinement:
    """The walls of one profile, for any number of commands; keep it, its rules are cached."""

    def __init__(self, profile: Profile, probe: BackendProbe) -> None:
        """Prepare the walls of `profile` by the backend that `probe` found; a profile `none` has none.

        Raises `WallError` without a backend.
        """
        self.profile, self.backend = profile, probe.backend if profile.name != "none" else Backend.NONE
        if probe.backend is Backend.NONE and profile.name != "none":
            raise WallError(probe.why)
        self._program = probe.program
        self._lock = threading.Lock()
        self._scope_lock = threading.Lock()
        """Held where the scope is used: a thread in it takes the other one."""
        self._abi = probe.abi
        self._watched: dict[int, list[tuple[WalledThread, int]]] = {}
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
        """Release what is kept for further commands."""
        with self._scope_lock:
            if self._scope is not None:
                self._scope.close()
                self._scope = None
        with self._lock:
            if self._rules is not None:
                self._rules.close()

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` inside the walls; `options` are those of `Popen`. Raises `OSError` as it does."""
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
        """End what a command left running, and hold the protected places around it.

        The list is filled as the context ends: a line for each place that the command had changed, and for what else
        the person has to know. Raises `OSError` if the places cannot be compared afterwards.
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
        """End what the commands of a thread left running; return what stood in the way: it may still change things."""
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
        """Return the carve-outs that exist."""
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
        """Return what `act` returns in a thread that has the rights of the profile and ends with it."""
        with _no_collection():
            thread = WalledThread(self._confine_thread)
            try:
                return thread.call(act)
            finally:
                thread.end()

    def _confine_thread(self) -> None:
        """Give up, in this thread and for good, what the profile does not grant; then see that it is so."""
        assert self._rules is not None
        with self._lock:
            rules = self._rules.open_rules()
            syscalls.forbid_new_privileges()
            syscalls.drop_capabilities()
            syscalls.syscall(syscalls.LANDLOCK_RESTRICT_SELF, rules, 0)
        syscalls.install_filter(self._filter)
        if _can_write_to_device() or not syscalls.has_filter():
            raise WallError("the kernel accepted the rules and does not enforce them")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the finalizers of other people's objects from running in a thread that has not their rights."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _can_write_to_device() -> bool:
    """True if this thread may open for writing what only Landlock keeps it from: a device that all may write."""
    try:
        os.close(os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True
    return True
