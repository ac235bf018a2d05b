"""Start a child process in the sandbox of a profile; `tools/process.run_process` takes a `Confinement`.

bwrap and seatbelt wrap the command line. Landlock, seccomp and capabilities apply to one thread and are inherited by
its children: a short-lived thread restricts itself and starts the child; this process stays unrestricted.
Every failure is an `OSError` before the command runs: no command ever starts with less than the requested sandbox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nexus_cli.core.environ import copy_environ
from nexus_cli.sandbox import confined_launch, syscalls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bounds import bound_reader
from nexus_cli.sandbox.bwrap import bwrap_arguments, open_command, open_memory_file
from nexus_cli.sandbox.command_guard import CommandGuard
from nexus_cli.sandbox.confined_launch import SandboxError, restrict_thread
from nexus_cli.sandbox.landlock import SIGNALS_SINCE, TRUNCATE_SINCE, RuleCache, restrict_signals
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.protected_snapshot import take_snapshot
from nexus_cli.sandbox.restricted_thread import (
    RestrictedThread,
    SignalScope,
    end_strays,
    no_garbage_collection,
)
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.seccomp import AF_INET, AF_INET6, AF_NETLINK, assemble_filter
from nexus_cli.sandbox.session_network import SessionNetwork

_LAUNCHER = """
import sys, types
def load(name, source=""):
    module = sys.modules[name] = types.ModuleType(name)
    exec(source, module.__dict__)
    return module
