"""Start a program of our own inside walls: it reads some paths, writes fewer, and has no network.

For programs that parse what others made. Landlock and seccomp, which cost least, in a thread that ends afterwards; else
bubblewrap. Where neither works the program starts as it is: its caller gives it an environment without secrets anyway.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.sandbox.confined_launch import restrict_thread
from nexus_cli.sandbox.landlock import build_path_rules, landlock_abi
from nexus_cli.sandbox.restricted_thread import RestrictedThread, no_collection
from nexus_cli.sandbox.seccomp import assemble_filter, can_filter

SYSTEM = (
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
)
"""What every program reads to start."""
_NEWEST_ABI = 7
_TRUNCATE_SINCE = 3


class Walls:
    """The walls of one program; an argument of `tools/process.run_process`."""

    def __init__(self, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Initialize with the files and folders that may be read besides `SYSTEM`, and those that may be written."""
        self._reads, self._writes = reads, writes

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` as `start_walled`."""
        return start_walled(argv, reads=self._reads, writes=self._writes, **options)

    def watch_command(self) -> AbstractContextManager[Sequence[str]]:
        """Return a context without effect: nothing protected can be changed."""
        return nullcontext(())


def start_walled(
    argv: Sequence[str], *, reads: Sequence[str] = (), writes: Sequence[str] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """Start `argv` with `options` for `Popen`; the program reads `SYSTEM` and `reads`, writes `writes` (absolute
    paths), and opens no socket. Raises `OSError` as `Popen` does."""
    allowed = (*SYSTEM, argv[0], *reads)
    if (thread := _restrict(allowed, writes)) is not None:
        with no_collection():
            try:
                return thread.call(lambda: subprocess.Popen(argv, **options))
            finally:
                thread.end()
    program = _find_bwrap()
    if program is None:
        return subprocess.Popen(argv, **options)
    filter_file = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        os.write(filter_file, _filter(own_processes=True))
        os.lseek(filter_file, 0, os.SEEK_SET)
        line = _bwrap_line(program, allowed, writes, str(options.get("cwd") or "/"), filter_file)
        inherited = (*options.pop("pass_fds", ()), filter_file)
        return subprocess.Popen([*line, *argv], **options, pass_fds=inherited)
    finally:
        os.close(filter_file)


def _restrict(reads: Sequence[str], writes: Sequence[str]) -> RestrictedThread | None:
    """Return a thread that Landlock and a filter restrict; None where the kernel cannot, or does not hold them."""
    abi = _abi()
    if not abi:
        return None
    try:
        rules = build_path_rules(reads, (os.devnull, *writes), abi)  # `Popen` opens it in the thread
        try:
            with no_collection():
                return RestrictedThread(partial(restrict_thread, rules, _filter(own_processes=False)))
        finally:
            os.close(rules)
    except OSError:
        return None


@cache
def _abi() -> int:
    return min(landlock_abi(), _NEWEST_ABI) if can_filter() else 0


@cache
def _filter(*, own_processes: bool) -> bytes:
    """Return the filter of system calls: no socket of any kind, no change of a file's mode or times."""
    return assemble_filter(
        frozenset(),
        unix_sockets=False,
        keep_metadata=True,
        keep_sizes=not own_processes and _abi() < _TRUNCATE_SINCE,
        keep_others=not own_processes,
        is_root=os.getuid() == 0,
    )


@cache
def _find_bwrap() -> Path | None:
    """Return bubblewrap if it works here; it is tested once since the system was started."""
    if platform.system() != "Linux":
        return None
    from nexus_cli.sandbox.probe import find_backend  # noqa: PLC0415  (a kernel without Landlock)

    return find_backend("bwrap", own=places()).program


def _bwrap_line(program: Path, reads: Sequence[str], writes: Sequence[str], cwd: str, filter_file: int) -> list[str]:
    """Return the beginning of bwrap's command line, in which only `reads` and `writes` exist."""
    line = [str(program), "--unshare-all", "--dev", "/dev", "--proc", "/proc"]
    for option, paths in (("--ro-bind-try", reads), ("--bind-try", writes)):
        for path in dict.fromkeys(paths):
            real = os.path.realpath(path)
            line += [option, real, real]
            if real != path:
                line += ["--symlink", real, path] if os.path.islink(path) else [option, real, path]
    line += ["--remount-ro", "/", "--remount-ro", "/dev"]
    if os.getuid() == 0:
        line += ["--remount-ro", "/proc", "--cap-drop", "ALL"]
    return [*line, "--chdir", cwd, "--seccomp", str(filter_file), "--"]
