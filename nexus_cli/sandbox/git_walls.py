"""The walls around the git that nexus runs for itself (`own_git`): a positive list of what it sees and writes.

Landlock where the kernel has it, because it costs less than a millisecond, else bubblewrap or seatbelt. Without any of
them git runs only in a repository that `git_repository` finds plain. `/bin/sh` sets the bounds, then becomes git.
"""

from __future__ import annotations

import os
import re
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.config.programs import ProgramRefused
from nexus_cli.config.protected_places import credential_paths, own_paths
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.core.real_files import read_beginning
from nexus_cli.sandbox import landlock, syscalls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.confined_launch import SandboxError, restrict_thread
from nexus_cli.sandbox.git_repository import NotPlain, check_repository
from nexus_cli.sandbox.git_settings import read_git_settings
from nexus_cli.sandbox.profile import SandboxProfile, find_worktree_folder, is_below
from nexus_cli.sandbox.restricted_thread import call_restricted
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.seccomp import assemble_filter, can_filter

_SYSTEM = (
    "/bin /sbin /lib /lib32 /lib64 /libx32 /usr/bin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/share "
    "/usr/local/lib /usr/local/libexec /usr/local/share /nix/store /gnu/store /run/current-system "
    "/home/linuxbrew/.linuxbrew /opt/homebrew /etc/ld.so.cache /etc/ld.so.preload /etc/ld.so.conf /etc/ld.so.conf.d "
    "/etc/alternatives /etc/gitconfig /etc/gitattributes /etc/passwd /etc/group /etc/nsswitch.conf /etc/localtime "
    "/usr/local/etc/gitconfig /sys/devices/system/cpu"
).split()
"""What git and its libraries read of the system."""
_OF_GIT = ("libexec/git-core", "share/git-core", "lib", "etc/gitconfig")
"""What belongs to a git program, beside its folder `bin`."""
_OPENED = (
    "HEAD index config config.worktree packed-refs shallow commondir gitdir logs/HEAD info/exclude info/attributes "
    "info/sparse-checkout objects/info/alternates"
).split()
"""Files of a git folder that many runs open."""
_READABLE, _WRITABLE = ("/dev/random", "/dev/urandom"), ("/dev/null",)
_BOUNDS = (
    ("t", resource.RLIMIT_CPU, 900, 1),
    ("v", resource.RLIMIT_AS, 4 << 30, 1024),
    ("f", resource.RLIMIT_FSIZE, 64 << 30, 512),
)
"""Option of `ulimit`, limit, value and unit: 15 minutes of CPU, 4 GiB of memory, 64 GiB in a file."""
_PROCESSES = 8192
"""Most processes and threads of the person, above which git can start none."""
_NESTED = 8
"""Most worktrees made from one another."""
_MOST_KEPT = 16
"""Most rule sets that are kept."""
_MOST_OF_GIT = 8192
_WORKTREE = re.compile(rb"^\s*worktree\s*=\s*([^\n\"#;]+?)\s*$", re.MULTILINE)

_kept: dict[tuple[object, ...], int] = {}
"""Descriptors of Landlock rules, by what they allow."""
_lock = threading.Lock()


@cache
def own_backend() -> BackendProbe:
    """Return the backend for our own git. Landlock needs no probe: it tests itself at every start."""
    abi = landlock.landlock_abi()
    if abi > 0 and can_filter():
        from nexus_cli.sandbox.probe import NEWEST_ABI  # noqa: PLC0415  (probe starts Python)

        return BackendProbe(Backend.LANDLOCK, abi=min(abi, NEWEST_ABI))
    from nexus_cli.sandbox.probe import find_backend  # noqa: PLC0415

    return find_backend("auto", own=places())


def find_walls(git: Path, project: Path, reads: tuple[Path, ...], writes: tuple[Path, ...]) -> GitWalls:
    """Return the walls of a run of the program `git` that reads `project`; raise `ProgramRefused` if it must not run
    there without any."""
    project = _real(project)
    _refuse_pipes(project)
    probe = own_backend()
    if probe.backend is Backend.NONE:
        _refuse_unless_plain(project)
    settings = read_git_settings(os.environ, project)
    program = _real(git)
    of_git = (git, program, program.parent, *(program.parent.parent / name for name in _OF_GIT))
    system = (*_SYSTEM, *map(str, (*settings.shown, *of_git)))
    seen = dict.fromkeys(map(str, (project, *_git_folders(project), *reads)))
    return GitWalls(probe, system, tuple(seen), tuple(map(str, writes)))


