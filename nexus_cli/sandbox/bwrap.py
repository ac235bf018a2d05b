"""Find bubblewrap, and build its arguments from a sandbox profile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nexus_cli.config.paths import home_folder, is_below
from nexus_cli.config.programs import find_program
from nexus_cli.config.protected_places import GIT_FOLDER
from nexus_cli.core.real_files import real_path
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.syscalls import KEPT_CAPABILITIES


def find_bwrap(project: Path | None, search: str | None = None) -> Path | None:
    """Return the first `bwrap` on the PATH that only root or we can replace and `config/programs` starts, or None."""
    for folder in (search if search is not None else os.environ.get("PATH", "")).split(os.pathsep):
        candidate = find_program("bwrap", project, {"PATH": folder})
        if candidate is None:
            continue
        program = real_path(candidate)
        if all(map(_is_ours_alone, (program, *program.parents, *Path(candidate).parents))):
            return program
    return None


def _is_ours_alone(path: Path) -> bool:
    status = path.stat()
    return status.st_uid in (0, os.getuid()) and not status.st_mode & stat.S_IWOTH


def bwrap_arguments(
    profile: SandboxProfile, cwd: str, filter_descriptor: int, read_only: Sequence[Path], *, own_network: bool = True
) -> list[str]:
    """Return the arguments of bubblewrap for a program in the sandbox of `profile`.

    Without `own_network` it has the network of its caller. `read_only` are existing paths in writable folders to keep
    read-only. Only existing paths are mounted over: bwrap would leave an empty file for a missing one.
    """
    line = ["--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if own_network and not profile.network:
        line.append("--unshare-net")
    for root in profile.roots:
        if root.exists():
            line += ["--dev-bind" if root.is_relative_to("/dev") else "--bind", str(root), str(root)]
    line += [*_keep_read_only(read_only, profile), *_show_claude_home(profile)]
    covered: list[str] = []
    for path in sorted({os.path.realpath(hidden) for hidden in profile.hidden if os.path.lexists(hidden)}):
        if is_below(path, *covered) and not is_below(path, *profile.revealed):
            continue
        if os.path.isdir(path):
            # Parents first: mounted later, a folder would cover what is below it.
            inside = sorted(folder for folder in profile.revealed if is_below(folder, path))
            line += ["--tmpfs", path, *_show(inside, profile)]
            # Kept read-only is what is shown in it: anything else would come back into sight.
            line += _keep_read_only([folder for folder in read_only if is_below(folder, *inside)], profile)
            line += ["--remount-ro", path]
            covered.append(path)
        elif os.path.exists(path):
            line += ["--ro-bind", "/dev/null", path]
    if os.getuid() == 0:
        # /proc has kernel settings that name programs which the kernel runs outside any sandbox.
        line += ["--remount-ro", "/proc"]
    return [*line, *end_arguments(cwd, filter_descriptor)]


@contextmanager
def open_command(
    program: Path | None, arguments: Sequence[str], argv: Sequence[str]
) -> Iterator[tuple[list[str], int]]:
    """Yield the command line that runs `argv` under bubblewrap, and the descriptor from which bubblewrap reads its
    `arguments`: a list of processes in the sandbox has the command, not its walls."""
    with open_memory_file(b"".join(os.fsencode(argument) + b"\0" for argument in arguments)) as handle:
        yield [str(program), "--args", str(handle), "--", *argv], handle


@contextmanager
def open_memory_file(content: bytes) -> Iterator[int]:
    """Yield the descriptor of a file in memory, such as a filter of system calls, for a program that reads and closes
    it."""
    handle = os.memfd_create("nexus", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(handle, 0, os.SEEK_SET)
        yield handle
    finally:
        os.close(handle)


def end_arguments(cwd: str, filter_descriptor: int) -> list[str]:
    """Return the last arguments: few capabilities for root, the folder and the filter."""
    line: list[str] = []
    if os.getuid() == 0:
        line = ["--cap-drop", "ALL", *(word for name in KEPT_CAPABILITIES for word in ("--cap-add", f"CAP_{name}"))]
    return [*line, "--chdir", cwd, "--seccomp", str(filter_descriptor)]


def _show_claude_home(profile: SandboxProfile) -> list[str]:
    """Return the arguments that show a hook a folder of its own as `~/.claude`, with what is there read-only."""
    place = os.path.realpath(os.path.join(home_folder(), ".claude"))
    if profile.claude_home is None or not os.path.isdir(place):
        return []
    line = ["--bind", str(profile.claude_home), place]
    for name in sorted(os.listdir(place)):
        if (own_folder := profile.claude_home / name).is_symlink():  # bubblewrap would make its target
            own_folder.unlink()
        line += ["--ro-bind-try", f"{place}/{name}", f"{place}/{name}"]
    return line


def _show(paths: Sequence[Path], profile: SandboxProfile) -> list[str]:
    """Return the arguments that make `paths` appear in an empty folder; links stay links."""
    line: list[str] = []
    mounted: list[Path] = []
    for path in paths:
        is_link = path.is_symlink()
        if path in profile.roots and not is_link:
            line += ["--bind", str(path), str(path)]
            continue
        if is_below(path, *mounted):
            continue
        mounted += [] if is_link else [path]
        line += ["--symlink", os.readlink(path), str(path)] if is_link else ["--ro-bind-try", str(path), str(path)]
    return line


def _keep_read_only(read_only: Sequence[Path], profile: SandboxProfile) -> list[str]:
    """Return the arguments that mount `read_only` read-only, and bind git folders above them so that they cannot move.

    Other folders above them are not bound, because files could not be renamed between two mounts. If one is replaced,
    the comparison afterwards notices.
    """
    mounts: dict[Path, str] = {}
    for path in read_only:
        root = next((root for root in profile.writable if path.is_relative_to(root)), path)
        mounts[path] = "--ro-bind"
        for parent in path.parents:
            if parent == root or not parent.is_relative_to(root):
                break
            if root not in (profile.project, *profile.added) or GIT_FOLDER in parent.relative_to(root).parts:
                mounts.setdefault(parent, "--bind")
    # Parents first: mounted later, a folder would cover what is below it.
    return [word for path in sorted(mounts) for word in (mounts[path], str(path), str(path))]
