"""List the files below a folder: those that git would track, else those that no `.gitignore` ignores; of Python
environments none that is untracked.

Symbolic links are listed, never followed, even if git's index still has files below a name that became a link.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.programs import find_program
from nexus_cli.config.project_environment import SETTINGS, split_environments
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.core.real_files import open_folder, open_listable, real_path, stat_at, stat_real
from nexus_cli.sandbox.own_git import Git
from nexus_cli.tools import process
from nexus_cli.tools.atomic_write import is_draft
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError, read_file_at

if TYPE_CHECKING:
    from nexus_cli.tools.ignore_rules import IgnoreRules

_SECONDS = 30.0
_RULES_LIMIT = 1024 * 1024
_SUBMODULES = 8


def list_files(root: Path, project: Path, stop: StopFlag) -> list[str]:
    """Return the files and links below the real path `root`, relative to it, with `/`, sorted by code point. Blocks.

    If all files of `root` are ignored they are listed nevertheless, as `rg` does. Links are never followed, not even if
    a folder becomes one meanwhile. Credentials are left out, because the project may be the home folder.
    """
    try:
        with open_folder(root) as handle:
            program = find_program("git", project)
            # A submodule has its git folder in that of the repository above it.
            git = Git(program, root, project=project_root(root)) if program else None
            files = _list_by_git(git, handle, stop, 0)
            if not files:
                rules = _inherited_rules(root, project, stop)
                files = list(_walk(handle, rules, stop)) or (list(_walk(handle, [], stop)) if rules else [])
    except OSError:
        return []
    secrets = SecretPlaces(places(), project)
    hidden = secrets.are_below(root)
    named = {path for path in files if not is_draft(path.rpartition("/")[2])}
    return sorted(path for path in named if not (hidden and secrets.find(root / path, root)))


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


def _list_by_git(git: Git | None, root: int, stop: StopFlag, depth: int) -> list[str]:
    """Return the files that git lists below the folder `root`, including nested repositories; [] if git cannot."""
    if git is None or depth > _SUBMODULES:
        return []
    try:
        here = replace(git, cwd=_handle_path(root))
        done = process.run_git(here, "ls-files", "-cot", "--exclude-standard", "-z", stop=stop, seconds=_SECONDS)
    except OSError:
        return []
    stop.raise_if_pressed()
    if done.status != 0 or done.timed_out or done.uncounted:
        return []
    files = []
    folders: dict[str, list[str]] = {}
    tagged = [os.fsdecode(part) for part in done.output.split(b"\0") if part]
    others, _ = split_environments(path[2:] for path in tagged if path.startswith("?"))
    for name in {path.rstrip("/") for path in (*others, *(one[2:] for one in tagged if not one.startswith("?")))}:
        parent, _, last = name.rpartition("/")
        folders.setdefault(parent, []).append(last)
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
            return [f"{name}/{inner}" for inner in _list_by_git(git, nested, stop, depth + 1)]
    except OSError:
        return []


def _handle_path(folder: int) -> Path:
    """Return a path by which a child can enter the open folder, even if its name was replaced by a link."""
    told = getattr(fcntl, "F_GETPATH", None)  # macOS, which has no /proc
    if told is None:
        return Path(f"/proc/self/fd/{folder}")
    return Path(os.fsdecode(fcntl.fcntl(folder, told, bytes(1024)).partition(b"\0")[0]))


Rules: TypeAlias = "Sequence[tuple[str, IgnoreRules]]"
"""Rules of each ignore file, with the prefix from its folder to the root of the walk; outermost first."""


def _inherited_rules(root: Path, project: Path, stop: StopFlag) -> Rules:
    """Return the rules of the folders above `root`, up to the project; [] if they ignore `root`."""
    top = real_path(project)
    found: list[tuple[str, IgnoreRules]] = []
    if root == top or not root.is_relative_to(top):
        return found
    steps = root.relative_to(top).parts
    for i in range(len(steps)):
        try:
            with open_folder(top.joinpath(*steps[:i])) as folder:
                rules = _read_rules(folder, stop)
        except OSError:
            break
        if rules is not None:
            found.append(("/".join(steps[i:]) + "/", rules))
        upper = [(prefix[: len(prefix) - len("/".join(steps[i + 1 :])) - 1], one) for prefix, one in found]
        if _is_ignored("", True, upper):
            return []
    return found


def _walk(root: int, inherited: Rules, stop: StopFlag) -> Iterator[str]:
    waiting = [("", inherited)]
    while waiting:
        prefix, rules = waiting.pop()
        try:
            with open_folder(prefix, inside=root) as folder:
                own = _read_rules(folder, stop)
                with open_listable(folder) as listed, os.scandir(listed) as entries:
                    found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        if own is not None:
            rules = [*rules, (f"\0{prefix}", own)]
        if prefix and (SETTINGS, False) in found:
            continue
        for name, is_folder in found:
            stop.raise_if_pressed()
            path = prefix + name
            if (is_folder and name == ".git") or _is_ignored(path, is_folder, rules):
                continue
            if is_folder:
                waiting.append((path + "/", rules))
            else:
                yield path


def _is_ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    """Return True if `path` is ignored; the innermost file with a matching rule decides."""
    for prefix, spec in reversed(rules):
        relative = path[len(prefix) - 1 :] if prefix.startswith("\0") else prefix + path
        ignored = spec.decide(relative.rstrip("/"), is_folder)
        if ignored is not None:
            return ignored
    return False


def _read_rules(folder: int, stop: StopFlag) -> IgnoreRules | None:
    stop.raise_if_pressed()
    try:
        content = read_file_at(folder, ".gitignore", _RULES_LIMIT)
    except (OSError, ToolError):
        return None
    from nexus_cli.tools.ignore_rules import read_ignore_rules  # noqa: PLC0415  (without git)

    return read_ignore_rules(content.data, stop.raise_if_pressed)