def _refuse_pipes(project: Path) -> None:
    """Raise `ProgramRefused` if a file that git opens at every run is a pipe, a socket or a device: git would wait."""
    for folder in (project / ".git", *_git_folders(project)):
        for name in _OPENED:
            try:
                mode = os.lstat(folder / name).st_mode
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise ProgramRefused(f"{folder / name} is no regular file: remove it")


def _refuse_unless_plain(project: Path) -> None:
    try:
        if os.path.lexists(project / ".git"):
            check_repository(str(project), str(project))
    except (NotPlain, OSError) as error:
        why = str(error) if isinstance(error, NotPlain) else "its repository cannot be read"
        raise ProgramRefused(f"without a sandbox git does not run here: {why}") from error


def _git_folders(project: Path) -> Iterator[Path]:
    """Yield the git folders outside `project` that belong to it: those that know it in turn, and those of which a
    worktree of nexus borrows objects."""
    if (folder := find_worktree_folder(project)) is not None:
        yield folder.parent.parent
    elif (folder := _submodule_folder(project)) is not None:
        yield folder
    place = project
    for _ in range(_NESTED):
        record = find_worktree(place)
        if record is None:
            break
        yield record.repository
        place = record.source


def _submodule_folder(project: Path) -> Path | None:
    """Return the git folder of a submodule, in that of the repository above it; None if it does not name `project`."""
    with suppress(OSError, ValueError):
        kind, _, named = os.fsdecode(read_beginning(project / ".git", _MOST_OF_GIT)).strip().partition(": ")
        folder = _real(project / named)
        found = _WORKTREE.search(read_beginning(folder / "config", _MOST_OF_GIT))
        if kind == "gitdir" and found and _real(folder / os.fsdecode(found[1])) == project:
            return folder
    return None


@cache
def _bounds() -> str:
    """Return the commands of a shell that set the bounds, none above the person's own."""
    words = "ulimit -c 0; "
    for option, limit, value, unit in _BOUNDS:
        hard = resource.getrlimit(limit)[1]
        words += f"ulimit -{option} {(value if hard == resource.RLIM_INFINITY else min(hard, value)) // unit}; "
    return words if sys.platform == "linux" else ""