load("nexus_cli")
load("nexus_cli.sandbox").syscalls = load("nexus_cli.sandbox.syscalls", {!r})
load("nexus_cli.sandbox.confined_launch", {!r}).launch()
""".format(*(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (syscalls, confined_launch)))
"""Read once: if nexus is installed in the project, a command may change the files."""
_ALL_NETWORKS = frozenset({AF_INET, AF_INET6, AF_NETLINK})


def launch_arguments(interpreter: str, rules: int, program: int, descriptors: Sequence[int]) -> list[str]:
    """Return the head of a command line that restricts itself; it inherits and closes all the descriptors."""
    numbers = ",".join(map(str, (rules, program, *descriptors)))
    return [interpreter, "-I", "-S", "-c", _LAUNCHER, numbers]


class Confinement:
    """The sandbox of one profile, for any number of commands. Reuse it: it caches the Landlock rules."""

    def __init__(self, profile: SandboxProfile, probe: BackendProbe, network: SessionNetwork | None = None) -> None:
        """Prepare the sandbox of `profile` with the backend of `probe`; the profile `none` is not sandboxed.

        Commands have the loopback of `network`, which they share, if the profile has no network itself. Raises
        `SandboxError` if another profile has no backend.
        """
        self.profile, self.backend = profile, probe.backend if profile.name != "none" else Backend.NONE
        if probe.backend is Backend.NONE and profile.name != "none":
            raise SandboxError(probe.why)
        self.network = network if self.backend in (Backend.LANDLOCK, Backend.BWRAP) else None
        self.has_loopback = self.network is not None or self.backend is Backend.BWRAP
        """True if commands have a loopback that is not the person's."""
        self._program = probe.program
        self._lock = threading.Lock()
        self._scope_lock = threading.Lock()
        """Guards `_scope`. A second lock, because a thread that is started in the scope takes `_lock`."""
        self._abi = probe.abi
        self._watched: dict[int, list[tuple[RestrictedThread, int]]] = {}
        self._guards: dict[int, list[CommandGuard]] = {}
        self._temps: dict[int, str] = {}
        """The temporary folders of the commands that run in `read`, by their thread."""
        self._rules: RuleCache | None = None
        self._scope: SignalScope | None = None
        self._filter = b""
        if self.backend is Backend.LANDLOCK:
            shared = replace(profile, network=True) if self.network is not None else profile
            self._rules = RuleCache(shared, probe.abi)
        if self.backend in (Backend.LANDLOCK, Backend.BWRAP):
            own_network = self.backend is Backend.BWRAP  # and a process table and IPC of its own
            self._filter = assemble_filter(
                _ALL_NETWORKS if profile.network or own_network or self.network else frozenset(),
                unix_sockets=profile.unix_sockets,
                keep_metadata=profile.name == "read",
                keep_sizes=not own_network and probe.abi < TRUNCATE_SINCE,
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
        if self.profile.name == "read" and self.backend is not Backend.NONE:
            argv = bound_reader(argv)
            if temp := self._temps.get(threading.get_ident()):
                options["env"] = {
                    **(options.get("env") or copy_environ()),
                    **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temp),
                }
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
        notices: list[str] = []
        me = threading.get_ident()
        guards = self._guards[me] = []
        self._watched[me] = []
        try:
            if self.backend is not Backend.NONE:
                for profile in self.profile.each_guarded():
                    guards.append(CommandGuard(profile))
                if self.profile.name == "read" and self.profile.temp is not None:
                    self._temps[me] = tempfile.mkdtemp(dir=self.profile.temp)
            yield notices
        finally:
            strays = self._end_strays(me)
            if temp := self._temps.pop(me, None):
                shutil.rmtree(temp, ignore_errors=True)
            for guard in self._guards.pop(me):
                notices += guard.end(strays)

    def _end_strays(self, me: int) -> OSError | None:
        """Kill the processes that the commands of a thread left; return the error if some may still be running."""
        problem = None
        for thread, outside in self._watched.pop(me):
            try:
                with no_garbage_collection():
                    end_strays(thread, outside)
            except OSError as error:
                problem = error
            thread.end()
        return problem

    def _mount_points(self) -> list[Path]:
        """Return the protected paths to mount read-only."""
        guards = self._guards.get(threading.get_ident())
        looks = [guard.snapshot for guard in guards] if guards else map(take_snapshot, self.profile.each_guarded())
        for_hook = self.profile.claude_home is not None
        return [path for look in looks for path in look.mount_points(for_hook=for_hook)]

    def _start_in_bwrap(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        with ExitStack() as opened:
            handle = opened.enter_context(open_memory_file(self._filter))
            cwd = str(options.get("cwd") or self.profile.cwd)
            places, alone = self._mount_points(), self.network is None
            arguments = bwrap_arguments(self.profile, cwd, handle, places, own_network=alone)
            line, read = opened.enter_context(open_command(self._program, arguments, argv))
            inherited = (*options.pop("pass_fds", ()), handle, read)
            if self.network is not None:
                line = [*self.network.prefix, *self.network.closing, *line]
                inherited = (*inherited, *self.network.handles)
            return subprocess.Popen(line, **options, pass_fds=inherited)

    def _start_in_landlock(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        watched = self._watched.get(threading.get_ident())
        network = None if self.network is None or self.network.joins_threads else self.network
        confine = self._confine_thread if network is None else self._confine_signals

        def start() -> subprocess.Popen[bytes]:
            if network is None:
                return subprocess.Popen(argv, **options)
            return self._start_in_network(network, argv, options)

        if watched is None or self._abi < SIGNALS_SINCE:
            with no_garbage_collection():
                thread = RestrictedThread(confine)
                try:
                    return thread.call(start)
                finally:
                    thread.end()
        with no_garbage_collection():
            with self._scope_lock:
                self._scope = self._scope or SignalScope()
                thread = self._scope.start_thread(confine)
                watched.append((thread, self._scope.outside))
            return thread.call(start)

    def _start_in_network(
        self, network: SessionNetwork, argv: Sequence[str], options: dict[str, Any]
    ) -> subprocess.Popen[bytes]:
        """Start a program that joins the network, restricts itself to the profile and executes `argv`: a process that
        is restricted already cannot join."""
        assert self._rules is not None
        with self._lock, open_memory_file(self._filter) as handle:
            rules = self._rules.open_rules()
            line = [*network.prefix, *launch_arguments(network.interpreter, rules, handle, network.handles), *argv]
            inherited = (*options.pop("pass_fds", ()), rules, handle, *network.handles)
            return subprocess.Popen(line, **options, pass_fds=inherited)

    def _confine_signals(self) -> None:
        """Keep the signals of this thread and its children among themselves, as far as the kernel can."""
        if self._abi >= SIGNALS_SINCE:
            restrict_signals()

    def _confine_thread(self) -> None:
        """Restrict this thread to the profile, irrevocably; raise `SandboxError` if a test shows no effect."""
        assert self._rules is not None
        if self.network is not None:
            syscalls.join_network(self.network.handles[0])
        with self._lock:
            restrict_thread(self._rules.open_rules(), self._filter)
