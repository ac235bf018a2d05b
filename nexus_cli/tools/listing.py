"""List the files below a folder: those that git would track, else those that `.gitignore` files leave.

Symbolic links are listed, never followed, even where git still knows files below a name that became one.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.paths import places
from nexus_cli.tools import process
from nexus_cli.tools.atomic_write import is_draft
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError, read_regular_file

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_SECONDS = 30.0
_RULES_LIMIT = 1024 * 1024
_SUBMODULES = 8
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES")
_LS = (
    *("-c", "core.fsmonitor=false", "-c", "protocol.allow=never"),
    *("ls-files", "-co", "--exclude-standard", "-z"),
)
"""No monitor and no fetching: a repository's own configuration could name commands there; reading must run none."""


def list_files(root: Path, project: Path, stop: StopFlag) -> list[str]:
    """Return paths of files and links below `root`, relative to it, with `/`, sorted by letters; blocking.

    A folder whose every file is ignored is listed all the same when it is the one asked for, as `rg` does it. Stored
    keys are left out: the project may be the person's home.
    """
    root = Path(os.path.realpath(root))
    found = _list_by_git(root, stop, 0)
    if not found:
        rules = [*_inherited_rules(root, project)]
        found = list(_walk(root, rules, stop)) or (list(_walk(root, [], stop)) if rules else [])
    keys = os.path.relpath(os.path.realpath(places().keys), root) + "/"
    return sorted({one for one in found if not is_draft(one.rpartition("/")[2]) and not one.startswith(keys)})


def is_regular_file(root: Path, path: str) -> bool:
    """Return True if a listed path is a regular file and no link."""
    try:
        return stat.S_ISREG(os.lstat(root / path).st_mode)
    except OSError:
        return False


def find_program(name: str) -> str | None:
    """Return the absolute path of a program on the PATH, never one found through a relative entry."""
    found = shutil.which(name)
    return found if found is not None and os.path.isabs(found) else None


def _list_by_git(root: Path, stop: StopFlag, depth: int) -> list[str]:
    """Return the files that git lists, with nested repositories; empty if git does not know."""
    git = find_program("git")
    if git is None or depth > _SUBMODULES:
        return []
    env = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = process.run_process([git, *_LS], cwd=root, env=env, stop=stop, seconds=_SECONDS, merge=False)
    except OSError:
        return []
    stop.raise_if_pressed()
    if done.status != 0 or done.timed_out or done.uncounted:
        return []
    found = []
    direct: dict[str, bool] = {}
    for name in {os.fsdecode(part) for part in done.output.split(b"\0") if part}:
        bare = name.rstrip("/")
        parent = bare.rpartition("/")[0]
        if parent not in direct:
            direct[parent] = not parent or os.path.realpath(root / parent) == os.path.join(root, parent)
        if not direct[parent]:
            continue
        try:
            mode = os.lstat(root / bare).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            found += [f"{bare}/{inner}" for inner in _list_by_git(root / bare, stop, depth + 1)]
        else:
            found.append(bare)
    return found


Rules = Sequence[tuple[str, "GitIgnoreSpec"]]
"""Ignore files with the prefix that leads from their folder to the root of the walk, outermost first."""


def _inherited_rules(root: Path, project: Path) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """Yield the rules of the folders above `root`, up to the project."""
    top = Path(os.path.realpath(project))
    if root == top or not root.is_relative_to(top):
        return
    steps = root.relative_to(top).parts
    for i in range(len(steps)):
        spec = _read_rules(top.joinpath(*steps[:i]))
        if spec is not None:
            yield "/".join(steps[i:]) + "/", spec


def _walk(root: Path, inherited: Rules, stop: StopFlag) -> Iterator[str]:
    waiting = [("", inherited)]
    while waiting:
        stop.raise_if_pressed()
        prefix, rules = waiting.pop()
        folder = root / prefix
        own = _read_rules(folder)
        if own is not None:
            rules = [*rules, (f"\0{prefix}", own)]
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git" and not _is_ignored(path + "/", rules):
                    waiting.append((path + "/", rules))
            elif not _is_ignored(path, rules):
                yield path


def _is_ignored(path: str, rules: Rules) -> bool:
    """Return the innermost file that has a rule for the path decides."""
    for prefix, spec in reversed(rules):
        relative = path[len(prefix) - 1 :] if prefix.startswith("\0") else prefix + path
        include = spec.check_file(relative).include
        if include is not None:
            return bool(include)
    return False


def _read_rules(folder: Path) -> GitIgnoreSpec | None:
    try:
        content = read_regular_file(folder / ".gitignore", _RULES_LIMIT)
    except (OSError, ToolError):
        return None
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  (only outside git, and slow to load)

    try:
        return GitIgnoreSpec.from_lines(content.data.decode("utf-8", "replace").splitlines())
    except ValueError:
        return None
