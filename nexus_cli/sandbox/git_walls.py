"""The walls around the git that nexus runs for itself (`own_git`): what git sees of a project, and if it may run there.

It sees the project, the git folders that belong to it, the person's git settings and the system. Where no sandbox
works, git runs only in a repository that `git_repository` finds plain.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from nexus_cli.config.git_configuration import read_configuration
from nexus_cli.config.programs import ProgramRefused
from nexus_cli.config.worktree_record import MAX_OF_LINK, find_worktree, read_git_file
from nexus_cli.core.real_files import read_beginning, real_path
from nexus_cli.core.shared_types import Paths
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.git_files import UnsafeConfiguration
from nexus_cli.sandbox.git_repository import check_repository
from nexus_cli.sandbox.git_settings import find_named, read_git_settings
from nexus_cli.sandbox.profile import find_worktree_folder
from nexus_cli.sandbox.walls import Walls, own_backend

_SYSTEM = "/etc/gitconfig /etc/gitattributes /etc/passwd /etc/group /etc/nsswitch.conf /usr/local/etc/gitconfig".split()
"""What git reads of the system, beside what every program does."""
_GIT_COMPANIONS = ("libexec/git-core", "share/git-core", "lib", "etc/gitconfig")
"""What belongs to a git program, beside its folder `bin`."""
_MAX_SEARCHED = 20_000
"""Most folders that are searched for a pipe."""
_OF_GIT_NAMES = re.compile(r"/\.git|\.git/")
"""What is in a git folder, `.git` or `NAME.git`, or named like `.gitignore`."""
_CONFIGURATIONS = ("config", "config.worktree")
_NESTED = 8
"""Most worktrees made from one another."""


def find_walls(git: Path, project: Path, reads: Paths, writes: Paths) -> Walls:
    """Return the walls of a run of the program `git` that reads `project`; raise `ProgramRefused` if it must not run
    there without any."""
    project = real_path(project)
    if own_backend().backend is Backend.NONE:
        _refuse_unless_plain(project)
    settings_files = read_git_settings(os.environ).visible
    program = real_path(git)
    of_git = (git, program, program.parent, *(program.parent.parent / name for name in _GIT_COMPANIONS))
    system = (*_SYSTEM, *map(str, (*settings_files, *of_git)))
    return Walls(map(str, (project, *list_git_folders(project), *reads)), map(str, writes), system=system)


def find_pipe(project: Path) -> str:
    """Return the path of a pipe in the place of a file of git, or named by the repository's settings, for which git
    waits; "" if there is none."""
    project = real_path(project)
    paths = [
        f"{folder}/{name}"
        for place in (project, *list_git_folders(project))
        for folder, _, names in islice(os.walk(place), _MAX_SEARCHED)
        for name in names
        if place != project or _OF_GIT_NAMES.search(f"{folder}/{name}".removeprefix(str(project.parent)))
    ]
    configurations = [Path(path) for path in paths if os.path.basename(path) in _CONFIGURATIONS]
    return next((path for path in (*paths, *map(str, find_named(configurations, project))) if _is_pipe(path)), "")


def _is_pipe(path: str) -> bool:
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def _refuse_unless_plain(project: Path) -> None:
    try:
        if os.path.lexists(project / ".git"):
            check_repository(str(project))
    except (UnsafeConfiguration, OSError) as error:
        why = str(error) if isinstance(error, UnsafeConfiguration) else "the repository cannot be read"
        raise ProgramRefused(f"without a sandbox, nexus does not run git here: {why}") from error


def list_git_folders(project: Path) -> Iterator[Path]:
    """Yield the git folders outside `project` that belong to it: those that know it in turn, and those of which a
    worktree of nexus borrows objects."""
    if (folder := find_worktree_folder(project)) is not None:
        yield folder.parent.parent
    elif (folder := _submodule_folder(project)) is not None:
        yield folder
    place = project
    for _ in range(_NESTED):
        if (record := find_worktree(place)) is None:
            break
        yield record.repository
        place = record.source


def _submodule_folder(project: Path) -> Path | None:
    """Return the git folder of a submodule, in that of the repository above it; None if it does not name `project`."""
    folder = read_git_file(project) or project
    with suppress(OSError, ValueError):
        work_tree = dict(read_configuration(read_beginning(folder / "config", MAX_OF_LINK))).get("core.worktree")
        if work_tree and real_path(folder / work_tree) == project:
            return folder
    return None
