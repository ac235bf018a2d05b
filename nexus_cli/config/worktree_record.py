"""Find the worktrees of nexus, and keep the record of each: which project it was made of, and from which state.

`data/worktrees/PROJECT/NAME` is the folder in which work is done; `data/worktrees/PROJECT/.NAME` beside it holds the
record, a lock and the store of states (`nexus_cli/workers`). A worktree counts as its source project: its trust, its
facts, its usage.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from nexus_cli.config.paths import Places, places, project_root
from nexus_cli.config.private_file import replace_private_file

RECORD = "record.json"
_SLUG = re.compile(r"[^a-z0-9]+")
_NESTED = 8
"""Worktrees of worktrees that are followed to their source."""


@dataclass(frozen=True, slots=True)
class WorktreeRecord:
    """One worktree as it was made, and what was applied of it."""

    name: str
    folder: Path
    """The real path of the work tree."""
    source: Path
    """The real path of the project that it was made of, which changes are applied to."""
    repository: Path
    """The git folder that both share."""
    branch: str
    """The branch that was made for it; "" before there is one."""
    start: str
    """The commit that was checked out at first."""
    base: str = ""
    """The state that was carried over, a tree in the store; "" while the worktree is being made."""
    applied: str = ""
    """The state up to which changes are in the source project; `base` at first."""
    created: str = ""

    @property
    def home(self) -> Path:
        """Return the folder of the record."""
        return record_folder(self.folder)

    @property
    def store(self) -> Path:
        """Return the folder of the store of states."""
        return self.home / "store"

    @property
    def lock(self) -> Path:
        """Return the file on which those who work in it hold a shared lock."""
        return self.home / "lock"

    def save(self) -> None:
        """Write the record. Raises `OSError`."""
        value = {key: str(item) for key, item in asdict(self).items()}
        replace_private_file(self.home / RECORD, json.dumps({"version": 1, **value}, indent=1).encode())


def record_folder(folder: Path) -> Path:
    """Return the folder of the record of the worktree in `folder`."""
    return folder.with_name(f".{folder.name}")


def worktrees_of(source: Path, own: Places | None = None) -> Path:
    """Return the folder of the worktrees of the project `source`, existing or not."""
    real = os.path.realpath(source)
    slug = _SLUG.sub("-", os.path.basename(real).lower()).strip("-")[:40]
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:10]
    return worktrees_root(own) / f"{slug or 'project'}-{digest}"


def read_records(folder: Path) -> Iterator[WorktreeRecord]:
    """Yield the records in a folder of worktrees, by name."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("."))
    except OSError:
        return
    for name in names:
        record = read_record(folder / name[1:])
        if record is not None:
            yield record


def read_all_records(own: Places | None = None) -> Iterator[WorktreeRecord]:
    """Yield the records of all projects."""
    try:
        folders = sorted(os.listdir(worktrees_root(own)))
    except OSError:
        return
    for name in folders:
        yield from read_records(worktrees_root(own) / name)


def read_record(folder: Path) -> WorktreeRecord | None:
    """Return the record of the worktree in `folder`; None if there is none, or it cannot be read."""
    try:
        value = json.loads((record_folder(folder) / RECORD).read_bytes())
        texts = {key: str(value[key]) for key in ("name", "branch", "start", "base", "applied", "created")}
        source, repository = Path(value["source"]), Path(value["repository"])
        return WorktreeRecord(folder=folder, source=source, repository=repository, **texts)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_worktree(place: Path, own: Places | None = None) -> WorktreeRecord | None:
    """Return the record of the worktree that `place` is or lies in; one look at names where it is in none."""
    root = str(worktrees_root(own))
    real = os.path.realpath(place)
    if not real.startswith(root + os.sep):
        return None
    project, _, rest = real[len(root) + 1 :].partition(os.sep)
    name = rest.partition(os.sep)[0]
    return read_record(Path(root, project, name)) if name and not name.startswith(".") else None


def find_source(project: Path, own: Places | None = None) -> Path:
    """Return the project that the root `project` counts as: of a worktree its source, else itself."""
    for _ in range(_NESTED):
        record = find_worktree(project, own)
        if record is None or os.path.realpath(project) != str(record.folder):
            break
        project = record.source
    return project


def project_identity(folder: Path) -> Path:
    """Return the project under which sessions in `folder` are recorded, see `find_source`."""
    return find_source(project_root(folder))


def worktrees_root(own: Places | None = None) -> Path:
    """Return the folder of all worktrees, existing or not."""
    return Path(os.path.realpath((own or places()).data), "worktrees")
