"""Which Python and Node environments of a project are found, and which of them a command gets."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus_cli.config.project_environment import find_project_environment, use_project_environment

PATH = "/usr/bin:/bin"


def venv(folder: Path, version: str = "3.12.4", key: str = "version") -> Path:
    """A Python environment by its files; its interpreter would fail if it were run."""
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\n{key} = {version}\n")
    return folder


def conda(folder: Path, version: str = "3.11.9") -> Path:
    (venv(folder) / "pyvenv.cfg").unlink()
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / f"python-{version}-h955ad1f_0.json").write_text("{}")
    return folder


def poetry(project: Path, home: Path) -> Path:
    (project / "poetry.lock").write_text("")
    (project / "pyproject.toml").write_text('[tool.poetry]\nname = "My Shop"\n')
    digest = base64.urlsafe_b64encode(hashlib.sha256(os.fsencode(project)).digest()).decode()[:8]
    cache = home / ".cache/pypoetry/virtualenvs"
    venv(cache / f"my_shop-{digest}-py3.9", "3.9.1")
    venv(cache / "my_shop-00000000-py3.13", "3.13.0")
    return venv(cache / f"my_shop-{digest}-py3.12")


def named_conda(project: Path, home: Path) -> Path:
    (project / "environment.yml").write_text("name: shop\ndependencies:\n  - python\n")
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{home}/x/other\n{home}/miniconda3/envs/shop\n")
    return conda(home / "miniconda3/envs/shop")


def of_uv(project: Path, _home: Path) -> Path:
    (project / "uv.lock").write_text("")
    return venv(project / "envs/uv", key="version_info")


MADE: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    ".venv": (lambda project, _: venv(project / ".venv"), "python 3.12 from .venv"),
    "venv": (lambda project, _: venv(project / "venv", "3.13.1.final.0", "version_info"), "python 3.13 from venv"),
    "uv": (of_uv, "python 3.12 from envs/uv"),
    "poetry": (poetry, "python 3.12 from {found}"),
    "pixi": (lambda project, _: conda(project / ".pixi/envs/default"), "python 3.11 from .pixi/envs/default"),
    "conda": (lambda project, _: conda(project / ".conda"), "python 3.11 from .conda"),
    "named": (named_conda, "python 3.11 from {found}"),
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    project, home = tmp_path.resolve() / "shop", tmp_path.resolve() / "home"
    project.mkdir()
    home.mkdir()
    return project, home


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": PATH, "UV_PROJECT_ENVIRONMENT": "envs/uv", **more}


@pytest.mark.parametrize("kind", MADE)
def test_each_kind_is_found_and_named_without_running_it(kind: str, places: tuple[Path, Path]) -> None:
    make, told = MADE[kind]
    folder = make(*places)
    env, note = use_project_environment(environ(places[1]), places[0], places[0], is_sandboxed=True)
    assert env["PATH"] == f"{folder}/bin:{PATH}" and not note
    assert env["CONDA_PREFIX" if (folder / "conda-meta").exists() else "VIRTUAL_ENV"] == str(folder)
    found = find_project_environment(places[0], places[0], environ(places[1]))
    assert found.describe() == told.format(found=folder)


def test_of_several_the_first_of_the_order_is_taken(places: tuple[Path, Path]) -> None:
    folders = {kind: make(*places) for kind, (make, _) in MADE.items()}
    for kind, folder in folders.items():
        assert find_project_environment(places[0], places[0], environ(places[1])).python == folder, kind
        for one in folder.parent.glob("my_shop*") if kind == "poetry" else [folder]:
            (one / "bin" / "python").unlink()
    assert find_project_environment(places[0], places[0], environ(places[1])).python is None


def test_the_nearest_folder_and_an_activated_environment_of_the_project_come_first(places: tuple[Path, Path]) -> None:
    project, home = places
    api = project / "packages" / "api"
    near, root, other = venv(api / "venv"), venv(project / ".venv"), venv(project / "py39")
    stranger = venv(home / "elsewhere")
    assert find_project_environment(project, api, environ(home)).python == near
    assert find_project_environment(project, project, environ(home)).python == root
    assert find_project_environment(project, project, environ(home, VIRTUAL_ENV=str(other))).python == other
    env, _ = use_project_environment(environ(home, VIRTUAL_ENV=str(stranger)), project, project, is_sandboxed=True)
    assert env["VIRTUAL_ENV"] == str(root), "one of another project is replaced"


def test_programs_of_node_are_found_from_the_folder_up_to_the_project(places: tuple[Path, Path]) -> None:
    project, home = places
    own, root = project / "web/node_modules/.bin", project / "node_modules/.bin"
    for folder in (own, root, project.parent / "node_modules/.bin"):
        folder.mkdir(parents=True)
    env, _ = use_project_environment(environ(home), project, project / "web", is_sandboxed=True)
    assert env["PATH"] == f"{own}:{root}:{PATH}" and "VIRTUAL_ENV" not in env
    assert find_project_environment(project, project, environ(home)).describe() == "programs of node_modules/.bin"


def test_a_link_out_of_the_project_a_broken_one_and_a_hostile_file_are_passed_over(places: tuple[Path, Path]) -> None:
    project, home = places
    outside = venv(home / "elsewhere")
    (project / ".venv").symlink_to(outside)
    (project / "venv").mkdir()
    (project / "venv" / "bin").symlink_to(outside / "bin")
    (project / "venv" / "pyvenv.cfg").write_text("version = 3.12\n")
    os.mkfifo(project / "pyproject.toml")
    (project / "poetry.lock").write_text("")
    (project / "environment.yml").write_text(f"name: ../../elsewhere\nprefix: {outside}\n")
    (project / "node_modules").mkdir()
    (project / "node_modules" / ".bin").symlink_to(outside / "bin")
    broken = venv(project / "env")
    (broken / "bin" / "python").unlink()
    (broken / "bin" / "python").symlink_to("/nowhere/python3")
    env, note = use_project_environment(environ(home), project, project, is_sandboxed=True)
    assert env == environ(home) and not note
    (project / "pyproject.toml").unlink()
    (project / "pyproject.toml").write_text(f"a = {'1' * 5000}\n")
    assert use_project_environment(environ(home), project, project, is_sandboxed=True) == (environ(home), "")


def test_a_command_outside_the_sandbox_does_not_get_it_and_is_told(places: tuple[Path, Path]) -> None:
    project, home = places
    folder = venv(project / ".venv")
    env, note = use_project_environment(environ(home), project, project, is_sandboxed=False)
    assert env == environ(home) and note.endswith("outside the sandbox: python 3.12 from .venv")
    own = environ(home, PATH=f"{folder}/bin:{PATH}", VIRTUAL_ENV=str(folder))
    assert use_project_environment(own, project, project, is_sandboxed=False) == (own, ""), "the person activated it"
