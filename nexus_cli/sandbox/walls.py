"""Start a program that nexus runs for itself (`own_git`, `tools/own_worker`) inside walls: a positive list of paths.

The program reads only what it is given, writes even less, opens no socket, and is bounded. Uses Landlock where the
kernel has it, because that costs least, else bubblewrap or seatbelt. Without any of them the program starts as it is:
callers decide if it may.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from nexus_cli.config.paths import home_folder, is_below, places
from nexus_cli.config.protected_places import credential_paths, own_paths
from nexus_cli.core.real_files import follow_links
from nexus_cli.core.shared_types import Paths
from nexus_cli.sandbox import landlock
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bounds import bound_command, least_limit
from nexus_cli.sandbox.bwrap import end_arguments, open_command, open_memory_file
from nexus_cli.sandbox.confined_launch import SandboxError, restrict_thread
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.restricted_thread import RestrictedThread, no_garbage_collection
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.seccomp import assemble_filter, can_filter

_SYSTEM = (
    "/bin /sbin /lib /lib32 /lib64 /libx32 /usr/bin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/share "
    "/usr/local/lib /usr/local/libexec /usr/local/share /nix/store /gnu/store /run/current-system "
    "/home/linuxbrew/.linuxbrew /opt/homebrew /etc/ld.so.cache /etc/ld.so.preload /etc/ld.so.conf /etc/ld.so.conf.d "
    "/etc/alternatives /etc/localtime /sys/devices/system/cpu"
).split()
"""What programs and their libraries read of the system."""
_READABLE, _WRITABLE = ("/dev/random", "/dev/urandom"), ("/dev/null",)
_BOUNDS = (
    ("c", resource.RLIMIT_CORE, 0, 1),
    ("t", resource.RLIMIT_CPU, 900, 1),
    ("v", resource.RLIMIT_AS, 4 << 30, 1024),
    ("f", resource.RLIMIT_FSIZE, 64 << 30, 512),
)
"""Option of `ulimit`, limit, value and unit: no core file, 15 minutes of CPU, 4 GiB of memory, 64 GiB in a file."""
_PROCESSES = 8192
"""Most processes and threads of the person, above which the program can start none."""
_MAX_KEPT = 8
"""Most restricted threads that are kept."""

_threads: dict[tuple[object, ...], RestrictedThread] = {}
"""Threads that Landlock restricts, by what they allow: to restrict one takes longer than to start a program."""
_lock = Lock()
"""Held while a kept thread is looked for and used."""


def _forget_threads() -> None:
    """Begin without threads in a forked process, which has none of its parent's."""
    global _lock
    _lock = Lock()
    _threads.clear()


os.register_at_fork(after_in_child=_forget_threads)


@cache
def own_backend() -> BackendProbe:
    """Return the backend for our own programs. Landlock needs no probe: it tests itself when a thread is restricted."""
    abi = landlock.landlock_abi()
    if abi > 0 and can_filter():
        return BackendProbe(Backend.LANDLOCK, abi=min(abi, landlock.NEWEST_ABI))
    from nexus_cli.sandbox.probe import find_backend  # noqa: PLC0415  (a kernel without Landlock)

    return find_backend("auto", own=places())


