"""Find the Python and Node environments of a project, for the PATH of sandboxed commands.

Found by reading: nothing is run. Programs of a project are as trusted as its other files, so that only commands that
are sandboxed, and may write, get these folders (`CallPermission.make_sandbox`); nexus starts none (`config/programs`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.core.real_files import read_beginning, real_path
from nexus_cli.core.shared_types import Environ, Paths

_MAX = 64 * 1024
"""Most bytes read of a settings file."""
SETTINGS = "pyvenv.cfg"
"""File in a Python environment, by which it is known."""
_IN_PROJECT = (".venv", "venv")
_CONDA = (".pixi/envs/default", ".conda", "env", "conda")
"""Environments of pixi and conda: folders with packages recorded in `conda-meta`."""
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)
_CONDA_PYTHON = re.compile(r"python-(\d+\.\d+)[\d.]*-[^-]+\.json")
_CONDA_NAME = re.compile(r"^(name|prefix):\s*[\"']?([^\s\"'#]+)", re.MULTILINE)
_UNSAFE_NAME = re.compile(r'[ $`!*@"\\\r\n\t]')


@dataclass(frozen=True, slots=True)
class ProjectEnvironment:
    """Folders of programs that commands in a project find first."""

    python: Path | None = None
    """The Python environment."""
    version: str = ""
    """Its version, such as `3.12`; "" if unknown."""
    place: str = ""
    """Its path as shown: relative to the project if it is inside."""
    is_conda: bool = False
    node: Paths = ()
    """Folders `node_modules/.bin`, the nearest first."""

    def describe(self) -> str:
        """Return `python 3.12 from .venv, programs of node_modules/.bin`; "" if nothing was found."""
        python = [f"python {self.version} from {self.place}".replace("  ", " ")] if self.python else []
        return ", ".join([*python, *(["programs of node_modules/.bin"] if self.node else [])])


def find_project_environment(project: Path, cwd: Path, environ: Environ) -> ProjectEnvironment:
    """Find the environments of `project` for commands in `cwd`: the nearest one, then `.venv`, `venv`, and those that
    uv, poetry, pixi and conda would use. An activated environment of the project comes first. Never raises."""
    root = real_path(project)
    folders = _list_ancestors(real_path(cwd), root)
    node = (folder / "node_modules" / ".bin" for folder in folders)
    paths = tuple(path for path in node if path.is_dir() and _is_inside(path, root))
    for candidate, may_be_outside in _candidates(folders, environ):
        programs = candidate / "bin"
        if not os.access(programs / "python", os.X_OK) or not (may_be_outside or _is_inside(programs, root)):
            continue
        version, is_conda = _read_version(candidate)
        if version is None:
            continue
        place = os.path.relpath(candidate, root) if candidate.is_relative_to(root) else str(candidate)
        return ProjectEnvironment(candidate, version, place, is_conda, paths)
    return ProjectEnvironment(node=paths)


def split_environments(untracked: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split untracked paths into the project's own files, and the folders of Python environments, each with a slash."""
    paths = list(untracked)
    folders = tuple(path.removesuffix(SETTINGS) for path in paths if path.endswith(f"/{SETTINGS}"))
    return [path for path in paths if not path.startswith(folders)], list(folders)


def use_project_environment(
    env: dict[str, str], project: Path, cwd: Path, *, is_sandboxed: bool
) -> tuple[dict[str, str], str]:
    """Return a `host_environment` with the programs of the project's environments first on the PATH, and a note, "" if
    there is none.

    A command that is not sandboxed gets `env` as it is, and a note: in a folder of the project anything may be called
    `git`.
    """
    environment = find_project_environment(project, cwd, env)
    folders = [str(environment.python / "bin")] if environment.python else []
    folders += map(str, environment.node)
    path = env.get("PATH", os.defpath).split(os.pathsep)
    if not folders or path[: len(folders)] == folders:
        return env, ""
    if not is_sandboxed:
        return env, f"not used by commands outside the sandbox: {environment.describe()}"
    other_entries = [entry for entry in path if entry not in folders]
    env = {**env, "PATH": os.pathsep.join([*folders, *other_entries])}
    if environment.python:
        for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME"):
            env.pop(name, None)
        env["CONDA_PREFIX" if environment.is_conda else "VIRTUAL_ENV"] = str(environment.python)
    return env, ""