class GitWalls:
    """The walls of one run of git. `start` and `watch_command` are those of a `ChildSandbox`."""

    def __init__(
        self, probe: BackendProbe, system: tuple[str, ...], seen: tuple[str, ...], writes: tuple[str, ...]
    ) -> None:
        """Paths of the `system` may be links. The others are real paths, else they are left out or refused."""
        self._probe, self._system, self._writes = probe, system, writes
        self._seen = tuple(one for one in seen if os.path.realpath(one) == one and os.path.lexists(one))

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start `argv` in the walls with `options` for `Popen`. Raises `OSError` as `Popen` does."""
        bounded = ["/bin/sh", "-c", f'{_bounds()}exec "$@"', "git", *argv]
        run = self._start(bounded, options)
        if sys.platform == "linux":  # `ulimit` has no option for it that all shells know
            with suppress(OSError, ValueError):
                hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
                most = _PROCESSES if hard == resource.RLIM_INFINITY else min(hard, _PROCESSES)
                resource.prlimit(run.pid, resource.RLIMIT_NPROC, (most, most))
        return run

    def _start(self, bounded: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        match self._probe.backend:
            case Backend.LANDLOCK:
                return self._start_in_landlock(bounded, options)
            case Backend.BWRAP:
                return self._start_in_bwrap(bounded, options)
            case Backend.SEATBELT:
                return subprocess.Popen(self._in_seatbelt(bounded), **options)
            case Backend.NONE:
                return subprocess.Popen(bounded, **options)

    def watch_command(self) -> AbstractContextManager[Sequence[str]]:
        """Return a context without lines: git cannot change what is protected."""
        return nullcontext(())

    def _hidden(self) -> list[str]:
        """Return the places with keys that lie in what git sees: a project may hold the home folder."""
        seen = tuple(f"{one.rstrip('/')}/" for one in self._seen)
        return [one for one in _resolve((*credential_paths(), *own_paths(places()))) if one.startswith(seen)]

    def _filter(self) -> bytes:
        probe = self._probe
        keeps_sizes = probe.backend is Backend.LANDLOCK and probe.abi < landlock.TRUNCATE_SINCE
        return _assemble_filter(keeps_sizes, os.getuid() == 0)

    def _start_in_landlock(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        rules = self._open_rules()
        try:
            return call_restricted(
                lambda: restrict_thread(rules, self._filter()), lambda: subprocess.Popen(argv, **options)
            )
        finally:
            os.close(rules)

    def _open_rules(self) -> int:
        """Return a descriptor of the Landlock rules, which the caller closes."""
        hidden = self._hidden()
        places = (*self._seen, *self._writes)
        key = (self._system, self._seen, self._writes, tuple(hidden), *map(_identity, places))
        with _lock:
            if hidden:  # new files beside a hidden place need a rule each
                return self._build_rules(hidden)
            if key not in _kept:
                rules = self._build_rules(hidden)
                if len(_kept) >= _MOST_KEPT:
                    os.close(_kept.pop(next(iter(_kept))))
                _kept[key] = rules
            return os.dup(_kept[key])

    def _build_rules(self, hidden: list[str]) -> int:
        with landlock.open_ruleset(self._probe.abi, network=False) as (rules, handled):
            for place in dict.fromkeys(map(os.path.realpath, self._system)):
                landlock.allow(rules, place, landlock.READ & handled)
            for place in self._seen:
                if any(one.startswith(f"{place}/") for one in hidden):
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
            return os.dup(rules)

    def _start_in_bwrap(self, argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
        with ExitStack() as opened:
            handle = os.memfd_create("filter", os.MFD_CLOEXEC)
            opened.callback(os.close, handle)
            os.write(handle, self._filter())
            os.lseek(handle, 0, os.SEEK_SET)
            line = [str(self._probe.program), "--unshare-all"]
            inside, handles = set[str](), [handle]
            for place in sorted({one for path in (*self._system, *self._seen) for one in _way(path)}):
                if os.path.islink(place):
                    line += ["--symlink", os.readlink(place), place]
                elif os.path.exists(place) and not is_below(place, inside):
                    line += ["--ro-bind", place, place]
                    inside.add(place)
            for place in (*_READABLE, *_WRITABLE):
                line += ["--dev-bind", place, place]
            for place in sorted(self._hidden()):
                if os.path.isdir(place):
                    line += ["--tmpfs", place, "--remount-ro", place]
                elif os.path.exists(place):
                    line += ["--ro-bind", "/dev/null", place]
            for place in self._writes:
                source = opened.enter_context(_open_real(place))
                handles.append(source)
                line += ["--bind", f"/proc/self/fd/{source}", place]
            line += ["--remount-ro", "/"]
            if os.getuid() == 0:
                line += ["--cap-drop", "ALL"]
                line += [word for name in syscalls.KEPT_CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
            cwd = os.path.realpath(options.get("cwd") or os.getcwd())
            line += ["--chdir", cwd, "--seccomp", str(handle), "--", *argv]
            inherited = (*options.pop("pass_fds", ()), *handles)
            return subprocess.Popen(line, **options, pass_fds=inherited)

    def _in_seatbelt(self, argv: Sequence[str]) -> list[str]:
        """Return the command line on macOS, where the system stays readable, but neither keys nor the home folder."""
        hidden = (Path(os.path.expanduser("~")), *map(Path, self._hidden()))
        writes = tuple(map(Path, self._writes))
        shown = (*map(Path, (*self._system, *self._seen)), *writes)
        profile = SandboxProfile("read", shown[0], shown[0], writable=writes, hidden=hidden, shown=shown)
        return seatbelt_arguments(profile, argv, ())


@cache
def _assemble_filter(keep_sizes: bool, is_root: bool) -> bytes:
    """Return the filter of system calls: no socket, no change of a mode or a time."""
    return assemble_filter(
        frozenset(), keep_metadata=True, pretend_times=True, keep_sizes=keep_sizes, keep_others=True, is_root=is_root
    )


@lru_cache(4)
def _resolve(paths: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(map(os.path.realpath, paths))


def _way(path: str) -> Iterator[str]:
    """Yield the links on the way to `path`, and its real path."""
    here = Path(path)
    for place in (*reversed(here.parents), here):
        if place.is_symlink() and os.path.realpath(place.parent) == str(place.parent):
            yield str(place)
    yield os.path.realpath(path)


@contextmanager
def _open_real(path: str) -> Iterator[int]:
    """Open a path without reading it; raise `SandboxError` if a link leads elsewhere."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.path.realpath(f"/proc/self/fd/{handle}") != path:
            raise SandboxError("a link is among the names that git writes")
        yield handle
    finally:
        os.close(handle)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