class Walls:
    """The walls of one program. `start` and `watch_command` are those of a `ChildSandbox`."""

    def __init__(self, reads: Iterable[str], writes: Iterable[str] = (), *, system: Iterable[str] = ()) -> None:
        """Initialize with what the program may read and write, beside what it needs to start (`system`).

        Names in `system` may be links. `reads` are real paths, others are left out; `start` raises for a link among
        `writes`. Keys of the person and nexus's own files inside `reads` stay hidden.
        """
        self._probe = own_backend()
        self._system, self._writes = (*_SYSTEM, *system), tuple(writes)
        self._reads = tuple(
            place for place in dict.fromkeys(reads) if os.path.realpath(place) == place and os.path.exists(place)
        )

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` in the walls with `options` for `Popen`. Raises `OSError` as `Popen` does."""
        match self._probe.backend:
            case Backend.LANDLOCK:
                run = self._start_in_landlock(lambda: subprocess.Popen(argv, **options))
            case Backend.BWRAP:
                # What a path passes before a `..` is not in there.
                folder, name = os.path.split(argv[0])
                run = self._start_in_bwrap(
                    bound_command([os.path.join(os.path.realpath(folder), name), *argv[1:]], _BOUNDS), options
                )
            case Backend.SEATBELT:
                run = subprocess.Popen(self._in_seatbelt(argv), **options)
            case Backend.NONE:
                run = subprocess.Popen(argv, **options)
        if sys.platform == "linux":
            for _, limit, value, _ in (*_BOUNDS, ("", resource.RLIMIT_NPROC, _PROCESSES, 1)):
                with suppress(OSError, ValueError):  # it has ended
                    resource.prlimit(run.pid, limit, (least_limit(limit, value),) * 2)
        return run

    def watch_command(self) -> AbstractContextManager[Sequence[str]]:
        """Return a context without lines: the program cannot change what is protected."""
        return nullcontext(())

    def _hidden(self) -> list[str]:
        """Return the places with keys that lie in what is read: a project may hold the home folder."""
        inside = tuple(f"{root.rstrip('/')}/" for root in self._reads)
        return [path for path in _resolve((*credential_paths(), *own_paths(places()))) if path.startswith(inside)]

    def _filter(self) -> bytes:
        """Return the filter of system calls: no socket, no change of a mode or a time."""
        probe = self._probe
        keeps_sizes = probe.backend is Backend.LANDLOCK and probe.abi < landlock.TRUNCATE_SINCE
        return assemble_filter(
            frozenset(),
            keep_metadata=True,
            pretend_times=True,
            keep_sizes=keeps_sizes,
            keep_others=True,
            is_root=os.getuid() == 0,
        )

    def _start_in_landlock(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        hidden = self._hidden()
        key = (self._system, self._reads, self._writes, *map(_identity, (*self._reads, *self._writes)))
        with _lock, no_garbage_collection():
            thread = (None if hidden else _threads.get(key)) or self._restrict(hidden)
            try:
                return thread.call(start)
            finally:
                if hidden:  # new files beside a hidden place need a rule each
                    thread.end()
                elif key not in _threads:
                    if len(_threads) >= _MAX_KEPT:
                        _threads.pop(next(iter(_threads))).end()
                    _threads[key] = thread

    def _restrict(self, hidden: list[str]) -> RestrictedThread:
        with landlock.open_ruleset(self._probe.abi, network=False) as (rules, handled):
            self._allow(rules, handled, hidden)
            return RestrictedThread(lambda: restrict_thread(rules, self._filter()))

    def _allow(self, rules: int, handled: int, hidden: list[str]) -> None:
        for place in dict.fromkeys(map(os.path.realpath, self._system)):
            landlock.allow(rules, place, landlock.READ & handled)
        for place in self._reads:
            if any(hidden_path.startswith(f"{place.rstrip('/')}/") for hidden_path in hidden):
                landlock.allow(rules, place, landlock.READ_DIR & handled)
                for path in landlock.cover(place, hidden, []):
                    landlock.allow(rules, path, landlock.READ & handled)
                continue
            with _open_real(place) as handle:
                landlock.allow_open(rules, handle, landlock.READ & handled)
        for path in (*_READABLE, *_WRITABLE):
            landlock.allow(rules, path, landlock.READ_FILE & handled)
        for path in _WRITABLE:
            landlock.allow(rules, path, (landlock.WRITE_FILE | landlock.TRUNCATE) & handled)
        for place in self._writes:
            with _open_real(place) as handle:
                landlock.allow_open(rules, handle, landlock.WRITE & ~landlock.EXECUTE & handled)

    def _start_in_bwrap(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        with ExitStack() as opened:
            handle = opened.enter_context(open_memory_file(self._filter()))
            line = ["--unshare-all"]
            inside, handles = set[str](), [handle]

            def bind(option: str, places: Sequence[str]) -> None:
                for place in sorted(places):
                    handles.append(opened.enter_context(_open_real(place)))
                    line.extend((option, f"/proc/self/fd/{handles[-1]}", place))

            for place in sorted({link for path in self._system for link in follow_links(path)}):
                if is_below(place, *inside):
                    continue
                if os.path.islink(place):
                    line += ["--symlink", os.readlink(place), place]
                elif os.path.exists(place):
                    line += ["--ro-bind", place, place]
                    inside.add(place)
            bind("--ro-bind", self._reads)
            for place in (*_READABLE, *_WRITABLE):
                line += ["--dev-bind", place, place]
            for place in sorted(self._hidden()):
                if os.path.isdir(place):
                    line += ["--tmpfs", place, "--remount-ro", place]
                elif os.path.exists(place):
                    line += ["--ro-bind", "/dev/null", place]
            bind("--bind", self._writes)
            cwd = os.path.realpath(options.get("cwd") or os.getcwd())
            line += ["--remount-ro", "/", *end_arguments(cwd, handle)]
            line, read = opened.enter_context(open_command(self._probe.program, line, argv))
            inherited = (*options.pop("pass_fds", ()), *handles, read)
            return subprocess.Popen(line, **options, pass_fds=inherited)

    def _in_seatbelt(self, argv: Sequence[str]) -> list[str]:
        """Return the command line on macOS, where the system stays readable, but neither keys nor the home folder."""
        hidden = (Path(home_folder()), *map(Path, self._hidden()))
        writes = tuple(map(Path, self._writes))
        readable = (*map(Path, (*self._reads, *self._system)), *writes)
        profile = SandboxProfile("read", readable[0], readable[0], writable=writes, hidden=hidden, revealed=readable)
        return seatbelt_arguments(profile, argv, ())


@lru_cache(4)
def _resolve(paths: Paths) -> tuple[str, ...]:
    return tuple(map(os.path.realpath, paths))


@contextmanager
def _open_real(path: str) -> Iterator[int]:
    """Open a path without reading it; raise `SandboxError` if a link leads elsewhere."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.path.realpath(f"/proc/self/fd/{handle}") != path:
            raise SandboxError("a path that the program uses contains a symbolic link")
        yield handle
    finally:
        os.close(handle)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino
