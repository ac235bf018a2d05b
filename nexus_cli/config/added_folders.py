"""Further folders of a session (`--add-dir`, `/add-dir`): used like the project, but settings in them do not apply."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nexus_cli.config.paths import home_folder, places
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.real_files import real_path
from nexus_cli.core.shared_types import Paths

_HINT = "Name an existing folder that you can read"


def check_folder(path_text: str, project: Path, added: Sequence[Path] = (), option: str = "--add-dir") -> Path:
    """Return the real path of a folder to add.

    Raises `UsageError` for one that cannot be read, is part of the project or of an `added` folder, or
    contains one of them, the home folder, or credentials.
    """
    try:
        real = real_path(os.path.expanduser(path_text))
    except (OSError, ValueError) as error:  # no name of a file: it has a NUL, or no bytes
        raise UsageError(option, "not a valid path", _HINT) from error
    home = real_path(home_folder())
    secrets = SecretPlaces(places(), project)
    hint = _HINT
    if not os.path.lexists(real):
        why = "there is no such folder"
    elif not real.is_dir():
        why = "not a folder"
    elif not os.access(real, os.R_OK | os.X_OK):
        why = "cannot be read"
    elif home.is_relative_to(real):
        why, hint = "this folder is or contains your home folder", "Name one of its subfolders"
    elif secrets.find(real) or secrets.are_below(real):
        why, hint = "this folder contains credentials or nexus's own files", "Name a folder without them"
    elif real.is_relative_to(project):
        why, hint = "this folder is already in the project", "Omit this folder"
    elif project.is_relative_to(real):
        why, hint = "this folder contains the project", f"To work in the whole folder: nexus -C {real}"
    elif path := next((path for path in added if real.is_relative_to(path)), None):
        why, hint = f"{path} is already added", "Omit this folder"
    elif path := next((path for path in added if path.is_relative_to(real)), None):
        why, hint = f"the subfolder {path} is already added", "Only one of the two can be added"
    else:
        return real
    raise UsageError(f"{option} {one_line(path_text)[:200]}".rstrip(), why, hint)


def check_folders(folders: Iterable[str], project: Path) -> Paths:
    """Return the real paths of the folders of `--add-dir`; raise as `check_folder`."""
    added: list[Path] = []
    for folder in folders:
        added.append(check_folder(folder, project, added))
    return tuple(added)


def merge_folders(kept_folders: Iterable[str], added: Sequence[Path], project: Path) -> tuple[Paths, list[str]]:
    """Return the `added` folders with those that a session kept, and a notice for each of these that is unusable."""
    folders, notices = list(added), []
    for folder in kept_folders:
        if Path(folder) in folders:
            continue
        # It was real when it was added: a link has taken its place, or that of a folder above it.
        if os.path.realpath(folder) != folder:
            notices.append(f"added folder {one_line(folder)[:200]} ignored: the path now contains a symbolic link")
            continue
        try:
            folders.append(check_folder(folder, project, folders, "the added folder"))
        except NexusError as error:
            notices.append(f"{error.message}; ignored")
    return tuple(folders), notices
