"""The environment of child processes: the person's own, without the virtual environment of nexus.

If nexus is started from an activated environment, or with its folder on `PATH`, then nexus's `python3` and `pip` are
first on `PATH`. Commands of the model and of the person must not get them, unless the project uses that environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.paths import Places, private_dir, project_root
from nexus_cli.config.worktree_record import read_git_file
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import real_path
from nexus_cli.core.shared_types import Environ

CHILD_MARK = "NEXUS_CHILD_OF"
"""Variable that marks the processes of one child; a nested child appends its own value."""
IN_SESSION = "NEXUS_IN_SESSION"
"""Variable of the model's commands and of hooks: a `nexus` that they start may not change what is permitted."""
MAX_NESTED = 3
"""Most runs of nexus around another one, each started by a command or hook of the one before."""
_INTERPRETER_VARIABLES = ("VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables by which programs find an interpreter in a virtual environment."""
_GIT_PLACES = """
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_DIR GIT_GRAFT_FILE GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE
    GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_SHALLOW_FILE GIT_WORK_TREE
""".split()
"""Variables with which git tells its hooks the repository: those of `git rev-parse --local-env-vars` that are paths."""


def own_environment() -> str:
    """Return the real path of the virtual environment that nexus runs in, "" if there is none."""
    return os.path.realpath(sys.prefix) if sys.prefix != sys.base_prefix else ""


def is_of_project(venv: str, folder: Path, environ: Environ) -> bool:
    """Return True if the environment `venv` belongs to the project of `folder`.

    It does if its parent is `folder` or a folder above, up to the repository's root (`.venv` of the working folder), or
    if it is activated and anywhere in that repository.
    """
    real_folder = real_path(folder)
    root = project_root(real_folder)
    if not Path(venv).is_relative_to(root):
        return False
    activated = environ.get("VIRTUAL_ENV", "")
    by_intent = bool(activated) and os.path.realpath(activated) == venv and os.path.exists(root / ".git")
    return by_intent or real_folder.is_relative_to(Path(venv).parent)


def refuse_endless_runs(environ: Environ) -> None:
    """Raise `NexusError` in a run of nexus that has more than `MAX_NESTED` others around it.

    A git hook that calls nexus is called again by the commits of nexus, and each of these runs costs money.
    """
    if len(environ.get(CHILD_MARK, "").split()) > MAX_NESTED:
        raise NexusError(
            "limit",
            "not started",
            f"{MAX_NESTED + 1} runs of nexus are waiting for this one, each started by the previous run",
            "Check for a hook or script that calls nexus and is called by nexus",
        )


def working_folder() -> Path:
    """Return the current folder, `/` if it has vanished."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.sep)


def host_environment(environ: Environ, folder: Path | None = None) -> dict[str, str]:
    """Return `environ` without nexus's own virtual environment, for a program that runs in `folder` (default: the
    working folder). In a repository other than that of the working folder, the program gets none of `_GIT_PLACES`: with
    the variables of a git hook, it would commit to the repository of that hook."""
    env = copy_environ(environ)
    venv, folder = own_environment(), folder or working_folder()
    if (variables := [name for name in _GIT_PLACES if name in env]) and project_root(real_path(folder)) != project_root(
        real_path(working_folder())
    ):
        for name in variables:
            del env[name]
    if not venv or is_of_project(venv, folder, environ):
        return env
    entries = env.get("PATH", "").split(os.pathsep)
    path_entries = _leave_out(entries, str(folder), os.path.join(venv, "bin"))
    if path_entries != entries:
        env["PATH"] = os.pathsep.join(path_entries) or os.defpath
    for name in _INTERPRETER_VARIABLES:
        value = env.get(name, "")
        if value and real_path(value).is_relative_to(venv):
            del env[name]
            if name == "VIRTUAL_ENV":
                env.pop("VIRTUAL_ENV_PROMPT", None)
    return env


def _leave_out(entries: list[str], folder: str, programs: str) -> list[str]:
    """Return the entries of a PATH in `folder` without those that lead to the folder `programs`. Compares by inode,
    which is cheaper than by real paths."""
    try:
        status = os.stat(programs)
    except OSError:
        return entries
    remaining = []
    for entry in entries:
        with suppress(OSError):
            # An empty entry means the working folder, and so does an empty PATH.
            if entry and os.path.samestat(os.stat(os.path.join(folder, entry)), status):
                continue
        remaining.append(entry)
    return remaining


def own_index(environ: Environ, project: Path) -> dict[str, str]:
    """Return the variable with the index of a git hook in `environ`, if that is in the git folder of `project`.

    `git commit -a` and `git commit FILE` give their hooks an index of their own: the repository's has no changes.
    """
    name = "GIT_INDEX_FILE"
    if name not in environ:
        return {}
    index = real_path(working_folder() / environ[name])
    is_own = index.is_relative_to(read_git_file(project) or real_path(project / ".git"))
    return {name: str(index)} if is_own else {}


def add_own_program(env: dict[str, str], folders: Places) -> None:
    """Append a folder with only a link to `nexus` to the PATH of a `host_environment` that does not have it. Never
    raises."""
    program = Path(os.path.realpath(sys.prefix), "bin", "nexus")  # walls hide what a path passes before a `..`
    if shutil.which("nexus", path=env.get("PATH", os.defpath)) or not os.access(program, os.X_OK):
        return
    link = folders.cache / "bin" / "nexus"
    try:
        if not link.is_symlink() or os.readlink(link) != str(program):
            path = private_dir(link.parent) / f"nexus-{os.getpid()}"
            path.symlink_to(program)
            path.replace(link)
    except OSError:
        return
    env["PATH"] = os.pathsep.join((env.get("PATH") or os.defpath, str(link.parent)))
