"""Start the programs that nexus runs for itself: git, rg, a pager, an editor, the clipboard. Never one of the project.

All go through this module. It finds a program outside the project and the worktrees of nexus, and starts it with a PATH
that leads into neither, because git, pagers and editors start other programs. Commands of the model and of the person
are run by `tools/process` instead.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nexus_cli.config.command_records import is_unchecked
from nexus_cli.config.host_environment import host_environment, working_folder
from nexus_cli.config.paths import is_below, is_home_or_root, places, project_root
from nexus_cli.config.worktree_record import find_source, worktrees_root
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.real_files import follow_path, real_path
from nexus_cli.core.shared_types import Environ

GIT_OPTIONS = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "protocol.allow=never",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.splitIndex=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "worktree.useRelativePaths=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
"""Disable hooks, fsmonitor and transports: for these a repository's configuration names programs."""
_GIT_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_ALLOWED_GIT_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables of git that are kept: they only name the person's own configuration."""

REAL_INTERPRETER = os.path.realpath(sys.executable)
"""The Python that runs this process. Looked up at its start: a link in the project may lead elsewhere later."""


class ProgramRefused(PermissionError):
    """A program must not be started; `strerror` has the reason."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(errno.EACCES, why, *([path] if path else []))

    def __str__(self) -> str:
        return str(self.strerror)


# -- finding -----------------------------------------------------------------------------------------------------------


def find_program(name: str, folder: Path | None = None, environ: Environ = os.environ) -> str | None:
    """Return the path of a program on the PATH that neither `folder`'s project nor the world can write, or None."""
    closed = _project_places(folder)
    for entry in _outside_entries(environ, closed):
        program = None if _is_writable_by_others(os.path.realpath(entry)) else shutil.which(name, path=entry)
        if program is None or _resolves_into(program, closed):
            continue
        if not _is_writable_by_others(os.path.dirname(os.path.realpath(program))):
            return program
    return None


def find_named_program(name: str, folder: Path | None = None, environ: Environ = os.environ) -> str:
    """Return the path of a program that the person named; raise `ProgramRefused` for one of the project."""
    closed = _project_places(folder)
    if os.sep in name:
        program: str | None = os.path.join(folder or working_folder(), os.path.expanduser(name))
    else:
        entries = _outside_entries(environ, closed)
        program = next(filter(None, (shutil.which(name, path=entry) for entry in entries)), None)
    if program is not None and _resolves_into(program, closed):
        raise ProgramRefused("nexus does not run programs from the project", name)
    if program is None and shutil.which(name, path=environ.get("PATH", os.defpath)):
        raise ProgramRefused("found only in the project, and nexus does not run programs from the project", name)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return program


def own_interpreter(folder: Path | None = None) -> str:
    """Return the path of the Python that runs nexus, for its helpers; of an environment in the project the Python that
    the environment was made of, because commands may replace the environment's.

    Raises `ProgramRefused` if that is in the project too. Helpers that need packages still start with the Python of the
    environment: this process loads its own modules from there.
    """
    closed = _project_places(folder)
    for path in (sys.executable, REAL_INTERPRETER):
        if not _resolves_into(path, closed):
            return path
    why = "the Python of nexus is in a folder that commands can change: install nexus elsewhere"
    raise ProgramRefused(why, sys.executable)


def program_environment(environ: Environ, folder: Path | None = None) -> dict[str, str]:
    """Return the environment of a program: its PATH leads neither into `folder`'s project nor into our environment."""
    env = host_environment(environ, folder)
    # An empty PATH means the working folder.
    env["PATH"] = os.pathsep.join(_outside_entries(env, _project_places(folder))) or os.defpath
    return env


def _project_places(folder: Path | None) -> tuple[str, ...]:
    """Return the real paths of folders whose programs are never started: the projects of `folder` and of the working
    folder, the worktrees of nexus, and their source projects."""
    folders = [str(worktrees_root())]
    for place in {folder or working_folder(), working_folder()}:
        root = project_root(real_path(place))
        folders += [str(root), os.path.realpath(find_source(root))]
    # A project that is `/` or the home folder contains the system's or the person's own programs.
    return tuple(dict.fromkeys(path for path in folders if not is_home_or_root(path)))


def _outside_entries(environ: Environ, closed: Sequence[str]) -> list[str]:
    """Return the absolute entries of the PATH that do not lead into `closed`."""
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    return [entry for entry in entries if os.path.isabs(entry) and not _resolves_into(entry, closed)]


def _resolves_into(path: str, folders: Sequence[str]) -> bool:
    """Return True if `path` is in one of the real paths `folders`, or leads through one by a link: a command of the
    project could change that link."""
    try:
        return any(is_below(place, *folders) for place, _ in follow_path(path))
    except OSError:
        return True


def _is_writable_by_others(folder: str) -> bool:
    """Return True if others may write the real path `folder`, or rename a folder above it."""
    for place in (folder, *map(str, Path(folder).parents)):
        try:
            mode = os.stat(place).st_mode
        except OSError:
            return True
        if mode & stat.S_IWOTH and (place == folder or not mode & stat.S_ISVTX):
            return True
    return False


# -- git ---------------------------------------------------------------------------------------------------------------


def git_command(git: str, projects: Iterable[Path], *arguments: str) -> list[str]:
    """Return a command line of git; raise `ProgramRefused` if git must not run now in one of the projects whose
    repository it reads."""
    if any(is_unchecked(project, places().data) for project in projects):
        raise ProgramRefused("changes that a command made in the repository have not been checked yet")
    return [git, *GIT_OPTIONS, *arguments]


def git_environment(folder: Path, environ: Environ = os.environ) -> dict[str, str]:
    """Return the environment of git in `folder`: no network, no prompt, only `_ALLOWED_GIT_VARIABLES` of git's own."""
    variables = copy_environ(environ).items()
    env = {name: value for name, value in variables if not name.startswith("GIT_") or name in _ALLOWED_GIT_VARIABLES}
    return {**program_environment(env, folder), **_GIT_SETTINGS}


# -- starting and ending -----------------------------------------------------------------------------------------------


def run_program(argv: Sequence[str], *, env: Environ, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program with `subprocess.run` and capture its output."""
    return subprocess.run(argv, env=env, capture_output=True, check=False, **options)


def start_helper(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program of ours in `/`, with an empty environment and a process group of its own. Its input is a pipe and
    its output is dropped, unless `options` for `Popen` set them."""
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    return subprocess.Popen(argv, cwd="/", env={}, start_new_session=True, bufsize=0, **options)


async def start_program_async(argv: Sequence[str], *, env: Environ, **options: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*argv, env=env, **options)


def end_group(group: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process group that may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