def _list_ancestors(cwd: Path, root: Path) -> list[Path]:
    """Return `cwd` and the folders above it up to `root`; the root alone if `cwd` is elsewhere."""
    if not cwd.is_relative_to(root):
        return [root]
    return [path for path in (cwd, *cwd.parents) if path.is_relative_to(root)]


def _is_inside(path: Path, root: Path) -> bool:
    """Return True if no link leads from `path` out of the real path `root`."""
    return real_path(path).is_relative_to(root)


def _candidates(folders: list[Path], environ: Environ) -> Iterator[tuple[Path, bool]]:
    """Yield folders that may be environments, each with True if it may be outside the project: one that the person's
    own files or variables name."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if (active := environ.get(name, "")) and Path(active).is_absolute():
            yield Path(active), False
    for folder in folders:
        for name in _IN_PROJECT:
            yield folder / name, False
        if (uv_environment := environ.get("UV_PROJECT_ENVIRONMENT", "")) and (folder / "uv.lock").is_file():
            yield folder / uv_environment, True
        for environment in _poetry_environments(folder, environ):
            yield environment, True
        for name in _CONDA:
            yield folder / name, False
        yield from _find_conda_environment(folder, environ)


def _poetry_environments(folder: Path, environ: Environ) -> list[Path]:
    """Return the environments that poetry keeps in its cache for the project in `folder`, newest version first."""
    if not (folder / "poetry.lock").is_file():
        return []
    value = _read_toml(folder / "pyproject.toml")
    name = _get(value, "project", "name") or _get(value, "tool", "poetry", "name")
    if not isinstance(name, str) or not name or os.sep in name:
        return []
    digest = hashlib.sha256(os.fsencode(os.path.normcase(folder))).digest()
    begin = f"{_UNSAFE_NAME.sub('_', name.lower())[:42]}-{base64.urlsafe_b64encode(digest).decode()[:8]}-py"
    home = environ.get("HOME", "")
    # In the sandbox the variable names the project's own cache.
    caches = (environ.get("POETRY_CACHE_DIR", ""), f"{home}/.cache/pypoetry", f"{home}/Library/Caches/pypoetry")
    paths: list[Path] = []
    for cache in filter(os.path.isabs, caches):
        try:
            names = os.listdir(Path(cache, "virtualenvs"))
        except OSError:
            continue
        paths += (Path(cache, "virtualenvs", environment) for environment in names if environment.startswith(begin))
    return sorted(paths, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name[-5:])], reverse=True)


def _find_conda_environment(folder: Path, environ: Environ) -> Iterator[tuple[Path, bool]]:
    """Yield the environment that `environment.yml` names: in the project, or one of the person's own list."""
    for file in ("environment.yml", "environment.yaml"):
        fields = dict(_CONDA_NAME.findall(_read_text(folder / file)))
        if "prefix" in fields:
            yield folder / fields["prefix"], False
        if "name" in fields:
            listed = _read_text(Path(environ.get("HOME", ""), ".conda", "environments.txt")).splitlines()
            yield from (
                (Path(environment), True) for environment in listed if os.path.basename(environment) == fields["name"]
            )


def _read_version(folder: Path) -> tuple[str | None, bool]:
    """Return the version of the environment in `folder` ("" if unknown, None if it is none), and if conda made it."""
    settings = _read_text(folder / SETTINGS)
    if settings:
        match = _VERSION.search(settings)
        return match[1] if match else "", False
    try:
        names = os.listdir(folder / "conda-meta")
    except OSError:
        return None, False
    return next((match[1] for name in names if (match := _CONDA_PYTHON.fullmatch(name))), ""), True


def _read_text(path: Path) -> str:
    try:
        return read_beginning(path, _MAX).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _read_toml(path: Path) -> Any:
    try:
        return tomllib.loads(_read_text(path))
    except (ValueError, RecursionError):
        return {}


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
