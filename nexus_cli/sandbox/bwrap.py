"""bubblewrap: mounts, a network and a process table of its own, by a program of the system."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from nexus_cli.config.programs import find_program
from nexus_cli.config.protected_places import GIT_FOLDER
from nexus_cli.sandbox.profile import Profile, is_below
from nexus_cli.sandbox.syscalls import KEPT_CAPABILITIES


def find_bwrap(project: Path | None, search: str | None = None) -> Path | None:
    """Return the real path of the first `bwrap` on the PATH that only its owner, root or us, can have put there.

    One that `config/programs` would not start, or that others can replace, is never used.
    """
    for folder in (search if search is not None else os.environ.get("PATH", "")).split(os.pathsep):
        found = find_program("bwrap", project, {"PATH": folder})
        if found is None:
            continue
        program = Path(os.path.realpath(found))
        if all(map(_is_ours_alone, (program, *program.parents, *Path(found).parents))):
            return program
    return None


def _is_ours_alone(path: Path) -> bool:
    about = path.stat()
    return about.st_uid in (0, os.getuid()) and not about.st_mode & stat.S_IWOTH


def bwrap_arguments(
    program: Path, profile: Profile, argv: Sequence[str], cwd: str, filter_descriptor: int, carve_outs: Sequence[Path]
) -> list[str]:
    """Return the command line that runs `argv` in the walls of `profile`.

    `carve_outs` are existing paths in writable folders that stay read-only. Only what exists is mounted over: a mount
    point that had to be made would stay behind as an empty file.
    """
    line = [str(program), "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if not profile.network:
        line.append("--unshare-net")
    for root in profile.roots:
        if root.exists():
            line += ["--dev-bind" if root.is_relative_to("/dev") else "--bind", str(root), str(root)]
    line += _keep_read_only(carve_outs, profile)
    covered: list[str] = []
    shown = list(map(str, profile.shown))
    for path in sorted({os.path.realpath(hidden) for hidden in profile.hidden if os.path.lexists(hidden)}):
        if is_below(path, covered) and not is_below(path, shown):
            continue
        if os.path.isdir(path):
            # A folder comes before what it holds: mounted later it would cover it.
            inside = sorted(one for one in profile.shown if is_below(str(one), [path]))
            line += ["--tmpfs", path, *_show(inside, profile)]
            line += _keep_read_only([one for one in carve_outs if is_below(str(one), [path])], profile)
            line += ["--remount-ro", path]
            covered.append(path)
        elif os.path.exists(path):
            line += ["--ro-bind", "/dev/null", path]
    if os.getuid() == 0:
        # /proc holds the settings of the kernel, which names programs there that it runs outside of all walls.
        line += ["--remount-ro", "/proc", "--cap-drop", "ALL"]
        line += [word for name in KEPT_CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
    return [*line, "--chdir", cwd, "--seccomp", str(filter_descriptor), "--", *argv]


def _show(paths: Sequence[Path], profile: Profile) -> list[str]:
    """Return what makes `paths` appear in an empty folder; a link stays one, and leads where the command may go."""
    line: list[str] = []
    seen: list[str] = []
    for path in paths:
        is_link = path.is_symlink()
        if path in profile.roots and not is_link:
            line += ["--bind", str(path), str(path)]
            continue
        if is_below(str(path), seen):
            continue
        seen += [] if is_link else [str(path)]
        line += ["--symlink", os.readlink(path), str(path)] if is_link else ["--ro-bind-try", str(path), str(path)]
    return line


def _keep_read_only(carve_outs: Sequence[Path], profile: Profile) -> list[str]:
    """Return the mounts that keep `carve_outs`, and hold the folders of git so that none can be moved away with them.

    Other folders of the project are not held: nothing could be renamed between two mounts. What is put in the place of
    one is compared afterwards.
    """
    mounts: dict[Path, str] = {}
    for path in carve_outs:
        root = next((root for root in profile.writable if path.is_relative_to(root)), path)
        mounts[path] = "--ro-bind"
        for parent in path.parents:
            if parent == root or not parent.is_relative_to(root):
                break
            if root != profile.project or GIT_FOLDER in parent.relative_to(root).parts:
                mounts.setdefault(parent, "--bind")
    # A parent comes before what it holds: mounted later it would cover it.
    return [word for path in sorted(mounts) for word in (mounts[path], str(path), str(path))]
