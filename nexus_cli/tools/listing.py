"""List the files below a folder: those that git would track, in a repository or as if there were one; files of
untracked Python environments are left out.

Symbolic links are listed, never followed, even if git's index still has files below a name that became a link.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.programs import find_program
from nexus_cli.config.project_environment import SETTINGS, split_environments
from nexus_cli.config.protected_places import BUILD_FOLDERS, SecretPlaces
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.real_files import open_folder, open_listable, real_path, scan_folder, stat_at, stat_real
from nexus_cli.sandbox.own_git import Git
from nexus_cli.tools import process
from nexus_cli.tools.atomic_write import is_draft
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError

_SECONDS = 30.0
_SUBMODULES = 8


def list_files(root: Path, project: Path, stop: StopFlag) -> list[str]:
    """Return the files and links below the real path `root`, relative to it, with `/`, sorted by code point. Blocks.

    If all files of `root` are ignored they are listed nevertheless, as `rg` does. Links are never followed, not even if
    a folder becomes one meanwhile. Credentials are left out, because the project may be the home folder.
    """
    try:
        with open_folder(root) as handle:
            program = find_program("git", project)
            files = _list_with_git(program, handle, root, project, stop) if program else []
            files = files or list(_walk(handle, BUILD_FOLDERS, stop)) or list(_walk(handle, frozenset(), stop))
    except OSError:
        return []
    secrets = SecretPlaces(places(), project)
    hidden = secrets.are_below(root)
    file_names = {path for path in files if not is_draft(path.rpartition("/")[2])}
    return sorted(path for path in file_names if not (hidden and secrets.find(root / path, root)))


def check_folder(target: Path) -> None:
    """Raise `ToolError` if the real path `target` is no folder, `OSError` if it cannot be listed."""
    with open_folder(target.parent) as parent:
        if not stat.S_ISDIR(stat_real(parent, target.name).st_mode):
            raise ToolError("is not a folder")
        with open_folder(target.name, inside=parent) as folder, open_listable(folder):
            return  # an unreadable folder raised here, so that it is not reported as "no files"


def is_regular_file(root: Path, path: str) -> bool:
    """Return True if a listed path is a regular file, not a link."""
    try:
        return stat.S_ISREG(os.lstat(root / path).st_mode)
    except OSError:
        return False


def _list_with_git(program: str, handle: int, root: Path, project: Path, stop: StopFlag) -> list[str]:
    """Return the files below the open folder `root` that git lists: in its repository; without one, or if that ignores
    all of them, as if the project, or `root` itself, were one."""
    with suppress(OSError):
        # A submodule has its git folder in that of the repository above it.
        if files := _list_by_git(Git(program, root, project=project_root(root)), handle, stop, 0):
            return files
        with TemporaryDirectory(prefix="nexus-git-") as name:
            empty = real_path(name)
            for folder in ("objects", "refs"):
                (empty / folder).mkdir()
            (empty / "HEAD").write_text("ref: refs/heads/none\n")
            for top in dict.fromkeys((real_path(project), root)):
                if root.is_relative_to(top):
                    git_options = f"--git-dir={empty}", f"--work-tree={top}"
                    git = Git(program, root, project=top, reads=(empty,))
                    if files := _list_by_git(git, handle, stop, 0, git_options):
                        return files
    return []


def _list_by_git(git: Git, root: int, stop: StopFlag, depth: int, options: tuple[str, ...] = ()) -> list[str]:
    """Return the files that git lists below the folder `root`, including nested repositories; [] if git cannot. The
    options `options` name another repository than its own. Raises `TimeoutError`."""
    if depth > _SUBMODULES:
        return []
    try:
        git_in_root = replace(git, cwd=_handle_path(root))
        outcome = process.run_git(
            git_in_root, *options, "ls-files", "-cot", "--exclude-standard", "-z", stop=stop, seconds=_SECONDS
        )
    except OSError:
        return []
    stop.raise_if_pressed()
    if outcome.timed_out:
        raise TimeoutError
    if outcome.status != 0 or outcome.uncounted:
        return []
    files = []
    tagged = [os.fsdecode(part) for part in outcome.output.split(b"\0") if part]
    untracked, _ = split_environments(path[2:] for path in tagged if path.startswith("?"))
    changed = (entry[2:] for entry in tagged if not entry.startswith("?"))
    paths = {path.rstrip("/") for path in (*untracked, *changed)}
    folders = group_pairs((parent, last) for parent, _, last in (path.rpartition("/") for path in paths))
    for parent, names in folders.items():
        # git may have followed a new link: only files in the real folder count.
        with suppress(OSError), open_folder(parent, inside=root) as folder:
            for last in names:
                name = f"{parent}/{last}" if parent else last
                files += [name] if _is_file(folder, last) else _list_nested(git, folder, last, name, stop, depth)
    return files


def _is_file(folder: int, name: str) -> bool:
    try:
        return not stat.S_ISDIR(stat_at(folder, name).st_mode)
    except OSError:
        return False


def _list_nested(git: Git, folder: int, last: str, name: str, stop: StopFlag, depth: int) -> list[str]:
    """Return the files of the repository `last` in `folder`, each prefixed by `name`; [] if it is no folder."""
    try:
        with open_folder(last, inside=folder) as nested:
            files = _list_by_git(git, nested, stop, depth + 1) or _walk(nested, BUILD_FOLDERS, stop)
            return [f"{name}/{inner}" for inner in files]
    except OSError:
        return []


def _handle_path(folder: int) -> Path:
    """Return a path by which a child can enter the open folder, even if its name was replaced by a link."""
    command = getattr(fcntl, "F_GETPATH", None)  # macOS, which has no /proc
    if command is None:
        return Path(f"/proc/self/fd/{folder}")
    return Path(os.fsdecode(fcntl.fcntl(folder, command, bytes(1024)).partition(b"\0")[0]))


def _walk(root: int, skips: frozenset[str], stop: StopFlag) -> Iterator[str]:
    """Yield the files of folders whose names are not in `skips`, and that are neither git's nor Python environments."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with open_folder(prefix, inside=root) as folder, scan_folder(folder) as entries:
                children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        if prefix and (SETTINGS, False) in children:
            continue
        for name, is_folder in children:
            stop.raise_if_pressed()
            if not is_folder:
                yield prefix + name
            elif name != ".git" and name not in skips:
                waiting.append(f"{prefix}{name}/")
