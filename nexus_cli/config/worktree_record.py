"""Find the worktrees of nexus, and store the record of each: its source project and the state it was made from.

`data/worktrees/PROJECT/NAME` is the work tree; `data/worktrees/PROJECT/.NAME` beside it has the record, a lock and the
store of snapshots (`nexus_cli/worktrees`). Trust, facts and usage of a worktree are those of its source project.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from nexus_cli.config.paths import Places, places, project_root
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.json_value import JsonOf
from nexus_cli.core.real_files import read_regular, real_path

RECORD = "record.json"
MAX_OF_LINK = 8192
"""Most bytes of a file of git that names a folder."""
REFERENCE = re.compile(rb"ref:\s*(refs/[^\0\n]*[^\0\s])\s*|(?!0+\s*\Z)([0-9a-f]{40}|[0-9a-f]{64})\s*")
"""Content of HEAD and of a branch: another reference, or a commit."""
_SLUG = re.compile(r"[^a-z0-9]+")
_NESTED = 8
"""Most nested worktrees that are followed to their source."""


@dataclass(frozen=True, slots=True)
class WorktreeRecord:
    """One worktree: its origin, and the state applied to its source project."""

    json_fields: ClassVar = "name project:source folder branch created"
    name: str
    folder: Path
    """The real path of the work tree."""
    source: Path
    """The real path of the source project, to which changes are applied."""
    repository: Path
    """The git folder of both."""
    branch: str
    """The branch created for the worktree; "" if none has been created yet."""
    start: str
    """The commit checked out at first."""
    base: str = ""
    """The tree in the store with the source project's state that was copied; "" while the worktree is being made."""
    applied: str = ""
    """The tree in the store up to which changes were applied to the source project; `base` at first."""
    created: str = ""
    merged: Mapping[str, str] = field(default_factory=dict)
    """By the path of a project file that changes were merged into: its blobs before, separated by blanks."""

    @property
    def home(self) -> Path:
        """Return the folder of the record."""
        return record_folder(self.folder)

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def lock(self) -> Path:
        """Return the lock file; sessions that work in the worktree hold it shared."""
        return self.home / "lock"

    def save(self) -> None:
        """Write the record. Raises `OSError`."""
        value = {key: str(item) if isinstance(item, Path) else item for key, item in asdict(self).items()}
        replace_private_file(self.home / RECORD, json.dumps({"version": 1, **value}, indent=1).encode())


WorktreeCondition = Literal["missing", "unreadable", "empty", "applied", "changed"]


class WorktreeObject(JsonOf[WorktreeRecord]):
    """A worktree and its changes."""

    state: WorktreeCondition
    in_use: bool
    files: int
    added: int
    removed: int
    commits: int
    kept: list[str]
    carried: list[str]
    """Ignored paths that were copied from the project; they are not part of the changes."""
    problem: str


def record_folder(folder: Path) -> Path:
    """Return the folder with the record of the worktree `folder`."""
    return folder.with_name(f".{folder.name}")


def worktrees_of(source: Path, folders: Places | None = None) -> Path:
    """Return the folder of the worktrees of the project `source`, existing or not."""
    real = os.path.realpath(source)
    slug = _SLUG.sub("-", os.path.basename(real).lower()).strip("-")[:40]
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:10]
    return worktrees_root(folders) / f"{slug or 'project'}-{digest}"


def read_records(folder: Path) -> Iterator[WorktreeRecord]:
    """Yield the records of the worktrees in a folder, sorted by name."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("."))
    except OSError:
        return
    for name in names:
        record = read_record(folder / name[1:])
        if record is not None:
            yield record


def read_project_records(project: Path) -> list[WorktreeRecord]:
    """Return the records of the worktrees of `project` by name, then those of worktrees made from them."""
    worktrees = list(read_records(worktrees_of(project)))
    for record in worktrees:
        worktrees += read_records(worktrees_of(record.folder))  # the loop visits them too
    return worktrees


def read_all_records() -> Iterator[WorktreeRecord]:
    """Yield the records of all projects."""
    try:
        folders = sorted(os.listdir(worktrees_root()))
    except OSError:
        return
    for name in folders:
        yield from read_records(worktrees_root() / name)


def read_record(folder: Path) -> WorktreeRecord | None:
    """Return the record of the worktree `folder`; None if it is missing or invalid."""
    try:
        value = json.loads((record_folder(folder) / RECORD).read_bytes())
        texts = {key: str(value[key]) for key in ("name", "branch", "start", "base", "applied", "created")}
        source, repository = Path(value["source"]), Path(value["repository"])
        merged = {str(path): str(blobs) for path, blobs in value.get("merged", {}).items()}
        return WorktreeRecord(folder=folder, source=source, repository=repository, merged=merged, **texts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def find_worktree(place: Path, folders: Places | None = None) -> WorktreeRecord | None:
    """Return the record of the worktree that `place` is in, None if it is in none (found without reading files)."""
    root = str(worktrees_root(folders))
    real = os.path.realpath(place)
    if not real.startswith(root + os.sep):
        return None
    project, _, inner_path = real[len(root) + 1 :].partition(os.sep)
    name = inner_path.partition(os.sep)[0]
    return read_record(Path(root, project, name)) if name and not name.startswith(".") else None


def is_removed(folder: Path) -> bool:
    """Return True for a folder in a worktree of this data folder that no longer exists."""
    return real_path(folder).is_relative_to(worktrees_root()) and find_worktree(folder) is None


def read_git_file(project: Path) -> Path | None:
    """Return the real path of the git folder that the file `.git` of a project names, None if there is no such file."""
    with suppress(OSError, ValueError):
        target = named_folder(read_regular(project / ".git", MAX_OF_LINK))
        return real_path(project / target) if target else None
    return None


def named_folder(git_file: bytes) -> str:
    """Return the folder that a `.git` file names, "" if it names none."""
    kind, _, target = git_file.partition(b": ")
    return os.fsdecode(target.strip()) if kind == b"gitdir" and b"\0" not in target else ""


def read_head(git: Path) -> str:
    """Return the reference or the commit that HEAD names in a git folder, a real path; "" for what git does not accept.
    Raises `OSError`."""
    match = REFERENCE.fullmatch(read_regular(git / "HEAD", MAX_OF_LINK))
    return (match[1] or match[2]).decode("utf-8", "replace") if match else ""


def find_source(project: Path, folders: Places | None = None) -> Path:
    """Return the source project of the root `project` if that is a worktree, else `project`."""
    for _ in range(_NESTED):
        record = find_worktree(project, folders)
        if record is None or os.path.realpath(project) != str(record.folder):
            break
        project = record.source
    return project


def project_identity(folder: Path) -> Path:
    """Return the project under which sessions in `folder` are recorded: the root of its source project."""
    return find_source(project_root(folder))


def worktrees_root(folders: Places | None = None) -> Path:
    """Return the folder of all worktrees, existing or not."""
    return Path(os.path.realpath((folders or places()).data), "worktrees")
