"""`[[check]]`: commands that look at the files that a step has edited; those of the settings, and those found.

Found by reading a project's files: nothing is run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from nexus_cli.config.host_environment import host_environment
from nexus_cli.config.programs import find_program
from nexus_cli.config.project_environment import find_project_environment
from nexus_cli.core.json_value import is_number
from nexus_cli.core.real_files import read_real

FILES = "{files}"
"""Stands in a command for the edited files; a command without it looks at the whole project."""
SECONDS = 20.0
_MAX = 64 * 1024
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EditCheck:
    """One command."""

    glob: str
    """Pattern of file names, or of paths in the project if it has a `/`."""
    command: str
    seconds: float = SECONDS

    @property
    def name(self) -> str:
        """Its command on one line, without the place of the files."""
        return " ".join(self.command.replace(FILES, "").split())

    @property
    def program(self) -> str:
        """The first word of the command that sets no variable."""
        return next((os.path.basename(word) for word in self.command.split() if "=" not in word), "")

    def matches(self, path: str) -> bool:
        """Return True for a path, relative to the project, of a file that it looks at."""
        return fnmatch(path if "/" in self.glob else path.rpartition("/")[2], self.glob)


_DETECTED_CHECKS = (
    (
        ("ruff.toml", ".ruff.toml"),
        "ruff",
        "*.py",
        "ruff check --quiet --no-cache --output-format=concise {files}",
        20.0,
    ),
    (("tsconfig.json",), "tsc", "*.ts*", "tsc --noEmit --incremental false --pretty false", 30.0),
    (("go.mod",), "go", "*.go", 'GOCACHE="$TMPDIR/go-build" GOTOOLCHAIN=local go vet ./...', 30.0),
    (
        ("Cargo.lock",),
        "cargo",
        "*.rs",
        'CARGO_TARGET_DIR="$TMPDIR/cargo" cargo check --quiet --offline --message-format=short',
        60.0,
    ),
)
"""Files that say that a project uses a program, its name, and its check."""
_RUNS_PROJECT = ("cargo",)
"""Programs whose check runs code of the project."""


def parse_check(value: object) -> EditCheck:
    """Return the check of a table `[[check]]`; raise `ValueError` with what is wrong in it."""
    if not isinstance(value, dict):
        raise ValueError("not a [[check]] table")
    if unknown := [key for key in value if key not in ("glob", "command", "seconds")]:
        raise ValueError(f"unknown key `{unknown[0]}`, expected `glob`, `command` and optionally `seconds`")
    for key in ("glob", "command"):
        if not isinstance(value.get(key), str) or not value[key].strip():
            raise ValueError(f"`{key}` is missing, empty or not a string")
    if any(FILES in part for part in _QUOTED.findall(value["command"])):
        raise ValueError(f"`command` has {FILES} in quotes; its paths are quoted already")
    seconds = value.get("seconds", SECONDS)
    if not is_number(seconds) or not 0 < seconds < sys.float_info.max:
        raise ValueError("`seconds` is not a positive number")
    return EditCheck(value["glob"], value["command"], float(seconds))


def list_checks(
    project: Path,
    configured: Sequence[EditCheck] | None,
    *,
    runs_project: bool,
    added: Sequence[EditCheck] = (),
) -> tuple[EditCheck, ...]:
    """Return the configured checks, those `added` by plugins, and those found for other programs; `configured` () means
    none at all.

    `runs_project` includes programs in the project's own environments, and checks that run its code.
    """
    if configured is not None and not configured:
        return ()
    mine = (*(configured or ()), *added)
    configured_programs = {check.program for check in mine}
    programs: list[Path] | None = None
    checks = []
    for files, program, glob, command, seconds in _DETECTED_CHECKS:
        if program in configured_programs or not (
            any((project / name).is_file() for name in files) or _is_in_pyproject(project, program)
        ):
            continue
        if program in _RUNS_PROJECT and not runs_project:
            continue
        if runs_project and programs is None:
            environment = find_project_environment(project, project, os.environ)
            programs = [*([environment.python / "bin"] if environment.python else []), *environment.node]
        inside = any(os.access(folder / program, os.X_OK) for folder in programs or ())
        if inside or find_program(program, project, host_environment(os.environ, project)):
            checks.append(EditCheck(glob, command, seconds))
    return (*mine, *checks)


def _is_in_pyproject(project: Path, program: str) -> bool:
    try:
        data, _ = read_real(os.path.join(os.path.realpath(project), "pyproject.toml"), _MAX)
        return f"[tool.{program}".encode() in data
    except (OSError, ValueError):
        return False
